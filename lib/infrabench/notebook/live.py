"""What a notebook shows while a session runs: progress with the time left, and what the trials so far say.

Both have one place each in the cell's output and are drawn anew there, so that a saved notebook holds the last drawing
alone. They are drawn by the process that runs the trials, between two of them: never while one is being measured.
"""

from __future__ import annotations

import html
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from IPython.display import DisplayHandle, display

from infrabench.analysis import figures, tables
from infrabench.analysis.results import Shown, drawing
from infrabench.analysis.session_data import describe_session
from infrabench.analysis.tables.notation import html_table
from infrabench.analysis.tidy import tidy
from infrabench.core import InfrabenchError, Interrupted
from infrabench.experiment.execution.progress import OnProgress, Progressed, words
from infrabench.experiment.provenance import labels
from infrabench.ledger.session_folder import SessionFolder
from infrabench.stats import interim

PROGRESS_S = 3.0  # least time between two drawings of the progress
ESTIMATES_S = 5.0  # the same of the estimates
DAY_S = 12 * 3600.0  # an end that is further off is told with its day
SHARE = 0.02  # and no more than this share of the time goes into them, however long a session's table has become
# What a mistake in a drawing may raise. No session ends for it.
MISTAKES = (ArithmeticError, AttributeError, InfrabenchError, LookupError, RuntimeError, TypeError, ValueError)
CAUTION = (
    "To watch, not to decide by: this is what the trials so far say, without test or verdict. A session that is "
    "stopped, or prolonged, for it is biased."
)
log = logging.getLogger(__name__)


@contextmanager
def shown(title: str) -> Iterator[OnProgress]:
    """Yield a function for `session.run` that shows a session in the notebook's cell.

    An interrupt inside leaves as `Interrupted`, which says how to go on.
    """
    board = _Board(title)
    try:
        yield board.step
    except KeyboardInterrupt:
        board.close("interrupted")
        count = "no trial is" if board.now is None else f"{board.now.done} of {board.now.total_text} trials are"
        raise Interrupted(
            f"{count} recorded, and the systems are taken down. Run this cell again to go on with the same session"
        ) from None
    except BaseException:
        board.close("stopped")
        raise
    board.close("done")


class _Board:
    """One session as its cell shows it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.begun = time.monotonic()
        self.now: Progressed | None = None
        self.places: dict[str, DisplayHandle] = {}
        self.due = {"progress": 0.0, "estimates": 0.0}  # not before then, on the monotonic clock
        self.planned: Counter[int] = Counter()  # trials by block
        self.done: Counter[int] = Counter()
        self.behind = False  # a block has ended since the estimates were drawn
        self.broken = False

    def step(self, now: Progressed) -> None:
        """Take one step forward, and draw what is due."""
        grown = self.now is None or now.total != self.now.total
        self.now = now
        if now.stored is not None and grown:
            self.planned = Counter(trial.block for trial in now.stored.awaited)
        if now.record is not None:
            block = now.record.trial.block
            self.done[block] += 1
            self.behind |= self.done[block] >= self.planned[block]
        elif now.stored is not None:  # the start: what an earlier run recorded
            self.done = Counter(record.trial.block for record in now.stored.records.values())
            self.behind = now.done > 0
        if time.monotonic() >= self.due["progress"]:
            self.draw_progress("running")
            self.due["progress"] = time.monotonic() + PROGRESS_S
        if self.behind and time.monotonic() >= self.due["estimates"]:
            self.draw_estimates(now.stored)

    def close(self, how: str) -> None:
        """Draw the end: of a session that is done, its estimates follow in the notebook and are not repeated here."""
        if self.now is None:
            return
        self.draw_progress(how)
        if how == "done" and "estimates" in self.places:
            self.place("estimates", Shown("", ""))
        elif how != "done" and self.behind:
            self.draw_estimates(self.now.stored)

    def draw_progress(self, how: str) -> None:
        assert self.now is not None
        now = self.now
        parts = [f"{now.done} of {now.total_text} trials"]
        if self.planned:
            whole = sum(self.done[block] >= count for block, count in self.planned.items())
            parts.append(f"block {min(whole + 1, len(self.planned))} of {len(self.planned)}")
        if how == "running":
            end, long = datetime.now() + timedelta(seconds=now.remaining_s), now.remaining_s > DAY_S
            parts.append(f"about {words(now.remaining_s)} left, until {end:{'%d %b %H:%M' if long else '%H:%M'}}")
        else:
            parts.append(f"{how} after {words(time.monotonic() - self.begun)}")
        states = [f"{count} {state}" for state, count in sorted(now.states.items()) if state != "ok"]
        text = "; ".join(filter(None, [", ".join(parts), ", ".join(states)]))
        more = ""
        if now.record is not None:
            trial, took = now.record.trial, words(now.record.duration_s)
            which = " ".join(part for part in (trial.workload, trial.scenario) if part != "default")
            more = f"Last: {which} on {trial.system}, {took}, {now.record.state}. "
        if how == "running":
            more += f"Drawn at {datetime.now():%H:%M:%S}. To pause, interrupt the kernel; the same cell goes on."
        self.place("progress", Shown(
            f'<div><progress value="{now.done}" max="{max(now.total, 1)}" aria-label="trials" style="width:100%">'
            f"</progress><br><b>{html.escape(self.title)}: {html.escape(text)}</b><br>{html.escape(more)}</div>",
            f"{self.title}: {text}",
        ))  # fmt: skip

    def draw_estimates(self, stored: SessionFolder | None) -> None:
        if stored is None or self.broken:
            return
        begin = time.monotonic()
        try:
            self.place("estimates", estimates(stored))
        except MISTAKES:
            log.exception("the estimates so far cannot be drawn; the session goes on without them")
            self.broken = True
        took = time.monotonic() - begin
        log.debug("drew the estimates in %.2f s", took)
        self.behind = False
        self.due["estimates"] = time.monotonic() + max(ESTIMATES_S, took / SHARE)

    def place(self, name: str, what: Shown) -> None:
        """Show something in the place of this name, instead of what stood there."""
        if name in self.places:
            self.places[name].update(what)
        else:
            self.places[name] = display(what, display_id=True)


def estimates(stored: SessionFolder) -> Shown:
    """Return what the trials of a session say so far: a table, and a figure once there is a ratio to draw."""
    names = labels.of(stored.path)
    data = describe_session(stored)
    table = tidy(stored)
    table = table.assign(system=table["system"].replace(names))
    # Of what is run, the primary metrics; all, where none of what is run has one.
    primary = [tuple(each) for each in data["primary"] if each[0] in data["workloads"]]
    every = table[["workload", "metric"]].dropna().drop_duplicates().itertuples(index=False, name=None)
    found = interim(table, data["baseline"], primary or list(every))
    if found.empty:
        return Shown("<p>There is no value yet.</p>", "There is no value yet.")
    shown = tables.interim_table(found, data["baseline"])
    figure = figures.interim(found, data["baseline"], data["margins"], data["systems"])
    drawn = "" if figure is None else drawing(figures.screen(figure), "Ratios so far. " + CAUTION)
    caution = f"<p>{html.escape(CAUTION)}</p>" if figure is None else ""
    return Shown(f"<h4>So far</h4>{html_table(shown)}{caution}{drawn}", f"{tables.markdown(shown)}\n{CAUTION}")
