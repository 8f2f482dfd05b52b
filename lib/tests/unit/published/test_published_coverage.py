"""``coverage.toml``: what is printed twice, and why nothing of ours stands beside a printed number."""

from __future__ import annotations

import pytest

from infrabench.analysis.published import derived_metrics
from infrabench.analysis.published.comparison import targets
from infrabench.analysis.published.printed_numbers import NO_RESULTS, numbers, published, read_toml
from infrabench.analysis.published.statements import statements
from infrabench.notebook import published_coverage
from infrabench.notebook.published_cells import read_cells
from infrabench.notebook.published_coverage import LEAD, SCORE, find_first, find_reasons

RESULTS = [row.id for row in published().itertuples() if row.statistic not in NO_RESULTS]
HAVE = (
    {each for of in targets() for target in of.values() for each in target.ids}
    | {cell.row.id for study in ("containers", "runtimes", "storage") for cell in read_cells(study)[0]}
    | {bound.printed for bound in derived_metrics.bounds()}
    | {number for each in statements() for number in each.printed}
    | {LEAD}
    | {SCORE.format(engine) for engine in ("docker", "lxc", "lxd")}
)


def test_every_result_has_a_counterpart_repeats_one_or_has_a_reason() -> None:
    nowhere = [each for each in RESULTS if find_first(each) not in HAVE and not find_reasons(each)]
    assert not nowhere


def test_no_result_has_both_a_counterpart_and_a_reason_for_none() -> None:
    assert not [each for each in RESULTS if find_first(each) in HAVE and find_reasons(each)]


def test_every_entry_is_of_a_printed_result_and_leads_to_one() -> None:
    data, known = read_toml("coverage.toml"), numbers().rows
    patterns = [*data["same"], *(pattern for each in data["reason"] for pattern in each["printed"])]
    used = {pattern for pattern in patterns if any(published_coverage._pattern(pattern).fullmatch(i) for i in RESULTS)}
    assert set(patterns) == used
    assert {find_first(each) for each in RESULTS} <= known.keys()


@pytest.mark.parametrize(
    ("number", "first"),
    [
        ("A.overall.sum.lxc.003", "A.overall.percent.lxc.000"),
        ("A.web.overhead.high.lxd.003", "A.web.rate-decrease.high.lxd.000"),
        ("A.overall.percent.lxd.000.sec-3.4.3", "A.overall.percent.lxd.000"),
        ("C.copy.read.rate.ceph.002", "C.copy.read.rate.ceph.002"),
    ],
)
def test_a_number_that_is_printed_again_leads_to_the_first(number: str, first: str) -> None:
    assert find_first(number) == first
