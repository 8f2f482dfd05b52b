"""What made each trial is recorded: other code goes on with a session only as a mixture, which is analysed apart."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.analysis import session_data
from infrabench.analysis.dataset import part
from infrabench.cli.session import describe_state
from infrabench.core import DesignError, LedgerError
from infrabench.core.workloads import script_command
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import reparse, session
from infrabench.experiment.provenance import code, comparability
from infrabench.ledger import records
from infrabench.ledger.codes import CODE
from infrabench.ledger.files import SUMS, line
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import api
from infrabench.stats.table import kinds
from tests.support.fakes import PLUGINS, fake_site, interrupt_session, run_session
from tests.support.places import LIB

PARSE = ('"1/s", "higher"', '"B/s", "higher"')
PLAN = ("limit_s = 1.0", "limit_s = 1.5")


def wanted(**more: Any) -> Design:
    return session.request(registry.study("fakes"), profile="tiny", runs=2, **more)


def run(folder: Path, after: int = 0, **more: Any) -> list[str]:
    """Run a session, interrupted after so many trials of 8; return what was made ready."""
    site, study = fake_site(), registry.study("fakes")
    if after:
        interrupt_session(study, folder, after, site=site, runs=2, **more)
    else:
        run_session(study, folder, site, runs=2, **more)
    return site.facts["log"]


def edit(path: Path, old: str, new: str) -> None:
    """Edit a file, and forget the plug-ins that were loaded, as a new process has them."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    for name in [each for each in sys.modules if each.startswith("infrabench_plugin_")]:
        del sys.modules[name]


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    text = path.read_text()
    try:
        edit(path, old, new)
        yield
    finally:
        path.write_text(text)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(PLUGINS, tmp_path / "plugins")
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "plugins"))
    return tmp_path / "plugins"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the suite's source, plug-ins, and a session that was interrupted, all of them to be edited."""
    place = tmp_path_factory.mktemp("begun")
    ignored = shutil.ignore_patterns("__pycache__", "analysis", "publish", "selfcheck", "stats")
    for package in code.PACKAGES:
        shutil.copytree(package, place / package.name, ignore=ignored)
    shutil.copytree(PLUGINS, place / "plugins")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(registry.VARIABLE, str(place / "plugins"))
        moved = {
            part: tuple((place / path.relative_to(LIB), name) for path, name in roots)
            for part, roots in code.SUITE.items()
        }
        patch.setattr(code, "SUITE", moved)
        patch.setattr(code, "PACKAGES", {place / name: name for name in code.PACKAGES.values()})
        run(place / "s", after=3)
        yield place


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("plugins/workloads/fake.py", *PLAN, "workload fake"),
        ("plugins/workloads/fake.py", "sleep 60", "sleep 61", "workload fake"),
        ("plugins/workloads/fake.py", *PARSE, "parser fake"),
        ("plugins/systems/fake_other.py", "address=spec.address", "address='::1'", "system fake-other"),
        ("infrabench/core/workloads.py", "timeout_s: float = ", "timeout_s: float = 1 + ", "workload fake"),
        ("infrabench/experiment/design/orders.py", "lambda each: each[0]])", "lambda each: each[1]])", "plan"),
        ("infrabench/experiment/execution/blocks.py", "attempt < most", "attempt <= most", "plan"),
        ("infrabench/experiment/execution/monitor.py", "value > limit", "value >= limit", "measurement"),
        ("infrabench/experiment/execution/monitor.py", "probes/monitor.py", "probes/facts.py", "measurement"),
        ("infrabench/machines/hosts/probes/monitor.py", "import time", "import clock as time", "measurement"),
        ("infrabench/machines/hosts/child_process.py", "def ", "async def ", "measurement"),
    ],
)
def test_a_changed_part_is_refused_by_name(begun: Path, name: str, old: str, new: str, part: str) -> None:
    told = rf"since trial \w+ \(block 0, .*: .*\b{part}\b.*another session.*mixture"
    with edited(begun / name, old, new):
        with pytest.raises(LedgerError, match=told):
            code.check_code(SessionFolder(begun / "s"), registry.study("fakes"), wanted())
        assert code.check_code(SessionFolder(begun / "s"), registry.study("fakes"), wanted(mixture=True))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("plugins/workloads/fake.py", '"""A workload', '"""Another workload'),
        ("plugins/workloads/fake.py", "def parse(capture):", 'def parse(capture: object) -> list:\n    "Parse."\n'),
        ("plugins/systems/fake_other.py", "@contextmanager", "# a comment\n\n\n@contextmanager"),
        ("plugins/systems/fake_third.py", "return", "return 1 and"),  # not a system of this session
        ("infrabench/machines/hosts/probes/monitor.py", "import time", "import time  # a comment"),
        ("infrabench/experiment/execution/progress.py", "def ", "async def "),
        ("infrabench/workloads/web.py", "def ", "async def "),
        ("infrabench/cli/commands.py", "def ", "async def "),
        ("infrabench/notebook/api.py", "def ", "async def "),
    ],
)
def test_what_makes_no_value_may_change(begun: Path, name: str, old: str, new: str) -> None:
    with edited(begun / name, old, new):
        assert code.check_code(SessionFolder(begun / "s"), registry.study("fakes"), wanted()) is None


def test_a_session_goes_on_with_its_code_and_is_first_refused_another(plugins: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "s", after=3)
    edit(plugins / "workloads/fake.py", "A workload", "One")
    assert run(tmp_path / "s", after=5)
    edit(plugins / "workloads/fake.py", *PLAN)
    log = fake_site()
    with pytest.raises(LedgerError, match="workload fake"):
        run_session(registry.study("fakes"), tmp_path / "s", log, runs=2)
    assert log.facts["log"] == []
    edit(plugins / "workloads/fake.py", *reversed(PLAN))
    run(tmp_path / "s")
    table = session_data.open_session(tmp_path / "s").table
    assert set(table["workload"]) == {"fake"}
    assert records.verify(tmp_path / "s") == []


def test_a_mixture_is_stamped_and_its_codes_are_never_put_together(plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, after=5)
    edit(plugins / "workloads/fake.py", *PLAN)
    run(folder, after=6, mixture=True)
    opened = session_data.open_session(folder)
    assert set(opened.missing["workload"]) == {"fake (code 2)"}
    run(folder)  # the code is that of the last trial
    assert records.verify(folder) == []
    opened = session_data.open_session(folder)
    assert opened.table.groupby("workload")["trial"].nunique().to_dict() == {"fake": 5, "fake (code 2)": 3}
    first = opened.table.sort_values("position")["workload"].tolist()
    assert first == ["fake"] * 5 + ["fake (code 2)"] * 3
    assert api.results(opened).estimates.groupby("workload")["n"].sum().to_dict() == {"fake": 5, "fake (code 2)": 3}
    assert "mixture" in opened.data["stamp"]
    assert ["fake (code 2)", "value"] in opened.data["primary"]
    assert any("mixture" in line for line in describe_state(folder))
    about = part.write(folder, tmp_path / "part")
    assert about.workloads == ("fake", "fake (code 2)")
    assert session_data.describe_session(SessionFolder(about.folder)) == opened.data
    narrowed = api.run_or_load(wanted(workloads=["fake"]), mode="load", session=str(folder))
    assert len(narrowed.table) == len(opened.table)


def test_another_code_has_the_kinds_of_its_workload() -> None:
    cases = {"scenario": "s", "metric": "requests_per_s"}
    rows = session_data.pd.DataFrame([{"workload": name, **cases} for name in ("web", "web (code 2)")])
    assert len(set(kinds(rows))) == 1
    assert kinds(rows)[0] != "quantity"


def test_a_mixture_has_no_stopping_rule(begun: Path) -> None:
    with edited(begun / "plugins/workloads/fake.py", *PLAN):
        asked = session.request(registry.study("fakes"), profile="tiny", runs=30, precision=0.1, mixture=True)
        with pytest.raises(DesignError, match="a mixture cannot reach a precision"):
            code.check_code(SessionFolder(begun / "s"), registry.study("fakes"), asked)


def test_code_that_changes_in_a_session_ends_it_when_systems_are_made_anew(plugins: Path, tmp_path: Path) -> None:
    """A script that hosts are given is read each time: no module of this process has it."""
    script = plugins / "systems" / "start.sh"
    script.write_text("echo 1\n")
    edit(plugins / "systems/fake_other.py", "NAME = ", "SCRIPT = 'start.sh'\nNAME = ")
    edit(plugins / "systems/fake_other.py", "def deploy(site, spec):", "def deploy(site, spec):\n    spec, SCRIPT")

    def change(now: Any) -> None:
        script.write_text("echo 2\n")

    with pytest.raises(LedgerError, match="system fake-other"):
        run_session(registry.study("fakes"), tmp_path / "s", on_progress=change, runs=2, deployments=2)
    assert len(records.recorded(tmp_path / "s")) == 4


def test_reparsed_trials_of_two_parsers_are_of_one_code(plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, after=5)
    edit(plugins / "workloads/fake.py", *PARSE)
    with pytest.raises(LedgerError, match=r"parser fake\. .*session reparse"):
        run(folder)
    run(folder, mixture=True)
    whole = session_data.open_session(reparse.write(folder, tmp_path / "whole"))
    assert records.verify(tmp_path / "whole") == []
    assert set(whole.table["workload"]) == {"fake"}
    assert set(whole.table["unit"]) == {"B/s"}
    assert not whole.data.get("stamp")
    assert not any("mixture" in line for line in describe_state(tmp_path / "whole"))


def test_reparsing_never_hides_that_trials_were_run_by_other_code(plugins: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", after=5)
    edit(plugins / "workloads/fake.py", *PLAN)
    run(tmp_path / "s", mixture=True)
    edit(plugins / "workloads/fake.py", *PARSE)
    opened = session_data.open_session(reparse.write(tmp_path / "s", tmp_path / "copy"))
    assert set(opened.table["workload"]) == {"fake", "fake (code 2)"}


def test_a_reparsed_session_goes_on_with_the_parsers_of_now(plugins: Path, tmp_path: Path) -> None:
    run(tmp_path / "s", after=5)
    edit(plugins / "workloads/fake.py", *PARSE)
    run(reparse.write(tmp_path / "s", tmp_path / "copy"))
    assert set(session_data.open_session(tmp_path / "copy").table["workload"]) == {"fake"}
    edit(plugins / "workloads/fake.py", *reversed(PARSE))
    with pytest.raises(LedgerError, match="begun with other parsers"):
        reparse.write(tmp_path / "s", tmp_path / "copy")


def seal(folder: Path) -> None:
    """Write all sums of a session anew, as somebody does who changes it with care."""
    for own in (*(folder / "trials").iterdir(), folder):
        inside = sorted(path for path in own.rglob("*") if path.is_file() and path != own / SUMS)
        named = [path for path in inside if own != folder or "trials" not in path.parts or path.name == SUMS]
        sums = [line(sha256(path.read_bytes()).hexdigest(), path.relative_to(own).as_posix()) for path in named]
        (own / SUMS).write_text("".join(sums))


def forget_code(folder: Path) -> None:
    """Make a session one from before codes were recorded, with sums that agree."""
    path = folder / "session.json"
    data = json.loads(path.read_text())
    del data[CODE]
    path.write_text(json.dumps(data))
    for own in (folder / "trials").iterdir():
        record = json.loads((own / "trial.json").read_text())
        del record["code"]
        (own / "trial.json").write_text(json.dumps(record))
    seal(folder)


def test_what_made_an_older_session_is_not_known(plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, after=5)
    forget_code(folder)
    assert records.verify(folder) == []
    before = session_data.open_session(folder).table
    assert set(before["workload"]) == {"fake"}
    with pytest.raises(LedgerError, match=r"what made its trials up to trial .* is not known"):
        run(folder)
    assert reparse.write(folder, tmp_path / "copy")
    assert session_data.open_session(tmp_path / "copy").table["value"].equals(before["value"])
    run(folder, mixture=True)
    assert session_data.open_session(folder).table["workload"].value_counts().to_dict() == {
        "fake": 5, "fake (code 2)": 3,
    }  # fmt: skip
    complete = tmp_path / "complete"
    run(complete)
    forget_code(complete)
    assert run(complete) == []


def test_a_session_without_a_trial_takes_any_code(plugins: Path, tmp_path: Path) -> None:
    stored = tmp_path / "s"
    run(stored, after=1)
    (only,) = (stored / "trials").iterdir()
    shutil.rmtree(only)
    (stored / "SHA256SUMS").write_text(
        "".join(each for each in (stored / "SHA256SUMS").read_text().splitlines(True) if "trials/" not in each)
    )
    edit(plugins / "workloads/fake.py", *PLAN)
    run(stored)
    opened = session_data.open_session(stored)
    assert set(opened.table["workload"]) == {"fake"}
    assert records.verify(stored) == []


def test_a_trial_of_code_that_the_session_does_not_name_is_found(plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder)
    (own, *_) = sorted((folder / "trials").iterdir())
    edit(own / "trial.json", '"code":"', '"code":"0')
    seal(folder)
    (problem,) = records.verify(folder)
    assert f"trial {own.name} was made with code, or parameters, that the session does not name" in problem
    with pytest.raises(LedgerError, match="restore"):
        session_data.open_session(folder)


def test_sessions_of_other_code_are_not_comparable(plugins: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(one)
    shutil.copytree(one, two)
    data = json.loads((two / "session.json").read_text())
    data[CODE]["parser fake"] = "0" * 16
    (two / "session.json").write_text(json.dumps(data))
    with pytest.raises(comparability.NotComparable, match="code parser fake"):
        comparability.stamp([one, two])
    assert "code parser fake" in comparability.stamp([one, two], allow=True)
    assert "code 1 parser fake" in comparability.between_sites({"a": one, "b": two}).stamp
    del data[CODE]
    (two / "session.json").write_text(json.dumps(data))
    assert comparability.stamp([one, two]) == ""
    assert ("code", "known") in {(each.where, each.key) for each in comparability.differences(one, two)}
    SessionFolder(two).append_block_note(1, CODE, {"parts": {"plan": "1"}, "after": "x"})
    with pytest.raises(comparability.NotComparable, match="code mixture of: 1 / 2"):
        comparability.stamp([one, two])


def test_a_plugin_of_several_files_is_traced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine" / "workloads" / "many"
    own.mkdir(parents=True)
    text = (PLUGINS / "workloads/fake.py").read_text()
    (own / "__init__.py").write_text(text.replace("1.0}", "1.0}".replace("1.0", "FIRST")).replace(
        "PARAMS =", "from .more import FIRST\nPARAMS ="
    ))  # fmt: skip
    (own / "more.py").write_text("FIRST = 1.0\n")
    (own / "run.sh").write_text("echo 1\n")
    monkeypatch.setenv(registry.VARIABLE, f"{PLUGINS}{os.pathsep}{tmp_path / 'mine'}")
    study = registry.study("fakes")
    asked = session.request(study, profile="tiny", workloads=["many"])
    before = code.code_parts(study, asked)
    for name, old, new in (("more.py", "1.0", "2.0"), ("run.sh", "1", "2")):
        edit(own / name, old, new)
        now = code.code_parts(study, asked)
        assert {part for part in now if now[part] != before[part]} == {"workload many", "parser many"}
        before = now


def test_files_and_modules_of_a_plugin_count(plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "authors").mkdir()
    (tmp_path / "authors" / "helper_of_mine.py").write_text("LIMIT = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "authors"))
    (plugins / "workloads" / "load.sh").write_text("echo 1\n")
    edit(
        plugins / "workloads/fake.py", "limit_s = 1.0 if",
        "import helper_of_mine\n    limit, script = helper_of_mine.LIMIT, 'load.sh'\n    limit_s = 1.0 if",
    )  # fmt: skip
    study, asked = registry.study("fakes"), wanted()
    before = code.code_parts(study, asked)
    for path in (tmp_path / "authors/helper_of_mine.py", plugins / "workloads/load.sh"):
        edit(path, "1", "2")
        now = code.code_parts(study, asked)
        assert {part for part in now if now[part] != before[part]} == {"workload fake"}
        before = now


@pytest.mark.parametrize(
    ("module", "names", "file"),
    [
        ("infrabench/workloads/stream.py", code.RUN, "infrabench_platforms/lab/guest/src/stream.c"),
        ("infrabench/workloads/ftp.py", code.RUN, "infrabench_platforms/lab/guest/overlay/usr/local/bin/ib-ftp"),
        ("infrabench/workloads/mail.py", code.RUN, "infrabench_platforms/lab/guest/overlay/usr/local/bin/ib-mail"),
        ("infrabench/workloads/pods_startup.py", code.RUN, "infrabench_platforms/lab/pod/pods/conduct.c"),
        ("infrabench/workloads/integrity.py", code.RUN, "infrabench/workloads/_integrity_script.py"),
        ("infrabench_platforms/systems/block_storage.py", (None,), "infrabench_platforms/stores/node/damage.py"),
    ],
)
def test_the_programs_of_a_workload_or_system_count(begun: Path, module: str, names: tuple, file: str) -> None:
    roots, path = [(begun / module, name) for name in names], begun / file
    before, text = code.digests_of({"x": roots}), path.read_text()
    try:
        path.write_text(f"{text}\nMORE = 1\n")
        assert code.digests_of({"x": roots}) != before
    finally:
        path.write_text(text)


def test_a_module_that_changed_since_it_was_loaded_is_refused(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, path = registry.study("fakes"), plugins / "workloads/fake.py"
    asked = wanted()
    code.code_parts(study, asked)
    path.write_text(path.read_text().replace(*PLAN))  # and the module stays loaded, as in a kernel that runs
    os.utime(path, (1, 1))
    name = next(name for name, module in sys.modules.items() if getattr(module, "__file__", "") == str(path))
    monkeypatch.setitem(registry.LOADED_S, name, path.stat().st_ctime - 1)
    with pytest.raises(LedgerError, match=r"fake\.py has changed since this process loaded it.*restart the kernel"):
        code.code_parts(study, asked)


def test_a_script_is_sent_as_it_was_first_read_and_refused_once_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text("LIMIT = 1\n")
    first = script_command(path)
    code.digests_of({"x": [(path, None)]})
    path.write_text("LIMIT = 2\n")
    assert script_command(path) == first
    with pytest.raises(LedgerError, match=r"probe\.py has changed since this process loaded it"):
        code.digests_of({"x": [(path, None)]})


def test_a_clock_a_year_behind_is_no_reason(plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are of the future then, in each process anew."""
    behind = SimpleNamespace(time=lambda: time.time() - 365 * 86400)
    monkeypatch.setattr(code, "time", behind)
    monkeypatch.setattr(registry, "time", behind)
    monkeypatch.setattr(registry, "STARTED_S", behind.time())
    monkeypatch.setattr(registry, "LOADED_S", {})
    for name in [each for each in sys.modules if each.startswith("infrabench_plugin_")]:
        monkeypatch.delitem(sys.modules, name)
    run(tmp_path / "s")
    assert records.verify(tmp_path / "s") == []
