from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from infrabench.core import Trial, TrialRecord
from infrabench.experiment.design.design import TRIAL_OVERHEAD_S
from infrabench.experiment.execution import progress
from infrabench.experiment.execution.progress import Estimator, bar, words


def trial(number, workload="slow", seconds=10.0):
    return Trial(str(number), 0, number, "native", workload, "default", {}, None, None, seconds)


def record(made, seconds, state="ok"):
    return TrialRecord(made, state, "", "", seconds, seconds, (), (), {})


TRIALS = [trial(n, "slow" if n % 2 else "quick", 10.0 if n % 2 else 1.0) for n in range(20)]


def test_before_anything_ran_the_plan_is_believed():
    now = Estimator(TRIALS).now()
    assert (now.done, now.total) == (0, 20)
    assert now.remaining_s == pytest.approx(10 * (10 + TRIAL_OVERHEAD_S) + 10 * (1 + TRIAL_OVERHEAD_S))


def test_what_was_measured_corrects_the_same_treatment_and_scales_the_others():
    estimator = Estimator(TRIALS)
    quick = 2 * (1.0 + TRIAL_OVERHEAD_S)
    now = estimator.add(record(TRIALS[0], quick))
    assert now.remaining_s == pytest.approx(9 * quick + 10 * 2 * (10 + TRIAL_OVERHEAD_S))
    now = estimator.add(record(TRIALS[1], 5.0))
    assert now.remaining_s == pytest.approx(9 * quick + 9 * 5.0)


def test_at_the_end_nothing_remains_and_states_are_counted():
    estimator = Estimator(TRIALS)
    for made in TRIALS:
        now = estimator.add(record(made, 1.0, "ok" if made.position else "failed"))
    assert now.remaining_s == 0
    assert now.states == {"failed": 1, "ok": 19}


def test_of_a_time_that_is_shared_out_what_is_left_of_it_remains(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    estimator = Estimator(TRIALS)
    estimator.left_s = 600.0
    with bar("title") as show:
        for made in TRIALS:
            now = estimator.add(record(made, 10.0))
            show(now)
    assert (now.remaining_s, now.total_text, now.grows) == (400.0, "20 or more", True)
    assert "20/20 or more" in log.getvalue()
    assert "7 min left" in log.getvalue()
    estimator.left_s = 0.0  # the last look has ended it
    assert (estimator.now().remaining_s, estimator.now().total_text) == (0.0, "20")


def test_a_log_is_not_flooded_and_says_what_failed(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    estimator = Estimator(TRIALS)
    with bar("title") as show:
        show(estimator.now())
        for made in TRIALS:
            show(estimator.add(record(made, 0.0, "timeout" if made.position == 3 else "ok")))
    assert len(log.getvalue().split("\r")) <= 4
    assert "20/20" in log.getvalue()
    assert "1 timeout" in log.getvalue()


def test_somebody_looks_at_a_notebook_only_where_there_is_a_kernel_and_no_log(monkeypatch):
    monkeypatch.delenv(progress.HEADLESS, raising=False)
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    assert progress.in_notebook()
    monkeypatch.setenv(progress.HEADLESS, "1")
    assert not progress.in_notebook()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (89, "89 s"), (300, "5 min"), (5400, "1 h 30 min"), (86399, "24 h 0 min")]
)
def test_durations_in_words(seconds, said):
    assert words(seconds) == said
