"""What a figure is drawn from, and the registry of the figures of a session: one function draws and words each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from infrabench.analysis.figures import sentences, theme
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError

ORDER = ["session", "position", "attempt", "started_utc"]  # repeats share the last position of their block


class Drawn(NamedTuple):
    """A figure, and its caption from computed values."""

    figure: Figure
    caption: str


@dataclass(frozen=True)
class View:
    """What a figure shows: a case, frames of the analysis (a figure says which it reads), systems, how wide.

    Figures of all scenarios, or of several metrics, leave the rest of the case empty. Contrasts are drawn as they are
    given: select them before. Without contrasts, `points` and `scaling` have no panel of ratios.
    """

    workload: str = ""
    metric: str = ""
    scenario: str = ""
    table: pd.DataFrame = None  # the tidy table; the others are what `infrabench.stats` returns of it
    estimates: pd.DataFrame = None
    contrasts: pd.DataFrame = None
    diagnostics: pd.DataFrame = None
    tiers: pd.DataFrame = None
    probes: pd.DataFrame = None
    systems: Sequence[str] = ()  # to draw, in this order
    every_system: Sequence[str] = ()  # the session's, baseline first: it fixes colours
    not_run: Mapping[str, str] = field(default_factory=dict)  # system that could not be run -> reason
    absent: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (scenario, system) without a place -> reason
    order: str = "random"  # of the trials of a block: a key of `sentences.ORDERS`, or a sentence
    width_mm: float | None = None  # in print, 85 or 174; None is what suits the figure
    published: pd.DataFrame = None  # contrasts beside the ratios that papers print (`figures.published`)

    def of_metric(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of `frame` that are of this view's workload and metric."""
        return frame[(frame["workload"] == self.workload) & (frame["metric"] == self.metric)]

    @cached_property
    def trials(self) -> pd.DataFrame:
        """The rows of the table that are of systems to draw."""
        return self.table[self.table["system"].isin(list(self.systems))]

    @cached_property
    def case(self) -> pd.DataFrame:
        """The trials of the case in executed order, those without a value too, as column ``rank`` 1, 2, ...

        Raises `SchemaError` when none of them has a value of the metric.
        """
        case = self.trials[(self.trials["workload"] == self.workload) & (self.trials["scenario"] == self.scenario)]
        case = case[(case["metric"] == self.metric) | case["metric"].isna()].sort_values(ORDER, kind="stable")
        if case["metric"].isna().all():
            what = f"{self.workload}, {self.scenario}, {self.metric}"
            raise SchemaError(f"no ok trial of {what}: there is nothing to draw")
        # the order among the trials of this case: gaps for other workloads would only thin the plot out
        return case.assign(rank=np.arange(1, len(case) + 1))

    @cached_property
    def by_system(self) -> dict[str, np.ndarray]:
        """System -> its values in executed order."""
        case = self.case[self.case["value"].notna()]
        groups = case.groupby("system", observed=True, sort=False)["value"]
        return {str(name): values.to_numpy(dtype=float) for name, values in groups}

    @property
    def unit(self) -> str:
        """Unit of the case's metric."""
        return str(self.case.loc[self.case["metric"].notna(), "unit"].iloc[0])

    @property
    def better(self) -> str:
        """Direction of the case's metric."""
        return str(self.case.loc[self.case["metric"].notna(), "better"].iloc[0])

    @cached_property
    def scale(self) -> notation.Scale:
        """The unit in which the values of the case are shown."""
        return notation.scale(self.case["value"], self.unit)

    @property
    def drawn(self) -> list[str]:
        """Systems that have a value in the case."""
        return [name for name in self.systems if name in self.by_system]

    @cached_property
    def marks(self) -> dict[str, theme.SystemStyle]:
        """The look of each system, by its place in the session."""
        return theme.assign_styles(self.every_system)

    def row(self, frame: pd.DataFrame, system: str) -> Any:
        """Return a system's row of the case in `frame` as a named tuple, or None."""
        rows = self.of_metric(frame)
        rows = rows[(rows["scenario"] == self.scenario) & (rows["system"] == system)]
        return next(rows.itertuples(index=False), None)

    def axis_label(self) -> str:
        """Return the label of the axis of the case's values."""
        return notation.axis_label(self.metric, self.scale, self.better)

    @property
    def about(self) -> str:
        """How the caption of a case begins: ``web, users=1000: ``."""
        return f"{self.workload}, {self.scenario}: "

    @property
    def metric_in(self) -> str:
        """The case's metric in words, with the unit in which it is shown."""
        return sentences.metric_in(self.case["value"], self.metric, self.unit)

    @property
    def dependence(self) -> str:
        """What the diagnostics of the case say about autocorrelation, as a sentence."""
        rows = [self.row(self.diagnostics, name) for name in dict.fromkeys(self.diagnostics["system"])]
        return sentences.dependence([row for row in rows if row is not None])


@dataclass(frozen=True)
class SessionFigure:
    """A figure of a session: its function, and which frame of the view it shows; one scenario, or all of them."""

    draw: Callable[[View], Drawn]
    rows: str
    one_case: bool


FIGURES: dict[str, SessionFigure] = {}


def figure(
    name: str, *, rows: str = "table", one_case: bool = False
) -> Callable[[Callable[[View], Drawn]], Callable[[View], Drawn]]:
    """Make a function that draws and words a view a figure of a session, drawn in the house style.

    `rows`: the frame that its side-car describes; `one_case`: it shows a single scenario.
    """

    def register(draw: Callable[[View], Drawn]) -> Callable[[View], Drawn]:
        styled = theme.style()(draw)
        FIGURES[name] = SessionFigure(styled, rows, one_case)
        return styled

    return register
