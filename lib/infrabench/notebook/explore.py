"""A cell whose reader chooses: a session, a case of it, systems, and one of four ways to look at their trials.

Nothing is computed for it. Rows of the analysis are selected, drawn by the figures of a session and worded by its
sentences; leaving a system out hides its rows and changes no interval, adjustment or verdict of the others.
In JupyterLab the controls stand above the figure. Its output has the last choice as a plain picture too, hidden while
the controls are there, and that alone is left in a saved notebook. Where no front end can show controls (papermill,
nbconvert, and so the report) the output is the picture of the default choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import ipywidgets
import pandas as pd
from IPython import get_ipython
from IPython.display import display

from infrabench.analysis.figures.sentences import no_value
from infrabench.analysis.results import Results, Shown, findings, listed, not_applicable, paragraph
from infrabench.analysis.session_data import open_session
from infrabench.analysis.tables import notation
from infrabench.core import DesignError, InfrabenchError, unknown_name
from infrabench.experiment.execution.progress import in_notebook
from infrabench.ledger import catalogue
from infrabench.notebook import api
from infrabench.notebook.sections import join
from infrabench.notebook.session_figures import figure

# View of a choice, a kind of `session_figures.figure` -> the words on its button
VIEWS = MappingProxyType({
    "blocks": "Values by block", "forest": "Ratio with interval", "order": "Order of trials", "ecdf": "Distribution",
})  # fmt: skip
HINT = (
    "One case of the session, as a picture. In JupyterLab (make notebook, Run All Cells) this cell has controls for "
    "session, workload, metric, scenario, systems, and how to look at them."
)
OWN = ""  # the session of the notebook itself, among the names of the others
SPACED = {"width": "auto", "margin": "2px 12px 2px 0"}
AUTO = MappingProxyType({"style": {"description_width": "initial"}, "layout": SPACED})
MOST_REASONS = 3  # why trials have no value, of each system


@dataclass(frozen=True)
class Choice:
    """What is looked at: a case of a session, systems, and a key of `VIEWS`; "" is open, and so are systems None."""

    workload: str = ""
    metric: str = ""
    scenario: str = ""
    systems: tuple[str, ...] | None = None
    view: str = ""


def explore(
    found: Results, workload: str = "", metric: str = "", *, scenario: str = "", systems: Sequence[str] | None = None,
    view: str = "",
) -> Shown | None:  # fmt: skip
    """Show trials of a session with controls to choose which, and how; without a front end for them return a picture.

    What is not given is the first primary metric, its first scenario, all systems, and ``blocks``: see `VIEWS`. A name
    that the session does not have is answered with a sentence in the place of the figure. No file is written.

    >>> ib.explore(results, "web", "requests_per_s", systems=["native", "docker"], view="ecdf")
    """
    names = (systems,) if isinstance(systems, str) else systems and tuple(systems)
    wanted = Choice(workload, metric, scenario, names, view)
    if _is_watched():
        _Explorer(found, wanted)
        return None
    return join(paragraph(HINT), show_choice(found, wanted))


def list_cases(found: Results) -> dict[str, dict[str, list[str]]]:
    """Return workload -> metric -> its scenarios, primary metrics first; the metric "": no trial has a value."""
    rows = found.estimates.assign(metric=found.estimates["metric"].fillna(""))
    primary = [tuple(each) for each in found.data["primary"]]
    pairs = list(dict.fromkeys(zip(rows["workload"], rows["metric"], strict=True)))
    cases: dict[str, dict[str, list[str]]] = {}
    for workload, metric in [*(pair for pair in primary if pair in pairs), *pairs]:
        of_metric = rows[(rows["workload"] == workload) & (rows["metric"] == metric)]
        of_metric = of_metric.sort_values(["level", "scenario"], kind="stable")
        cases.setdefault(workload, {})[metric] = list(dict.fromkeys(of_metric["scenario"]))
    return cases


def complete_choice(found: Results, wanted: Choice) -> Choice:
    """Return a choice with what it leaves open: primary metrics first, the first scenario, all systems, `VIEWS`' first.

    Raises `DesignError` for a name that the session does not have, and for a session without trials.
    """
    cases = list_cases(found)
    if not cases:
        raise DesignError(f"this session of {found.data['study']} has no trial yet: there is nothing to show")
    workload = _pick("workload", wanted.workload, cases)
    metric = _pick(f"metric of {workload}", wanted.metric, cases[workload])
    scenario = _pick(f"scenario of {workload} {metric}".rstrip(), wanted.scenario, cases[workload][metric])
    for name in wanted.systems or ():
        _pick("system", name, found.systems)
    systems = tuple(name for name in found.systems if wanted.systems is None or name in wanted.systems)
    return Choice(workload, metric, scenario, systems, _pick("view", wanted.view, VIEWS))


def select_rows(found: Results, choice: Choice) -> Results:
    """Return the rows of a case and of some systems as they were analysed with all; colours stay those of all."""

    def keep(frame: pd.DataFrame) -> pd.DataFrame:
        case = (frame["workload"] == choice.workload) & (frame["scenario"] == choice.scenario)
        return frame[case & frame["system"].isin(choice.systems)]

    absent = [
        each for each in found.data.get("not_applicable", [])
        if each["scenario"] == choice.scenario and each["system"] in choice.systems
    ]  # fmt: skip
    frames = {name: keep(getattr(found, name)) for name in ("table", "estimates", "contrasts", "diagnostics")}
    return replace(found, data=found.data | {"not_applicable": absent}, **frames)


def show_choice(found: Results, wanted: Choice) -> Shown:
    """Return the figure of a choice and what its contrasts say; where there is none, why, in a sentence."""
    try:
        choice = complete_choice(found, wanted)
        if not choice.systems:
            return paragraph(f"No system is chosen. This session has {', '.join(found.systems)}.")
        rows = select_rows(found, choice)
        values = rows.table[(rows.table["metric"] == choice.metric) & rows.table["value"].notna()]
        if values.empty:
            return _explain_no_value(rows, choice)
        ratios = rows.contrasts[rows.contrasts["metric"] == choice.metric]
        if ratios.empty:
            said = paragraph(_explain_no_ratio(found, choice))
        else:
            said = findings(rows, choice.workload, choice.metric)
        if choice.view == "forest" and not ratios["ratio"].notna().any():
            return said
        drawn = figure(
            rows, choice.view, choice.workload, choice.metric, scenario=choice.scenario, width="page", save=False
        )
        return join(drawn, said)
    except InfrabenchError as error:
        return _say(error)


def _say(error: InfrabenchError) -> Shown:
    """Return what went wrong as a sentence."""
    return paragraph(f"{str(error).rstrip('.')}.")


def _pick(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name`, or the first that is known where it is open; `DesignError` where it is not known."""
    names = list(known)
    if name and name not in names:
        raise unknown_name(kind, name, names)
    return name or names[0]


def _explain_no_value(rows: Results, choice: Choice) -> Shown:
    """Return that the chosen systems have no value in a case: in which states their trials are, and why."""
    trials = rows.table.drop_duplicates(["session", "trial"])
    reasons = trials[trials["reason"] != ""].groupby(["system", "state"], sort=False, observed=True)["reason"]
    sentences = [f"{' '.join(key)}: {'; '.join(dict.fromkeys(some.head(MOST_REASONS)))}." for key, some in reasons]
    absent = not_applicable(rows, choice.workload)
    sentences += [f"{who}: not run: {why}." for who, why in absent.items()]
    what = notation.metric_title(choice.metric).lower() if choice.metric else "any metric"
    about = f"{choice.workload}, {choice.scenario}: no trial of {', '.join(choice.systems)} has a value of {what}. "
    about += no_value(trials) if len(trials) else "" if absent else "None is recorded yet."
    about = paragraph(about.rstrip())
    return join(about, listed(sentences)) if sentences else about


def _explain_no_ratio(found: Results, choice: Choice) -> str:
    """Return why no ratio is among the chosen rows: too few systems were chosen, or were measured."""
    rows, every = (select_rows(found, replace(choice, systems=names)) for names in (choice.systems, found.systems))
    if (every.contrasts["metric"] == choice.metric).any():
        text = f"no system is chosen that has a ratio to {found.data['baseline']}"
        not_run = not_applicable(rows, choice.workload)
    else:
        text = f"only {', '.join(dict.fromkeys(every.table['system']))} was measured, so there is no ratio"
        not_run = found.data["not_run"] | not_applicable(every, choice.workload)
    why = [f"{name} not run: {reason}" for name, reason in not_run.items()]
    return f"{choice.workload}, {choice.scenario}: {'; '.join([text, *why])}."


def _is_watched() -> bool:
    """Tell whether a front end runs this cell that can show controls.

    JupyterLab says which cell it runs, by its id; papermill and nbconvert, which nobody looks at, do not.
    """
    return in_notebook() and bool(get_ipython().get_parent().get("metadata", {}).get("cellId"))


class _Explorer:
    """The controls of one cell, what they show, and the plain picture of it that a saved notebook keeps."""

    def __init__(self, found: Results, wanted: Choice) -> None:
        self.own = self.found = found
        self.busy = False  # controls are being set, by this and not by a person
        own = [str(name) for name in found.table["session"].unique()]
        sessions = [(f"{found.data['study']}: {', '.join(own)} (this notebook)", OWN)] + [
            (f"{path.parent.name}: {name}", name)
            for name, path in catalogue.sessions().items()
            if catalogue.session_name(path) not in own
        ]
        self.session = ipywidgets.Dropdown(description="Study: session", options=sessions, **AUTO)
        self.workload, self.metric, self.scenario = (
            ipywidgets.Dropdown(description=name, **AUTO) for name in ("Workload", "Metric", "Scenario")
        )
        self.systems = ipywidgets.HBox(layout={"flex_flow": "row wrap"})
        self.view = ipywidgets.ToggleButtons(
            options=[(words, view) for view, words in VIEWS.items()], style={"button_width": "auto"}
        )
        self.shown = ipywidgets.HTML(layout={"width": "100%"})
        self.shown.add_class("jp-RenderedHTMLCommon")
        rows = [[self.session], [self.workload, self.metric, self.scenario], [self.systems], [self.view], [self.shown]]
        self.box = ipywidgets.VBox([ipywidgets.HBox(row, layout={"flex_flow": "row wrap"}) for row in rows])
        self.mark = f"infrabench-{self.box.model_id}"
        # Without a text for whoever shows no controls: what follows is for them.
        display({**self.box._repr_mimebundle_(), "text/plain": ""}, raw=True)
        self.picture = display(Shown("", ""), display_id=True)
        self.session.observe(self.load, "value")
        for control in (self.workload, self.metric, self.scenario, self.view):
            control.observe(self.change, "value")
        self.choose(wanted)

    def load(self, _: object) -> None:
        """Show another session. Of one that cannot be read a sentence says why, and nothing of the one before stays."""
        name = self.session.value
        self.place(paragraph(f"Reading {name or 'the session of this notebook'} ..."))
        try:
            self.found = self.own if name == OWN else api.results(open_session(name))
        except InfrabenchError as error:
            self.fill({}, Choice(view=self.view.value), [])
            self.place(_say(error))
            return
        self.choose(Choice(view=self.view.value))

    def change(self, _: object) -> None:
        """Show what the controls say; what the chosen workload does not have gives way to what it has."""
        if self.busy or self.workload.value is None:
            return
        metrics = list_cases(self.found)[self.workload.value]
        metric = self.metric.value if self.metric.value in metrics else next(iter(metrics))
        scenario = self.scenario.value if self.scenario.value in metrics[metric] else ""
        systems = tuple(each.description for each in self.systems.children if each.value)
        self.choose(Choice(self.workload.value, metric, scenario, systems, self.view.value))

    def choose(self, wanted: Choice) -> None:
        """Set the controls to a choice, or to what is there where a name of it is wrong, and show it."""
        cases = list_cases(self.found)
        try:
            choice = complete_choice(self.found, wanted)
        except DesignError:
            choice = complete_choice(self.found, Choice()) if cases else Choice(view=self.view.value)
        self.fill(cases, choice, self.found.systems)
        try:
            self.place(show_choice(self.found, wanted))
        except Exception:  # a figure of the choice before must not stand below these controls
            self.place(paragraph("This choice cannot be shown, by a mistake in the library: the log has it."))
            raise

    def fill(self, cases: Mapping[str, Mapping[str, Sequence[str]]], choice: Choice, systems: Sequence[str]) -> None:
        """Set the controls to a choice among what there is."""
        self.busy = True
        metrics = cases.get(choice.workload, {})
        titles = [(self.title(choice.workload, name), name) for name in metrics]
        for control, options, value in (
            (self.workload, list(cases), choice.workload),
            (self.metric, titles, choice.metric),
            (self.scenario, metrics.get(choice.metric, []), choice.scenario),
        ):
            if list(control.options) != options:
                control.options = options
            if options:
                control.value = value
        if [each.description for each in self.systems.children] != list(systems):
            self.systems.children = [ipywidgets.Checkbox(description=name, indent=False, **AUTO) for name in systems]
            for each in self.systems.children:
                each.observe(self.change, "value")
        for each in self.systems.children:
            each.value = each.description in (choice.systems or ())
        self.view.value = choice.view
        self.busy = False

    def title(self, workload: str, metric: str) -> str:
        """Return a metric as the control names it."""
        if not metric:
            return "no trial has a value"
        return notation.metric_title(metric) + " (primary)" * ([workload, metric] in self.found.data["primary"])

    def place(self, what: Shown) -> None:
        """Put something into the place of the figure, and of the picture that stays in the notebook."""
        hidden = f"<style>.{self.mark} {{ display: none }}</style>"
        self.shown.value = f'{hidden}<div style="line-height: 1.5">{what.html}</div>'
        kept = join(paragraph(HINT), what)
        self.picture.update(Shown(f'<div class="{self.mark}">{kept.html}</div>', kept.text))
