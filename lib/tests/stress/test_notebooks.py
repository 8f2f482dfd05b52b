"""The notebooks on other sessions: a part of a recorded one, systems that did not run or are emulated.

What they say is made by functions that the gate tests; here they are executed, with every figure written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support import cells, runtimes_fixtures, storage_fixtures
from tests.support.places import ROOT


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


EMULATED = ("containerd-kata", "crio-kata")


@pytest.mark.parametrize(
    ("profile", "how", "told"),
    [
        ("quick", {}, ["not run: Kata is not installed", "There is nothing for the table of interactions"]),
        ("forty", {"not_run": {}, "emulated": EMULATED, "fits": {"crio-runc": 31}}, [
            "containerd-kata (emulated)", "40 pods do not fit, 31 do: memory of the node",
            "ours is containerd-kata (emulated)",
        ]),
    ],
)  # fmt: skip
def test_the_runtimes_notebook_tells_what_is_not_run_and_what_is_emulated(
    profile: str, how: dict[str, Any], told: list[str], tmp_path: Path
) -> None:
    session = runtimes_fixtures.write_session(tmp_path / "s", profile=profile, **how)
    given = {"out": str(tmp_path), "session": str(session), "profile": profile}
    shown = cells.shown(ROOT / "notebooks/runtimes.ipynb", given)
    text = "\n".join(shown)
    assert all(each in text for each in told), [each for each in told if each not in text]
    if how.get("emulated"):  # nowhere without saying so, but where its plain name stands for the paper's or the plan's
        tables = [each for each in text.split("\n\n") if "95 % CI" in each]
        assert tables
        assert not [each for each in tables if "-kata" in each.replace("-kata (emulated)", "")]
    assert len(list((tmp_path / "figures/runtimes").glob("curves-*.pdf"))) >= 8


USER_SPACE = "zfs (user space)"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, [
            "ours is zfs (user space): by direction alone", "One line for each trial and none for their mean",
            "both copies damaged, ceph: in 4 of 4 trials files were lost, and reading them said so.",
            "strict: 0.", "times default", "strict rbd at zfs (user space), random read", "12 different",
        ]),
        ({"not_run": {"ceph": storage_fixtures.NO_LOOP}}, [
            f"There is nothing to compare {USER_SPACE} with. Not run: ceph: {storage_fixtures.NO_LOOP}.",
            f"ceph not run: {storage_fixtures.NO_LOOP}", f"- ceph: not run: {storage_fixtures.NO_LOOP}.",
            "There is nothing for the table of contrasts",
        ]),
        ({"profile": "smoke", "failed": [("zfs", "rebuild"), ("ceph", "integrity")], "user_space": False}, [
            "zfs: no valid trial.", "no ok trial of zfs", "| no valid trial |",
            "There is nothing to compare strict with",
        ]),
    ],
    ids=["both", "one-system", "failed"],
)  # fmt: skip
def test_the_storage_notebook_tells_which_engine_ran_and_what_did_not(
    how: dict[str, Any], told: list[str], tmp_path: Path
) -> None:
    session = storage_fixtures.write_session(tmp_path / "s", **how)
    given = {"out": str(tmp_path), "session": str(session), "profile": how.get("profile", "quick")}
    shown = cells.shown(ROOT / "notebooks/storage.ipynb", given)
    text = "\n".join(shown)
    assert all(each in text for each in told), [each for each in told if each not in text]
    if how.get("user_space", True):  # nowhere without saying so, but where its plain name stands for the paper's
        tables = [each for each in text.split("\n\n") if "95 % CI" in each]
        assert tables
        assert not [each for each in tables if re.search(r"\bzfs\b(?! \(user space\)|[,:])", each)]
    assert (tmp_path / "figures/storage/timeline-rebuild.pdf").is_file()
    assert len(list((tmp_path / "figures/storage").glob("*.pdf"))) >= 7
