"""What a paper takes from the recorded sessions, and the example paper: what it quotes exists, and it is typeset."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import infrabench as ib
from infrabench import cli
from infrabench.analysis.figures import COLUMN_MM, PAGE_MM
from infrabench.analysis.results import chosen
from infrabench.analysis.tables import ratios_table
from infrabench.publish import latex
from tests.notebooks.test_notebooks import STUDIES
from tests.support.analysis_fixtures import results_of, write_session
from tests.support.frames import verdicts
from tests.support.pdf import page_mm
from tests.support.places import ROOT
from tests.support.sidecars import KEPT

EXAMPLE = ROOT / "paper" / "example.tex"
SOURCE = EXAMPLE.read_text(encoding="utf-8")


def recorded(study: str, pattern: str) -> Path:
    """Return the one file of that shape beside a study's recorded session."""
    (found,) = (ROOT / "data/recorded" / study).glob(pattern)
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The numbers of all recorded sessions, in the place that the example paper looks in."""
    home = tmp_path_factory.mktemp("paper")
    for study in STUDIES:
        latex.write(ib.results(ib.open_session(recorded(study, "*.tar.xz"))), home / "out" / "paper", KEPT)
    return home / "out" / "paper"


@pytest.mark.parametrize("study", STUDIES)
def test_a_recorded_session_quotes_the_recorded_numbers(study: str, written: Path) -> None:
    expected = json.loads(recorded(study, "*.json").read_text(encoding="utf-8"))["contrasts"]
    quoted = json.loads((written / f"numbers-{study}.json").read_text(encoding="utf-8"))["numbers"]
    by_case = {each["about"].split(", n = ")[0]: each for name, each in quoted.items() if name.endswith("Ratio")}
    for row in expected:
        workload, scenario, metric, system = (row[name] for name in ("workload", "scenario", "metric", "system"))
        (found,) = [each for case, each in by_case.items() if f": {workload}, {scenario}, {metric}: {system} /" in case]
        assert [found[name] for name in ("value", "low", "high")] == [
            pytest.approx(row[name], rel=1e-9) for name in ("ratio", "ratio_low", "ratio_high")
        ]


@pytest.mark.parametrize("study", STUDIES)
def test_every_command_is_defined_once_and_all_are_in_the_json(study: str, written: Path) -> None:
    source = (written / f"numbers-{study}.tex").read_text(encoding="utf-8")
    names = re.findall(r"^\\newcommand\{\\([^}]*)\}", source, re.MULTILINE)
    assert len(names) == len(set(names)) > 50
    assert all(re.fullmatch(f"{study}[A-Za-z]+", name) for name in names)
    assert set(json.loads((written / f"numbers-{study}.json").read_text("utf-8"))["numbers"]) == set(names)
    captions = {car["figure"] for path in KEPT.glob(f"{study}/*.json") if (car := json.loads(path.read_text("utf-8")))}
    assert sum(name.endswith("Caption") for name in names) == len(captions) + 1


def test_the_example_quotes_what_exists(written: Path) -> None:
    known = "".join(path.read_text(encoding="utf-8") for path in written.glob("numbers-*.tex"))
    quoted = set(re.findall(rf"\\((?:{'|'.join(STUDIES)})[A-Z][A-Za-z]+)", SOURCE))
    assert len(quoted) >= 15
    assert not [name for name in quoted if f"{{\\{name}}}" not in known]
    figures = re.findall(r"\\includegraphics\{([^}]*)\}", SOURCE)
    widths = {round(page_mm(KEPT / f"{name}.pdf")[0]) for name in figures}
    assert widths == {COLUMN_MM, PAGE_MM}


def test_the_example_types_no_number() -> None:
    body = SOURCE.partition(r"\begin{document}")[2]
    prose = re.sub(r"\\(?:includegraphics|input|label|ref)\{[^}]*\}", "", body)
    assert not re.findall(r"\d", prose)


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = str(write_session(tmp_path / "s", blocks=6))
    out = tmp_path / "mine"
    assert cli.main(["paper", session, "--out", str(out), "--prefix", "hostA"]) == 0
    assert {path.name for path in out.iterdir()} == {f"numbers-hostA.{end}" for end in ("json", "tex")} | {
        "ratios-hostA.tex"
    }
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert r"\newcommand{\hostABlocks}{6}" in (out / "numbers-hostA.tex").read_text(encoding="utf-8")
    assert cli.main(["paper", session, session, "--out", str(out), "--prefix", "hostA"]) == 2
    assert "--prefix is for one session" in capsys.readouterr().err
    assert cli.main(["paper", session, session, "--out", str(out)]) == 2
    assert "a second session of containers" in capsys.readouterr().err


def test_a_number_is_printed_in_the_unit_that_stands_beside_it(tmp_path: Path) -> None:
    found = results_of(write_session(tmp_path / "s", blocks=6), tmp_path)
    made = {each.name: each for each in latex.numbers(found)}
    for name, times, unit in (("IozoneRead", 1e6, "MB/s"), ("StreamTriad", 1e9, "GB/s")):
        whole = made[f"containersNative{name}Mean"]
        assert f"\u202f{unit} [" in whole.text
        printed = [times * float(number) for number in re.findall(r"[\d.]+", whole.text)]
        assert printed == pytest.approx([whole.value, whole.low, whole.high], rel=1e-2)


def test_the_table_of_ratios_has_a_sign_for_every_verdict(tmp_path: Path) -> None:
    rows = verdicts()
    table = ratios_table(rows, ["native", "docker", "lxc", "lxd"])
    assert list(table.columns) == ["workload", "metric", "scenario", "n", "docker", "lxc", "lxd"]
    first = table.iloc[0]
    assert (first["metric"], first["n"], first["docker"]) == ("requests ↑", "30", "0.975 [0.961, 0.989] ≠")
    assert (first["lxc"][-1], first["lxd"][-1]) == ("=", "?")
    last = table.iloc[-1]
    assert (last["n"], last["docker"], last["lxc"]) == ("0", "–", "not run")
    assert "scenario" not in ratios_table(rows[rows["scenario"] == "users=1000"], ["docker"]).columns
    found = results_of(write_session(tmp_path / "s", blocks=6), tmp_path)
    told = latex.ratios_caption(found)
    assert "Ratio of means to native with its paired 95 % Fieller interval over" in told
    shown = ratios_table(chosen(found), found.systems)["lxc"]
    assert {cell[-1] for cell in shown} <= {part[0] for part in told.split(". ")[1].split("; ")}
