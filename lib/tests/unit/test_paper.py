"""What a paper takes from sessions: names that LaTeX takes and that are nobody else's, values that are those of the
analysis; and the example paper: what it quotes exists."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import infrabench as ib
from infrabench import cli
from infrabench.analysis.figures import COLUMN_MM, PAGE_MM
from infrabench.analysis.results import Results, chosen
from infrabench.analysis.tables import ratios_table
from infrabench.core import DesignError
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


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("session")
    return results_of(write_session(folder / "s", blocks=8), folder / "out")


@pytest.fixture(scope="module")
def made(found: Results) -> dict[str, latex.Number]:
    return {each.name: each for each in latex.numbers(found)}


@pytest.mark.parametrize("study", STUDIES)
def test_a_recorded_session_quotes_the_recorded_numbers(study: str, written: Path) -> None:
    expected = json.loads(recorded(study, "*.json").read_text(encoding="utf-8"))["contrasts"]
    quoted = json.loads((written / f"numbers-{study}.json").read_text(encoding="utf-8"))["numbers"]
    by_case = {each["about"].split(", n = ")[0]: each for name, each in quoted.items() if name.endswith("Ratio")}
    for row in (each for each in expected if each["ratio"] is not None):  # else there is nothing to quote
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


def test_the_table_of_ratios_has_a_sign_for_every_verdict(found: Results) -> None:
    rows = verdicts()
    table = ratios_table(rows, ["native", "docker", "lxc", "lxd"])
    assert list(table.columns) == ["workload", "metric", "scenario", "n", "docker", "lxc", "lxd"]
    first = table.iloc[0]
    assert (first["metric"], first["n"], first["docker"]) == ("requests ↑", "30", "0.975 [0.961, 0.989] ≠")
    assert (first["lxc"][-1], first["lxd"][-1]) == ("=", "?")
    last = table.iloc[-1]
    assert (last["n"], last["docker"], last["lxc"]) == ("0", "–", "not run")
    assert "scenario" not in ratios_table(rows[rows["scenario"] == "users=1000"], ["docker"]).columns
    told = latex.ratios_caption(found)
    assert "Ratio of means to native with its paired 95 % Fieller interval over" in told
    shown = ratios_table(chosen(found), found.systems)["lxc"]
    assert {cell[-1] for cell in shown} <= {part[0] for part in told.split(". ")[1].split("; ")}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("users=1000", "UsersOneThousand"),
        ("tcp_rr two-nodes", "TcpRrTwoNodes"),
        ("zfs (user space)", "ZfsUserSpace"),
        ("latency_p99", "LatencyPNinetyNine"),
        ("size=64MiB", "SizeSixtyFourMiB"),
        ("0 10 12 110 205 8000 25000 999999", "ZeroTenTwelveOneHundredTenTwoHundredFiveEightThousandTwentyFiveThousand"
         "NineHundredNinetyNineThousandNineHundredNinetyNine"),
        ("1234567 007", "OneTwoThreeFourFiveSixSevenZeroZeroSeven"),
        ("1.5 µs", "OnePointFiveUs"),
        ("\\input{x}%", "InputX"),
    ],
)  # fmt: skip
def test_words_become_letters(text: str, name: str) -> None:
    assert latex.letters(text) == name


@given(st.text(max_size=40))
def test_any_text_becomes_letters_alone(text: str) -> None:
    assert re.fullmatch("[A-Za-z]*", latex.letters(text))


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_two_numbers_have_two_names(one: int, two: int) -> None:
    assert (latex.letters(str(one)) == latex.letters(str(two))) == (one == two)


def test_each_number_has_a_name_of_letters_and_says_what_it_is(found: Results, made: dict[str, latex.Number]) -> None:
    assert len(made) == len(latex.numbers(found)) > 100
    assert all(re.fullmatch("containers[A-Z][A-Za-z]+", name) for name in made)
    assert all(each.about.startswith(f"{latex.sessions(found)[0]}: ") for each in made.values())
    assert all("n = " in each.about for name, each in made.items() if name.endswith(("Ratio", "Mean", "Median")))


def test_a_number_is_that_of_the_analysis(found: Results, made: dict[str, latex.Number]) -> None:
    cell = ["workload", "scenario", "metric", "system"]
    row = found.contrasts.set_index(cell).loc[("web", "users=1000", "requests_per_s", "lxc")]
    ratio = made["containersLxcWebUsersOneThousandRequestsRatio"]
    assert (ratio.value, ratio.low, ratio.high) == (row["ratio"], row["ratio_low"], row["ratio_high"])
    only = made["containersLxcWebUsersOneThousandRequestsRatioOnly"].text
    assert ratio.text.startswith(f"{only} [")
    assert float(only) == pytest.approx(row["ratio"], rel=0.01)
    assert made["containersLxcWebUsersOneThousandRequestsVerdict"].text == row["verdict"]
    assert made["containersLxcWebUsersOneThousandRequestsPairs"].text == f"{row['n_pairs']} blocks"
    mean = made["containersLxcIozoneReadMean"]
    assert mean.value == found.estimates.set_index(cell).loc[("iozone", "size=128MiB", "read_B_per_s", "lxc"), "mean"]
    for name, times, unit in (("IozoneRead", 1e6, "MB/s"), ("StreamTriad", 1e9, "GB/s")):
        whole = made[f"containersNative{name}Mean"]
        assert re.fullmatch(rf"[\d.]+\u202f{unit} \[[\d.]+, [\d.]+\]", whole.text)
        printed = [times * float(number) for number in re.findall(r"[\d.]+", whole.text)]
        assert printed == pytest.approx([whole.value, whole.low, whole.high], rel=1e-2)


def test_what_has_no_value_has_no_name(found: Results, made: dict[str, latex.Number]) -> None:
    gone = found.contrasts[found.contrasts["ratio"].isna()]
    assert {"stream"} <= set(gone.loc[gone["system"] == "docker", "workload"])
    assert not [name for name in made if name.startswith("containersDockerStream")]
    assert all(each.value is None or np.isfinite(each.value) for each in made.values())


def test_a_count_without_events_has_an_upper_end(made: dict[str, latex.Number]) -> None:
    assert made["containersNativeWebUsersOneThousandFailedRequestsMean"].text == "0.00 [0.00, 0.46]"


def test_metrics_that_differ_in_their_unit_keep_it(found: Results) -> None:
    twin = found.estimates.assign(metric=found.estimates["metric"].str.replace("total_s", "requests_s"))
    names = {each.name for each in latex.numbers(replace(found, estimates=twin))}
    begin = "containersLxcWebUsersOneThousandRequests"
    assert {f"{begin}PerSMean", f"{begin}SMean", f"{begin}PerSRatio"} <= names
    assert f"{begin}Mean" not in names


def test_two_numbers_of_one_name_are_refused(found: Results) -> None:
    def rename(frame: object) -> object:
        return frame.assign(system=frame["system"].replace({"docker": "lx-c"}))  # type: ignore[attr-defined]

    twins = replace(found, estimates=rename(found.estimates), contrasts=rename(found.contrasts))
    assert latex.numbers(twins)  # LxC is not Lxc
    one = {"system": "lxc"}
    same = replace(found, estimates=found.estimates.assign(**one), contrasts=found.contrasts.assign(**one))
    with pytest.raises(DesignError, match="two numbers come to the name containersLxc"):
        latex.numbers(same)


def test_a_prefix_is_letters(found: Results) -> None:
    assert all(each.name.startswith("hostA") for each in latex.numbers(found, "hostA"))
    with pytest.raises(DesignError, match="letters only"):
        latex.numbers(found, "host1")


def test_commands_are_escaped_and_commented(found: Results) -> None:
    made = [
        latex.Number("xOverhead", "−1.2\u202f% [−3, 1]", "s: a\nb, n = 3", -1.2),
        latex.Number("xVerdict", "50 % & more", "s: a\nb, n = 3"),
    ]
    lines = latex.commands(made, "Numbers\nof 5 %").splitlines()
    assert lines[0] == "% Numbers of 5 %"
    assert lines[3:] == [
        "% s: a b, n = 3", r"\newcommand{\xOverhead}{$-$1.2\,\% [$-$3, 1]}", r"\newcommand{\xVerdict}{50 \% \& more}",
    ]  # fmt: skip
