"""Notebooks: thin, without outputs, and they run from top to bottom on the recorded sessions, numbers included."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import infrabench as ib
from infrabench.analysis.results import table
from infrabench.notebook import headless
from infrabench.notebook import multisite as across
from tests import analysis_fixtures, cells, runtimes_fixtures, sidecars, storage_fixtures

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STUDIES = ["containers", "cnis", "runtimes", "storage"]
# A study has a recorded session from the day that somebody has recorded one and looked at it.
RECORDED = [study for study in STUDIES if (ROOT / "data" / "recorded" / study).is_dir()]
FORBIDDEN = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.For, ast.While)
NOT_HERE = {"subprocess", "os", "re", "fabric", "docker", "pylxd", "time", "warnings"}


def test_there_is_a_notebook_for_every_study() -> None:
    assert {path.stem for path in NOTEBOOKS} >= set(STUDIES)
    assert set(RECORDED) >= {"containers", "cnis", "runtimes", "storage"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_prose_with_thin_cells(path: Path) -> None:
    cells = nbformat.read(path, 4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert sum(cell.cell_type == "markdown" for cell in cells) * 2 >= len(code)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1
    for cell in code:
        assert len(cell.source.splitlines()) <= 20
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, FORBIDDEN), cell.source
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not {name.split(".")[0] for name in names} & NOT_HERE, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_prose_types_no_result(path: Path) -> None:
    """A percentage, a decimal number or a number with a unit in prose would have been typed; levels are convention."""
    prose = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"]
    text = re.sub(r"`[^`]*`", "", "\n".join(prose))  # names and parameters
    typed = re.findall(r"\d+[.,]\d+|\d+\s*(?:%|ms|s|KiB|MiB|GiB|MB|GB|Mbit/s|MB/s)\b|\d+\s*%", text)
    assert set(typed) <= {"90 %", "95 %", "99.9"}, typed


@pytest.mark.parametrize("study", RECORDED)
def test_papermill_runs_it_on_the_recorded_session(study: str, tmp_path: Path) -> None:
    made = headless.execute(ROOT / f"notebooks/{study}.ipynb", tmp_path / f"{study}.ipynb", {"out": str(tmp_path)})
    outputs = [output for cell in nbformat.read(made, 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("data:image/png;base64" in str(output.get("data", {}).get("text/html", "")) for output in outputs) >= 5
    assert len(list((tmp_path / "figures" / study).glob("*.pdf"))) >= 5
    assert (tmp_path / "tables" / study / "results.tex").exists()
    sidecars.compare(tmp_path / "figures", study)


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
    assert len(cells.shown(ROOT / f"notebooks/{study}.ipynb", {"out": str(tmp_path), **given})) > 20


def test_the_recorded_cnis_prove_their_path_and_stand_beside_the_paper(tmp_path: Path) -> None:
    session = ib.run_or_load(ib.request("cnis", profile="quick"), mode="load")
    paths, able = ib.paths_table(session), ib.capabilities_table(session)
    assert (paths["ok"] == paths["checked"]).all()
    assert {"flannel", "cilium"} <= set(paths["system"])
    across = paths[paths["scenario"].str.endswith("two-nodes") & paths["system"].isin(["flannel", "cilium"])]
    assert across["on the nodes"].str.contains("flannel.1|cilium_vxlan").all()
    assert able.loc["network_policy", "cilium"].startswith("enforced")
    assert able.loc["network_policy", "flannel"].startswith("not enforced")
    told = table(ib.results(session, str(tmp_path)), "published").text
    assert "16.2 Gbits/sec" in told
    assert not ib.validity_table(session)["missing"].any()


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
        tables = [each for each in shown if "95 % CI" in each]
        assert tables
        assert not [each for each in tables if "-kata" in each.replace("-kata (emulated)", "")]
    assert len(list((tmp_path / "figures/runtimes").glob("curves-*.pdf"))) >= 8


USER_SPACE = "zfs (user space)"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, [
            "ours is zfs (user space): by direction alone", "One line for each trial and none for their mean",
            "both copies damaged, ceph: in 3 of 3 trials files were lost, and reading them said so.",
            "strict: 0.", "times default", "strict rbd at zfs (user space), random read", "12 different",
            "ceph-vm (emulated) / zfs-vm (emulated)", "same direction",
        ]),
        ({"not_run": {"ceph": storage_fixtures.NO_LOOP}}, [
            f"There is nothing to compare {USER_SPACE} with. Not run: ceph: {storage_fixtures.NO_LOOP}.",
            f"ceph not run: {storage_fixtures.NO_LOOP}", f"- ceph: not run: {storage_fixtures.NO_LOOP}.",
            "There is nothing for the table of contrasts", "There is no operation that both this session and",
        ]),
        ({"profile": "smoke", "failed": [("zfs", "rebuild"), ("ceph", "integrity")], "user_space": False}, [
            "zfs: no valid trial.", "no ok trial of zfs", "| no valid trial |",
            "There is nothing to compare strict with", "No cross-check was named",
        ]),
    ],
    ids=["both", "one-system", "failed"],
)  # fmt: skip
def test_the_storage_notebook_tells_which_engine_ran_and_what_did_not(
    how: dict[str, Any], told: list[str], tmp_path: Path
) -> None:
    session = storage_fixtures.write_session(tmp_path / "s", **how)
    check = storage_fixtures.write_session(tmp_path / "check", profile="crosscheck")
    given = {"out": str(tmp_path), "session": str(session), "profile": how.get("profile", "quick")}
    given |= {"crosscheck": str(check)} if how.get("user_space", True) else {}
    shown = cells.shown(ROOT / "notebooks/storage.ipynb", given)
    text = "\n".join(shown)
    assert all(each in text for each in told), [each for each in told if each not in text]
    if how.get("user_space", True):  # nowhere without saying so, but where its plain name stands for the paper's
        tables = [each for each in shown if "95 % CI" in each]
        assert tables
        assert not [each for each in tables if re.search(r"\bzfs\b(?! \(user space\)|-vm \(emulated\)|[,:])", each)]
    assert (tmp_path / "figures/storage/timeline-rebuild.pdf").is_file()
    assert len(list((tmp_path / "figures/storage").glob("*.pdf"))) >= 7


def test_papermill_runs_the_validation_on_the_recorded_sessions(tmp_path: Path) -> None:
    given = {"out": str(tmp_path), "simulations": "none"}
    made = headless.execute(ROOT / "notebooks/validation.ipynb", tmp_path / "validation.ipynb", given)
    outputs = [output for cell in nbformat.read(made, 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    text = "\n".join(str(output.get("data", {}).get("text/html", "")) for output in outputs)
    assert text.count("data:image/png;base64") >= 3
    assert "contains the truth" in text
    assert "different when swapped" in text
    sidecars.compare(tmp_path / "figures", "containers-aa", "known-effects")


def test_the_analysis_over_sites_calls_two_sessions_of_one_lab_one_machine(tmp_path: Path) -> None:
    given = {"out": str(tmp_path), "campaign": None, "sessions": ["lab-quick-2026-11-aa", "lab-quick-2026-11-aa-2"]}
    text = "\n".join(cells.shown(ROOT / "notebooks/sites.ipynb", given))
    assert text.count("One machine measured as lab-quick-2026-11-aa and lab-quick-2026-11-aa-2") > 3
    assert "two sites: no mean over sites" in text
    assert "mean of sites" not in text
    assert len(list((tmp_path / "figures/sites-containers").glob("*.pdf"))) == 6


def test_papermill_runs_the_recorded_campaign_and_finds_the_planted_difference(tmp_path: Path) -> None:
    made = headless.execute(ROOT / "notebooks/sites.ipynb", tmp_path / "sites.ipynb", {"out": str(tmp_path)})
    outputs = [output for cell in nbformat.read(made, 4).cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    text = "\n".join(str(output.get("data", {}).get("text/plain", "")) for output in outputs)
    assert "One machine measured as rack-a and rack-b and rack-c" in text
    (found,) = across.opened("data/recorded/racks/campaign.json")
    over = found.over[found.over["workload"] == "sysbench-cpu"].set_index(["metric", "scenario"])
    # Its containers have one and a half of two processors: nothing to one thread, a quarter of the rate to more.
    assert "rack-c" not in over.loc[("events_per_s", "threads=1"), "named"]
    for scenario in ("threads=2", "threads=4"):
        assert over.loc[("events_per_s", scenario), "across"] == "differs between sites"
        assert over.loc[("events_per_s", scenario), "p_sites"] < 1e-6
        assert "rack-c" in over.loc[("events_per_s", scenario), "named"]
    sidecars.compare(tmp_path / "figures", "racks-containers")


def test_the_analysis_over_the_sites_of_a_campaign_tells_who_is_missing(tmp_path: Path) -> None:
    sites = {name: analysis_fixtures.write_session(tmp_path / name, seed=i) for i, name in enumerate(("a", "b", "c"))}
    entries = [
        {"site": name, "study": "containers", "session": str(path), "state": "complete", "reason": None}
        for name, path in sites.items()
    ]
    lost = {"site": "d", "study": "containers", "session": None, "state": "failed", "reason": "no route to it"}
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps({"name": "racks", "sessions": [*entries, lost]}))
    given = {"out": str(tmp_path), "campaign": str(file)}
    text = "\n".join(cells.shown(ROOT / "notebooks/sites.ipynb", given))
    for told in ("Missing: d: failed: no route to it", "a new site", "mean of sites 95 % CI", "over 3 sites", "3 of 4"):
        assert told in text
    assert len(list((tmp_path / "figures/racks-containers").glob("*.pdf"))) >= 4
