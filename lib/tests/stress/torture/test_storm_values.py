"""Hostile values wherever a person may write one: a named error before anything is made, and no shell sees them."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import DesignError, InfrabenchError, NotRunnable, Step, Target, plan_steps
from infrabench.experiment.design.design import completed
from infrabench.experiment.execution import runs
from infrabench.ledger import catalogue
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import name_and_kind, open_site, read_file
from infrabench.notebook import api
from infrabench.notebook.headless import execute
from tests.support.campaigns import write_notebook
from tests.support.fakes import PLUGINS
from tests.support.storm import SEED, Memory, size

LONG_TEXT = "x" * 10_000_000
LONGEST_S = 5.0
MOST_GROWN = 400 * 2**20


def hostile(canary: str) -> list[Any]:
    """Return values that no parameter takes; the shell's would make the file `canary`."""
    return [
        f"; touch {canary}", f"$(touch {canary})", f"`touch {canary}`", f"| touch {canary}", f"& touch {canary} &",
        f"' ; touch {canary} '", f'" ; touch {canary} "', f"\n touch {canary}\n", f"-oProxyCommand=touch {canary}",
        f"--eval=touch {canary}", "../../../../tmp/storm", "/etc/passwd", "..", ".", "~root", "a\nb", "a\x00b",
        "\x1b[2J", "\ud800", "", " ", "%n%s%x", "{0.__class__}", "${HOME}", "\u202egnp", "x" * 300, LONG_TEXT, -1, 0,
        2**63, 10**400, -(10**400), 1.5, math.nan, math.inf, -math.inf, 1e308, True, None, [], [[]],
        ["native", "native"], {}, {"a": 1}, [None], [LONG_TEXT], b"bytes", object(),
    ]  # fmt: skip


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


def asked(do: Callable[[], object], what: str) -> tuple[str, float]:
    """Return the error that `do` ends in (empty: none), and how long that took; any other than ours is a failure."""
    told, begin = "", time.process_time()  # of this process: how busy the machine is says nothing
    try:
        do()
    except InfrabenchError as error:
        told = str(error)
    except Exception as error:  # noqa: BLE001 (this is what is looked for)
        pytest.fail(f"{what}: {type(error).__name__}: {str(error)[:300]}")
    assert len(told) < 20_000
    return told, time.process_time() - begin


def shown(value: object) -> str:
    return (
        f"{type(value).__name__} {str(value)[:40]!r}"
        if not isinstance(value, int) or abs(value) < 1e9
        else "a large int"
    )


REQUEST = (
    "profile", "runs", "systems", "workloads", "seed", "deployments", "order", "precision", "most", "minutes", "aa",
    "mixture",
)  # fmt: skip


@pytest.mark.parametrize("name", [*REQUEST, "study", "mode", "site"])
def test_every_parameter_of_a_run(name: str, tmp_path: Path, canary: Path) -> None:
    memory, refused, slowest = Memory(), 0, 0.0
    for bad in hostile(str(canary)):
        given: dict[str, Any] = {"profile": "tiny", "systems": ["fake-base"], "runs": 30, "precision": 0.02}
        where = {"mode": "run", "site": str(tmp_path / "no-such-site"), "session": None}
        if name in where:
            where[name] = bad
        elif name != "study":
            given[name] = bad
        study = bad if name == "study" else "fakes"

        def do(study=study, given=given, where=where) -> None:
            api.run_or_load(api.request(study, **given), **where)

        told, took_s = asked(do, f"{name} = {shown(bad)}")
        assert told, f"{name} = {shown(bad)} was taken"  # the site does not exist at the latest
        refused += "no-such-site" not in told
        slowest = max(slowest, took_s)
    assert slowest < LONGEST_S
    assert refused > 20
    assert memory.grown < MOST_GROWN
    assert not canary.exists()
    made = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert made == []


INVENTORY: dict[str, Any] = {
    "name": "two",
    "known_hosts": "/nonexistent/known_hosts",
    "hosts": {"server": {"address": "192.0.2.1", "user": "me", "port": 22, "key": "/nonexistent/key", "gateway": "b"}},
    "gateways": {"b": {"address": "192.0.2.2"}},
    "guest_network": "198.18.64.0/24",
    "clusters": {"flannel": {"control": {"address": "192.0.2.3"}, "worker1": {"address": "192.0.2.4"}}},
}
PLACES = (
    "name", "known_hosts", "hosts", "hosts.server", "hosts.server.address", "hosts.server.user", "hosts.server.port",
    "hosts.server.key", "hosts.server.gateway", "hosts.other", "gateways", "gateways.b", "guest_network", "clusters",
    "clusters.flannel", "clusters.flannel.control", "clusters.flannel.control.address", "password",
    "hosts.server.password",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_every_field_of_an_inventory(place: str, tmp_path: Path, canary: Path) -> None:
    path = tmp_path / "hosts.yml"
    for bad in [*hostile(str(canary))[:-2], "2020-13-45"]:
        data = json.loads(json.dumps(INVENTORY))
        holder = data
        *way, last = place.split(".")
        for part in way:
            holder = holder[part]
        if bad is None:
            holder.pop(last, None)
        else:
            holder[last] = bad
        try:
            path.write_text(json.dumps(data))  # which is YAML too
        except TypeError:  # bytes
            continue

        def do() -> None:
            with open_site(path):
                pytest.fail("opened")

        told, took_s = asked(do, f"{place} = {shown(bad)}")
        assert told
        assert took_s < LONGEST_S, f"{place} = {shown(bad)}"
        with suppress(InfrabenchError):
            name, _ = name_and_kind(path)
            assert "/" not in name
            assert not name.startswith((".", "-"))
            assert name.isprintable()
    assert not canary.exists()


KUBECONFIG = "kind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: d}}]\n"
LAUGHS = "".join(
    f"{chr(97 + n)}: &{chr(97 + n)} [{', '.join([f'*{chr(96 + n)}'] * 10) if n else '1, 1, 1, 1, 1, 1, 1, 1, 1, 1'}]\n"
    for n in range(20)
)
FILES: dict[str, str | bytes] = {
    "laughs": LAUGHS,
    "laughs as a name": f"{LAUGHS}name: *t\nhosts: *t\n",
    "laughs as a cluster": LAUGHS + KUBECONFIG.replace("cluster: d", "cluster: *t"),
    "laughs as an authority": f"{LAUGHS}{KUBECONFIG}"
    "clusters: [{name: d, cluster: {server: s, certificate-authority-data: *t}}]\n",
    "laughs as a file": f"{LAUGHS}{KUBECONFIG}"
    "clusters: [{name: d, cluster: {server: s, certificate-authority: *t}}]\n",
    "deep": "[" * 100_000,
    "deep lists": "- " * 100_000,
    "deep keys": "{" * 50_000,
    "itself": "a: &a [*a]\nname: *a\n",
    "python": "!!python/object/apply:os.system [true]",
    "many": "- 1\n" * 3_000_000,
    "one line": "x" * 10_000_000,
    "binary": b"\x00\xff" * 1000,
    "no text": b"\xff\xfe",
    "keys twice": "name: a\nname: b\n",
    "a date": "name: 2020-13-45\n",
    "a number": f"name: {'9' * 6000}\n",
    "a tab": "\tname: a\n",
    "a list": "- a\n- b\n",
    "nothing": "",
    "a kubeconfig of nothing": "kind: Config\n",
    "a kubeconfig of lists": "kind: Config\ncurrent-context: [a]\ncontexts: {}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_as_a_site(name: str, tmp_path: Path) -> None:
    path, text, memory = tmp_path / "site.yml", FILES[name], Memory()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    told, took_s = asked(lambda: read_file(path), name)
    assert told.count("site.yml")
    assert took_s < LONGEST_S
    assert memory.grown < MOST_GROWN


def _roles() -> dict[str, Target]:
    """Return one target for every role that any workload asks for; nothing runs there."""
    names = ("create", "exec", "remove", "address", "store", "uri", "mount", "population", "metrics", "pods")
    made = Target(
        "server", LocalHost(), lifecycle=dict.fromkeys(names, ("true",)), addresses={"second": "192.0.2.9"},
        devices={"primary": "eth0"},
    )  # fmt: skip
    roles = ("server", "client", "near", "far", "server-guarded", "control", "conductor", "worker1", "worker2")
    return {f"{role}{plain}": made for role in roles for plain in ("", "-plain")}


@pytest.mark.parametrize("name", registry.names("workloads"))
def test_every_parameter_of_a_workload(name: str, canary: Path) -> None:
    workload, roles = registry.workload(name), _roles()
    for parameter in workload.PARAMS:
        for bad in hostile(str(canary)):
            try:
                params = completed(name, {parameter: bad}, workload.PARAMS)
                steps = plan_steps(workload, params, roles)
            except (DesignError, NotRunnable):
                continue
            except Exception as error:  # noqa: BLE001 (this is what is looked for)
                pytest.fail(f"{name} {parameter} = {shown(bad)}: {type(error).__name__}: {str(error)[:300]}")
            for step in steps:
                assert isinstance(step, Step)
                assert all(isinstance(word, str) for word in step.argv), f"{parameter} = {shown(bad)}: {step.argv}"
                assert 0 < step.timeout_s < math.inf, f"{parameter} = {shown(bad)}: {step.timeout_s}"
                if isinstance(bad, str) and bad.strip():
                    # It may be a word, or a part of one. A script takes it as an argument, never as a part of its text.
                    script = (
                        step.argv[step.argv.index("-c") + 1] if "-c" in step.argv[:-1] and "sh" in step.argv else ""
                    )
                    assert bad not in script or len(bad) < 3, f"{parameter} = {shown(bad)} is in {script[:80]!r}"


def test_words_reach_a_program_as_they_are(canary: Path) -> None:
    for bad in hostile(str(canary)):
        if isinstance(bad, str) and "\0" not in bad and "\ud800" not in bad and len(bad) < 100_000:
            assert LocalHost().run(("printf", "%s", bad), timeout_s=10).stdout.decode() == bad
        elif isinstance(bad, str):
            assert not LocalHost().run(("printf", "%s", bad), timeout_s=10).ok  # and is no error of Python's
    assert not canary.exists()


def test_a_notebook_takes_hostile_values_as_text(tmp_path: Path, canary: Path) -> None:
    """Through papermill into a real kernel: text stays text, and an unknown parameter is refused before it starts."""
    told = "import pathlib, json\npathlib.Path('told').write_text(json.dumps(given))"
    book = tmp_path / "book.ipynb"
    write_notebook(book, "given = ''", told)
    bad = f'"""\nimport os; os.system("touch {canary}")\n"""\'\'\' \\ {{}} $(touch {canary}) \x1b \u2028'
    with pytest.raises(DesignError, match="unknown parameter"):
        execute(book, tmp_path / "out.ipynb", {f"given = 1; __import__('os').system('touch {canary}') #": 1})
    with pytest.raises(DesignError, match="unknown parameter"):
        execute(book, tmp_path / "out.ipynb", {LONG_TEXT: 1})
    execute(book, tmp_path / "out.ipynb", {"given": bad})
    assert json.loads((tmp_path / "told").read_text()) == bad
    assert not canary.exists()


@pytest.mark.parametrize("name", [
    "..", "a b", "a\nb", "-rf", ".x", "a\x00b", "x" * 300, "$(id)", "a;b", "d/..", "d/.x", "d/a b", LONG_TEXT, 5, [],
    b"a",
], ids=range(16))  # fmt: skip
def test_a_session_name_is_a_plain_word(name: object) -> None:
    wanted = api.request("fakes", profile="tiny", session=name)
    with pytest.raises(DesignError, match="session name"):
        runs.folder_for(registry.study("fakes"), wanted, runs.SiteName("local", "local"))


def test_a_command_line_of_hostile_words_ends_in_one_line(tmp_path: Path, canary: Path) -> None:
    rng = random.Random(SEED)
    words = [
        word
        for word in hostile(str(canary))
        if isinstance(word, str) and "\0" not in word and "\ud800" not in word and len(word) < 100_000
    ]
    verbs = (
        "plan", "run", "session list", "session show", "session verify", "session reparse", "session pack",
        "session diff", "session remove", "notebook run", "report", "hosts prepare",
    )  # fmt: skip
    for verb in rng.sample(verbs, size(3, len(verbs))):
        argv = [sys.executable, "-m", "infrabench.cli", *verb.split(), *(rng.choice(words) for _ in range(2))]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert done.returncode != 0 or verb == "report", (verb, done.stdout)
        assert "Traceback" not in done.stderr, (verb, argv, done.stderr[-2000:])
    assert not canary.exists()
