"""Numbers for sentences: names that LaTeX takes and that are nobody else's, values that are those of the analysis."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.analysis.results import Results
from infrabench.core import DesignError
from infrabench.publish import latex
from tests.support.analysis_fixtures import results_of, write_session


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("inline")
    return results_of(write_session(folder / "s", blocks=8), folder / "out")


@pytest.fixture(scope="module")
def made(found: Results) -> dict[str, latex.Number]:
    return {each.name: each for each in latex.numbers(found)}


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
    assert re.fullmatch(r"[\d.]+\u202fMB/s \[[\d.]+, [\d.]+\]", mean.text)


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
