"""One session at a time on a host: by a lock of its kernel, over SSH too, and free when its holder dies."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from infrabench.cli import hosts
from infrabench.core import Host, SiteError, locks
from infrabench.machines.hosts import claims, marks
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.inventory import Teams, parse_inventory
from infrabench.machines.sites.prepare import apply
from infrabench.machines.sites.site import open_site
from tests.support import ssh_server

# A controller of its own: claims a host, says so, and stays until it is told to end, or killed.
CONTROLLER = """
import sys
from pathlib import Path
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost, SSHHost
claims.is_one_kernel = lambda a, b: False  # as if the server were another machine
address, port, user, key, known = sys.argv[1:]
host = LocalHost()
if key:
    host = SSHHost("server", address, user=user, port=int(port), key=Path(key), known_hosts=Path(known))
with claims.claim_hosts([host], claims.make_holder("first")):
    print("claimed", flush=True)
    sys.stdin.read()
host.close()
"""


@pytest.fixture(params=["local", "over SSH"])
def login(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ssh_server.Login | None]:
    monkeypatch.setattr(claims, "is_one_kernel", lambda a, b: False)
    if request.param == "local":
        yield None
        return
    with ssh_server.serving(tmp_path) as found:
        yield found


def reached(login: ssh_server.Login | None) -> Host:
    return LocalHost("here") if login is None else login.host()


@contextmanager
def controller(login: ssh_server.Login | None) -> Iterator[subprocess.Popen[str]]:
    """Yield another controller that has claimed the host; it is killed with the context."""
    words = ("", "0", "", "", "") if login is None else (
        login.address, str(login.port), login.user, str(login.key), str(login.known_hosts)
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "claimed\n"
            yield child
        finally:
            child.kill()


def test_the_second_is_told_who_has_the_host_and_a_killed_holder_frees_it(
    login: ssh_server.Login | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = reached(login)
    with controller(login) as first:
        monkeypatch.setattr(claims, "WAIT_S", 0.0)
        with pytest.raises(SiteError) as refused, claims.claim_hosts([host], claims.make_holder("second")):
            pass
        who = f"session first of user .* \\(process {first.pid} on {platform.node()}\\) since 2.*T.*:.*"
        assert refused.match(f"^{host.name} is in use by {who}. Two sessions on one host would disturb each other")
        monkeypatch.undo()
        monkeypatch.setattr(claims, "is_one_kernel", lambda a, b: False)
        os.kill(first.pid, signal.SIGKILL)
        with claims.claim_hosts([host], claims.make_holder("second")):
            assert first.wait(10) == -signal.SIGKILL
    host.close()


def test_a_process_of_this_machine_that_is_gone_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a host that was cut off: it holds the claim until it hears that the connection is lost."""
    caplog.set_level("INFO")
    monkeypatch.setattr(claims, "WAIT_S", 0.0)
    with subprocess.Popen(["true"]) as ended:
        pass
    lost, host = {**claims.make_holder("lost"), "pid": ended.pid}, LocalHost("here")
    with ExitStack() as stack:
        stack.enter_context(claims.claim_hosts([host], lost))
        threading.Timer(1.0, stack.pop_all().close).start()
        with claims.claim_hosts([host], claims.make_holder("next")):
            assert "here is still held for session lost of user" in caplog.text
    monkeypatch.setattr(claims, "RELEASE_S", 0.0)
    for other in (lost, {**lost, "controller": "another"}, {**lost, "pid": os.getpid()}, {**lost, "pid": "x"}):
        with claims.claim_hosts([host], other), pytest.raises(SiteError, match="here is in use by session lost"):
            claims.claim_hosts([host], claims.make_holder("next")).__enter__()


def test_a_holder_has_a_host_once_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(claims, "WAIT_S", 0.0)
    holder = claims.make_holder("one")
    with ssh_server.serving(tmp_path) as login:
        server = reached(login)
        with claims.claim_hosts([server, LocalHost("a"), LocalHost("b")], holder):
            with claims.claim_hosts([server], holder):
                pass
            with pytest.raises(SiteError, match="in use by session one"):
                claims.claim_hosts([server], claims.make_holder("two")).__enter__()
        with claims.claim_hosts([server], claims.make_holder("two")):
            pass
        server.close()


def test_a_host_without_python_or_lock_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(SiteError) as error:
            claims.claim_hosts([LocalHost("here")], claims.make_holder("one")).__enter__()
        return str(error.value)

    script = "import fcntl\nfcntl.flock = None\nraise SystemExit(1)"
    monkeypatch.setattr(claims, "probe", lambda path: ("python3", "-c", script))
    assert "here: it cannot be claimed for this session (the process ended)" in refused()
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "has it python3?" in refused()


def test_what_another_holder_says_of_itself_is_no_text_for_a_terminal() -> None:
    shown = claims.describe_holder({"session": "\x1b[2J" + "x" * 500, "user": 1})
    assert shown.isprintable()
    assert len(shown) < 2 * claims.LONGEST


def test_any_process_that_holds_the_lock_keeps_sessions_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "WAIT_S", 0.0)
    folder = Path(marks.lock_folder())
    with locks.locked(folder), pytest.raises(SiteError, match=f"does not say who it is.*`fuser {folder}` there"):
        claims.claim_hosts([LocalHost()], claims.make_holder("one")).__enter__()


def test_nobody_holds_a_host_by_what_he_leaves_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is locked is there already, may be opened by all, and nothing is written beside it."""
    folder = tmp_path / "lock"
    folder.mkdir()
    folder.chmod(0o555)
    monkeypatch.setenv(marks.LOCKS, str(folder))
    for name in ("one", "two"):
        with claims.claim_hosts([LocalHost()], claims.make_holder(name)):
            assert list(folder.iterdir()) == []


def test_a_site_is_claimed_for_a_session_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(claims, "WAIT_S", 0.0)
    with ssh_server.serving(tmp_path) as login:
        inventory = tmp_path / "hosts.yml"
        inventory.write_text(
            yaml.safe_dump({"name": "two", "hosts": {"server": login.machine}, "known_hosts": str(login.known_hosts)})
        )
        for first, second in (("local", str(inventory)), (str(inventory), "local")):
            with open_site(first, session="one"):
                with open_site(second):
                    pass  # who only looks claims nothing
                with pytest.raises(SiteError, match="in use by session one"):
                    open_site(second, session="two").__enter__()
            with open_site(second, session="two"):
                pass


def test_machines_of_a_cluster_are_claimed_before_anything_is_brought(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = {"address": "127.0.0.1", "user": "nobody"}
    team = {"control": machine, "worker1": {**machine, "address": "127.0.0.2"}}
    raw = {"name": "x", "hosts": {"server": machine}, "clusters": {"flannel": team}}
    asked: list[list[str]] = []

    @contextmanager
    def claim(hosts, holder):
        asked.append([host.name for host in hosts])
        raise SiteError("in use")
        yield

    monkeypatch.setattr(claims, "claim_hosts", claim)
    monkeypatch.setattr("infrabench_platforms.provider.open_cluster", lambda *_: pytest.fail("it was borrowed"))
    teams = Teams(parse_inventory(Path("x.yml"), raw), print, claims.make_holder("one"))
    with pytest.raises(SiteError, match="in use"):
        teams.machines("flannel", (), 1).__enter__()
    assert asked == [["flannel-control", "flannel-worker1"]]


def test_a_host_that_is_measured_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = SimpleNamespace(absent=frozenset({"fio"}))
    planned = SimpleNamespace(host=LocalHost("here"), commands=("install",), by_hand=False, survey=survey)
    monkeypatch.setattr(hosts, "_sites", lambda *_: {Path("x.yml"): SimpleNamespace(untold=())})
    monkeypatch.setattr(hosts, "_hosts", lambda *_, alone: [planned])
    monkeypatch.setattr(apply, "make_plans", lambda *_: [planned])
    monkeypatch.setattr(apply, "apply_plans", lambda *_: pytest.fail("it was changed"))
    monkeypatch.setattr(apply, "render_plans", lambda *_: ())
    monkeypatch.setattr(claims, "WAIT_S", 0.0)
    asked = {"inventories": ["x.yml"], "study": [], "systems": None, "workloads": None}
    arguments = Namespace(**asked, upgrade=False, update=False, dry_run=False, yes=True)
    told = pytest.raises(SiteError, match="here is in use by session one")
    with claims.claim_hosts([LocalHost()], claims.make_holder("one")), told:
        list(hosts.prepare(arguments))
