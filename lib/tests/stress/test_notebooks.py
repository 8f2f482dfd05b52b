"""The notebooks on other sessions, a part of a recorded one or systems that did not run; two executed at once.

What they say is made by functions that the gate tests; here no cell may fail.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from infrabench.notebook import headless
from tests.notebooks import test_headless
from tests.support import cells, runtimes_fixtures, storage_fixtures
from tests.support.places import ROOT

notebook = test_headless.notebook  # the fixture of the module beside it in the gate
WRITE = {"runtimes": runtimes_fixtures.write_session, "storage": storage_fixtures.write_session}
EMULATED = {"not_run": {}, "emulated": ("containerd-kata", "crio-kata"), "fits": {"crio-runc": 31}}
ZFS = r"\bzfs\b(?! \(user space\)|[,:])"  # but where its plain name stands for the paper's
FAILED = {"failed": [("zfs", "rebuild"), ("ceph", "integrity")], "user_space": False}


@pytest.mark.parametrize(
    ("study", "given"),
    [
        ("containers", {"systems": ["native"]}),
        ("containers", {"workloads": ["stream"]}),
        ("cnis", {"systems": ["flannel"]}),
        ("cnis", {"workloads": ["netperf"]}),
        ("runtimes", {"systems": ["containerd-runc"]}),
        ("runtimes", {"workloads": ["pods-netperf"]}),
        ("storage", {"systems": ["ceph"]}),
        ("storage", {"workloads": ["rebuild"]}),
    ],
)
def test_a_narrowed_session_is_shown_without_errors(study: str, given: dict[str, list[str]], tmp_path: Path) -> None:
    assert len(cells.shown(ROOT / f"notebooks/{study}.ipynb", {"out": str(tmp_path), **given})) >= 19


@pytest.mark.parametrize(
    ("study", "profile", "how", "unqualified"),
    [
        ("runtimes", "quick", {}, None),
        ("runtimes", "forty", EMULATED, r"-kata(?! \(emulated\))"),
        ("storage", "quick", {}, ZFS),
        ("storage", "quick", {"not_run": {"ceph": storage_fixtures.NO_LOOP}}, ZFS),
        ("storage", "smoke", FAILED, None),
        ("storage", "load", {}, ZFS),
    ],
    ids=["not run", "emulated", "user space", "one system", "failed", "load"],
)
def test_a_session_of_other_systems_is_shown_without_errors_and_with_its_figures(
    study: str, profile: str, how: dict[str, Any], unqualified: str | None, tmp_path: Path
) -> None:
    session = WRITE[study](tmp_path / "s", profile=profile, **how)
    given = {"out": str(tmp_path), "session": str(session), "profile": profile}
    shown = cells.shown(ROOT / f"notebooks/{study}.ipynb", given)
    assert len(shown) >= 19
    if unqualified:  # no table with intervals says the name alone
        tables = [each for each in "\n".join(shown).split("\n\n") if "95 % CI" in each]
        assert tables
        assert not [each for each in tables if re.search(unqualified, each)]
    assert len(list((tmp_path / "figures" / study).glob("*.pdf"))) >= 7


def test_two_at_once_do_not_speak_with_each_others_kernel(notebook, tmp_path, monkeypatch):
    monkeypatch.delenv(headless.HEADLESS, raising=False)
    made = nbformat.read(notebook, 4)
    made.cells[2].source = "import time; time.sleep(2); print(runs)"
    nbformat.write(made, notebook)
    argv = [sys.executable, "-m", "infrabench.cli", "notebook", "run", str(notebook)]
    both = [subprocess.Popen([*argv, str(tmp_path / f"{n}.ipynb"), "-p", "runs", str(n)]) for n in (4, 5)]
    assert [child.wait(120) for child in both] == [0, 0]
    for n in (4, 5):
        executed = nbformat.read(tmp_path / f"{n}.ipynb", 4).cells
        assert "".join(o.get("text", "") for c in executed for o in c.get("outputs", [])).strip() == str(n)
    assert [path.name for path in notebook.parent.iterdir()] == ["study.ipynb"]
