"""Nothing that a session, a notebook, a report or an archive holds says how to get into the user's machines.

Secrets are planted where users have them: in the environment, in an inventory, a kubeconfig, in URLs and in the output
of tools. Then a real session is run through a real SSH connection, and every file that came of it is searched.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infrabench.experiment.execution.reparse import compare
from infrabench.ledger.archive import pack, unpack
from infrabench.ledger.records import read_trials, verify
from infrabench.machines.sites import redaction
from tests.support.campaigns import link_programs, write_notebook
from tests.support.ssh_server import Login, serving

ADDRESS = "127.83.41.7"  # loopback in fact, and any address to the suite
PLANTED = {
    "TOKEN": "planted-token-5f1d", "AWS_SECRET_ACCESS_KEY": "planted-aws-8c2e", "MY_PASSWORD": "planted-password-77aa",
    "HTTPS_PROXY": "http://me:planted-proxy-31c9@proxy.example:3128",
}  # fmt: skip
IN_URL = "hunter2-in-url"
PLUGINS = Path(__file__).parent / "plugins"
CELLS = (
    "profile = 'smoke'\nsite = 'local'",
    "import infrabench as ib",
    "wanted = ib.request('talk', profile=profile)\nsession = ib.run_or_load(wanted, mode='run', site=site)",
    "display(ib.plan_table(wanted), session.data, session.table, session.folder.name)",
    "display(ib.provenance_table(session), ib.deployments_table(session))",
    "display(ib.validity_table(session), ib.reasons_table(session))",
)


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    with serving(tmp_path_factory.mktemp("keys"), address=ADDRESS, user="planted-user-90d3") as made:
        yield made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for sessions, with the programs of this machine but the one that would make an image."""
    folder = tmp_path_factory.mktemp("home")
    link_programs(folder / "bin", "mmdebstrap")
    write_notebook(folder / "talk.ipynb", *CELLS)
    return folder


@pytest.fixture(scope="module")
def inventory(home: Path, login: Login) -> Path:
    gateways = {"bastion": {"address": "bastion.planted.example", "user": "planted-jumper-1b"}}
    path = home / "hosts.yml"
    hosts = {"name": "two-servers", "hosts": {"server": login.machine}, "known_hosts": str(login.known_hosts)}
    path.write_text(yaml.safe_dump({**hosts, "gateways": gateways}))
    return path


@pytest.fixture(scope="module", params=["local", "inventory"])
def made(request: pytest.FixtureRequest, home: Path, inventory: Path) -> Path:
    """A folder with all that comes of a session: itself, notebook, figures, tables, report and archive."""
    out, site = home / request.param, "local" if request.param == "local" else str(inventory)
    env = {
        **os.environ, **PLANTED, "PATH": str(home / "bin"), "INFRABENCH_HOME": str(out),
        "INFRABENCH_PLUGINS": str(PLUGINS), "INFRABENCH_STATE": str(home / "state"),
    }  # fmt: skip
    out.mkdir()
    said = ""
    for command in (
        ["notebook", "run", home / "talk.ipynb", out / "talk.ipynb", "-p", "site", site],
        ["report", out / "talk.ipynb", "--out", out],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "infrabench.cli", *map(str, command)], env=env, capture_output=True, text=True,
            cwd=home, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said += done.stdout + done.stderr
    (out / "said").write_text(said)
    unpack(pack(session_of(out), out / "session.tar.xz"), out / "unpacked")
    (out / "session.tar.xz").unlink()  # searched unpacked
    return out


def found(folder: Path, pattern: str) -> list[str]:
    """Return where a pattern stands in the files below `folder`, by file and with what is around it."""
    shape = re.compile(rb".{0,40}" + pattern.encode() + rb".{0,20}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [f"{path}: {hit!r}" for path in files for hit in shape.findall(path.read_bytes())]


def session_of(made: Path) -> Path:
    return next((made / "data/runs/talk").iterdir())


def test_everything_was_really_made_and_the_tools_did_talk(made: Path) -> None:
    states = sorted(record.state for record in read_trials(session_of(made)))
    assert states == ["failed", "failed", "ok", "ok"]
    said = next(session_of(made).glob("trials/*/tool.stdout")).read_text()
    assert "value=7" in said
    assert "PATH=" in said  # it did print its environment
    assert len(list(made.rglob("report/*.html"))) >= 2
    assert found(made / "unpacked", "value=7")
    assert found(made, "reached_at")  # and the notebook showed what systems say


@pytest.mark.parametrize(
    "secret",
    [
        "planted-token", "planted-aws", "planted-password", "planted-proxy", ADDRESS, "planted-user-90d3",
        "planted-jumper-1b", "bastion.planted.example", IN_URL, "PRIVATE KEY",
    ],
)  # fmt: skip
def test_no_secret_and_no_way_in_is_in_what_is_written(made: Path, secret: str) -> None:
    assert found(made, rf"(?<![0-9]\.){re.escape(secret)}(?!\.[0-9])") == []


def test_no_address_of_the_host_is_in_what_is_written(inventory: Path, home: Path, made: Path) -> None:
    """A tool prints addresses that no inventory names: those that the host has are asked for, and kept out too."""
    if made.name == "local":
        return
    script = Path(redaction.__file__).parents[1] / "hosts" / "probes" / "addresses.py"
    own = json.loads(subprocess.run([sys.executable, script], capture_output=True, check=True, timeout=20).stdout)
    assert own
    assert [hit for each in own for hit in found(made, rf"(?<![0-9.]){re.escape(each)}(?![0-9])")] == []


def test_the_name_of_the_host_stands_where_its_address_stood(made: Path) -> None:
    if made.name == "local":
        return
    outputs = {path.read_text() for path in session_of(made).glob("trials/*/tool.stdout")}
    told = f"connected to server from server:5201 (see https://server/x), not to {ADDRESS}.9 nor to 1.{ADDRESS}"
    assert all(told in text for text in outputs)
    assert found(made, "cannot reach server\\.")
    data = json.loads((session_of(made) / "session.json").read_text())
    assert data["not_run"] == {"absent": "nothing answers at https://server:6443"}


def test_the_session_is_whole_and_reads_the_same_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_PLUGINS", str(PLUGINS))
    assert verify(session_of(made)) == []
    assert compare(session_of(made)).differences == ()
