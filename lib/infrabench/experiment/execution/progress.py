"""How far a session is, how long it still takes, and a bar that says so in terminals and logs (notebooks: `live`)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tqdm import tqdm

from infrabench.core import Trial, TrialRecord
from infrabench.experiment.design.design import TRIAL_OVERHEAD_S, Treatment
from infrabench.ledger.session_folder import SessionFolder

HEADLESS = "INFRABENCH_HEADLESS"  # set in the environment of a notebook whose output goes to a log


@dataclass(frozen=True, slots=True)
class Progressed:
    """One step forward: counts over the whole session, and the record that made it (None at the start).

    Where a time is shared out, `grows` says that blocks may still be added to `total`, and `remaining_s` is what is
    left of the time.
    """

    done: int
    total: int
    remaining_s: float
    states: Mapping[str, int]
    record: TrialRecord | None
    stored: SessionFolder | None = None  # the session, where there is one
    grows: bool = False

    @property
    def total_text(self) -> str:
        """How many trials there are in all: ``90``, or ``90 or more`` where blocks may still be added."""
        return f"{self.total} or more" if self.grows else str(self.total)


OnProgress = Callable[[Progressed], None]


class Estimator:
    """Remaining time from the plan's expectation, corrected by what the same treatments took so far.

    Where a time is shared out, `left_s` is what is left of it, and at least that remains, because blocks are added.
    `ready_s`: how long it is expected to take to make the systems ready for each deployment after the first that has
    trials left.
    """

    def __init__(self, trials: Sequence[Trial], stored: SessionFolder | None = None, ready_s: float = 0.0) -> None:
        self._stored, self.left_s, self._ready_s, self.total = stored, 0.0, ready_s, 0
        self._left, self._planned = Counter[Treatment](), dict[Treatment, float]()
        self._of_deployment = Counter[int]()  # trials left
        self._took: dict[Treatment, tuple[int, float]] = {}
        self.states: Counter[str] = Counter()
        self._ready = 0  # the deployment that the systems are ready for
        self.more(trials)
        for trial in trials if stored is not None else ():
            if trial.id in stored.records:
                self.add(stored.records[trial.id])
        self._ready = min(+self._of_deployment, default=0)

    def add(self, record: TrialRecord, seconds: float | None = None) -> Progressed:
        """Count a finished trial that took `seconds` of wall time (None: what its record says)."""
        key = _treatment(record.trial)
        count, total = self._took.get(key, (0, 0.0))
        took_s = record.duration_s if seconds is None else seconds
        self._took[key] = (count + 1, total + took_s)
        self.left_s = max(0.0, self.left_s - took_s)
        self._left[key] -= 1
        self._of_deployment[record.trial.deployment] -= 1
        self.states[record.state] += 1
        return self.now(record)

    def more(self, trials: Sequence[Trial]) -> None:
        """Expect further trials: repeats, or blocks that were added."""
        self._left.update(_treatment(trial) for trial in trials)
        self._of_deployment.update(trial.deployment for trial in trials)
        self._planned |= {_treatment(trial): trial.seconds + TRIAL_OVERHEAD_S for trial in trials}
        self.total += len(trials)

    def now(self, record: TrialRecord | None = None) -> Progressed:
        """Return where the session stands."""
        planned = sum(self._planned[key] * count for key, (count, _) in self._took.items())
        took = sum(total for _, total in self._took.values())
        ratio = took / planned if planned > 0 and took > 0 else 1.0
        seconds = 0.0
        for key, left in self._left.items():
            count, total = self._took.get(key, (0, 0.0))
            seconds += left * (total / count if count else self._planned[key] * ratio)
        later = sum(deployment > self._ready for deployment in +self._of_deployment)
        remaining_s = max(seconds, self.left_s) + later * self._ready_s
        return Progressed(
            sum(self.states.values()), self.total, remaining_s, dict(self.states), record, self._stored,
            grows=self.left_s > 0,
        )  # fmt: skip


@contextmanager
def bar(title: str) -> Iterator[OnProgress]:
    """Yield a function for a session that shows a progress bar in a terminal; a log gets a line now and then."""
    bars: list[tqdm] = []
    terminal = sys.stderr.isatty()
    interval_s = 0.2 if terminal else 20.0  # a log must not be flooded

    def show(progress: Progressed) -> None:
        if not bars:
            bars.append(tqdm(
                total=progress.total, initial=progress.done, desc=title, unit="", file=sys.stderr,
                mininterval=interval_s, maxinterval=max(10.0, interval_s), miniters=1, dynamic_ncols=terminal,
                bar_format="{desc}: {n_fmt}/{total_fmt}{unit} {bar:20} {elapsed}{postfix}",
            ))  # fmt: skip
        bad = [f", {count} {state}" for state, count in sorted(progress.states.items()) if state != "ok"]
        # Set, not added: a session that goes on begins with what was recorded before, and may grow.
        bars[0].total, bars[0].unit = progress.total, " or more" if progress.grows else ""
        bars[0].set_postfix_str(f"{words(progress.remaining_s)} left{''.join(bad)}", refresh=False)
        bars[0].update(progress.done - bars[0].n)

    try:
        yield show
    finally:
        for each in bars:
            each.close()


def in_notebook() -> bool:
    """Tell whether somebody looks at this in a notebook: there what was shown can be drawn anew, in a log it cannot."""
    ipython = sys.modules.get("IPython")  # who looks at a notebook has it loaded
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel") and not os.environ.get(HEADLESS)


def words(seconds: float) -> str:
    """Return a duration as people say it: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _treatment(trial: Trial) -> Treatment:
    return trial.system, trial.workload, trial.scenario
