"""Nothing of ours listens outside loopback and the lab: where an open address is asked for, it is known and inside."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import nbformat

from tests.support.places import LIB, ROOT, files_of_packages

OPEN = re.compile(
    r"""0\.0\.0\.0(?!/)|(?<!\w)\[::\]|["']::["']|INADDR_ANY|in6addr_any|inet_interfaces *= *all|listen=YES"""
)
# Who listens on every address, and where that is: inside a node, a guest or a pod, in networks without a way out.
KNOWN = {
    "infrabench_platforms/lab/guest/overlay/etc/infrabench/web/apache2.conf": "the target's web server",
    "infrabench_platforms/lab/guest/overlay/etc/infrabench/ftp/vsftpd.conf": "the target's FTP server",
    "infrabench_platforms/lab/guest/overlay/etc/infrabench/mail/main.cf": "the target's mail server",
    "infrabench_platforms/lab/guest/overlay/etc/infrabench/mail/master.cf": "the same",
    "infrabench_platforms/lab/pod/pods/serve.c": "starts tools in other pods; it takes orders from who knows its token",
}
TEXT = {".py", ".sh", ".c", ".h", ".conf", ".cf", ".json", ".service", ".txt", ""}
# Calls that make a server of this process or of one that it starts, beside sockets.
SERVERS = {"HTTPServer", "ThreadingHTTPServer", "TCPServer", "start_server", "create_server", "serve_forever"}


def _files() -> list[Path]:
    every = [*files_of_packages("*"), *(ROOT / "scripts").iterdir(), ROOT / "Makefile"]
    kept = [path for path in every if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts]
    return sorted(path for path in kept if path.name not in {"go.sum", "go.mod"})


def _asked(text: str) -> list[str]:
    """Return the lines, comments left out, that name an address which stands for all."""
    code = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [line.strip() for line in code if OPEN.search(line)]


def test_open_addresses_are_asked_for_only_where_they_are_known_to_be_inside() -> None:
    found = {path.relative_to(LIB).as_posix(): _asked(path.read_text(errors="replace")) for path in _files()
             if path.is_relative_to(LIB)}  # fmt: skip
    asking = {
        name for name, lines in found.items() if lines and name != "infrabench/machines/sites/redaction.py"
    }  # which names them to leave them be
    assert asking == set(KNOWN)
    outside = {path.name: _asked(path.read_text()) for path in _files() if not path.is_relative_to(LIB)}
    assert not any(outside.values())


def test_the_search_finds_them_and_nothing_else() -> None:
    opened = [
        "Listen 0.0.0.0:80", "--bind-address=0.0.0.0", "s.bind(('0.0.0.0', 1))", "addr = '::'", "listen [::]:80",
        "a.sin_addr.s_addr = INADDR_ANY;", "inet_interfaces = all",
    ]  # fmt: skip
    others = ["# 0.0.0.0", "ip route add 0.0.0.0/0", "a::b", "x[::2]", "127.0.0.1", "a[::]"]
    assert [line for line in opened + others if _asked(line)] == opened


def _binds(path: Path) -> list[str]:
    """Return what sockets of a Python file are bound to, and the servers that it makes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if (name == "bind" and len(node.args) == 1) or name in SERVERS:
                found.append(ast.unparse(node.args[0]) if node.args else name)
    return found


def test_no_program_of_ours_listens() -> None:
    every = {path.relative_to(LIB).as_posix(): _binds(path) for path in files_of_packages()}
    assert {name: binds for name, binds in every.items() if binds} == {}


def test_what_clusters_offer_without_asking_who_is_there_stays_on_loopback() -> None:
    control = (LIB / "infrabench_platforms/clusters/control.py").read_text()
    assert "--listen-client-urls=http://{loopback}" in control  # etcd
    assert 'loopback = plane.host, "127.0.0.1"' in control
    assert '"metricsBindAddress": "127.0.0.1:10249"' in (LIB / "infrabench_platforms/clusters/workers.py").read_text()


def _jupyter() -> list[str]:
    """Return every command line that starts JupyterLab: of the Makefile, and of the package."""
    command = ["make", "-n", "-o", "system", "-o", "env", "notebook"]
    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asking = [path for path in files_of_packages() if "ServerApp" in path.read_text()]
    nodes = [node for path in asking for node in ast.walk(ast.parse(path.read_text()))]
    lists = [ast.unparse(node) for node in nodes if isinstance(node, ast.List | ast.Tuple)]
    return [line for line in (*recipe.splitlines(), *lists) if "ServerApp" in line]


def test_jupyterlab_listens_on_loopback_alone_and_asks_for_its_token() -> None:
    lines = _jupyter()
    assert any("ServerApp.ip=127.0.0.1" in line for line in lines)
    for line in lines:
        assert not re.search(r"(token|password|allow_origin|disable_check_xsrf)\s*=", line), line
        assert "allow_remote_access=True" not in line
        assert not re.search(r"ip\s*=\s*(?!127\.0\.0\.1)", line), line


def test_a_kernel_of_an_unattended_run_opens_no_port() -> None:
    assert '"transport": "ipc"' in (LIB / "infrabench/notebook/headless.py").read_text()


def test_no_file_of_the_checkout_holds_a_key_or_a_token() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    shape = re.compile(
        rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{20}|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bAKIA[0-9A-Z]{16}\b"
        rb"|\bxox[bap]-[0-9A-Za-z-]{20}|client-key-data: *[A-Za-z0-9+/=]{20}|://[^/\s:@\"'{}]+:[^/\s:@\"'{}]{3,}@"
    )
    files = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    tests = ROOT / "lib/tests"
    kept = [path for path in files if path.is_file() and tests not in path.parents]
    assert [str(path) for path in kept if shape.search(path.read_bytes())] == []


def test_notebooks_hold_no_host_names_or_addresses() -> None:
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        text = "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
        assert not re.search(r"(?<![\d.])\d{1,3}(\.\d{1,3}){3}(?![\d.])|/home/|/root/", text), path.name
