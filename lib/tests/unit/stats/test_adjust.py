from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from infrabench.stats.multiplicity import benjamini_hochberg, by_family, holm


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.04, 0.3, 0.5, 1.0]), min_size=1, max_size=9))
def test_as_statsmodels_and_scipy(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_an_unknown_p_is_no_test(adjust) -> None:
    found = adjust([[0.04, np.nan, 0.01, 0.03], [np.nan] * 4])
    assert np.isnan(found[0, 1])
    assert found[0, [0, 2, 3]] == pytest.approx(adjust([0.04, 0.01, 0.03]))
    assert np.isnan(found[1]).all()
    assert adjust(np.empty(0)).shape == (0,)


def test_families_do_not_see_each_other() -> None:
    p = np.array([0.01, 0.02, 0.03, np.nan, 0.04])
    found = by_family(p, ["b", "a", "b", "a", "b"], holm)
    assert found[[0, 2, 4]] == pytest.approx(holm([0.01, 0.03, 0.04]))
    assert found[1] == 0.02
    assert np.isnan(found[3])
    assert by_family([], [], holm).shape == (0,)
