"""What every study's notebook shows in one call: the answer, a section for each workload, and what is folded.

What most readers skip is folded behind a line that says what is in it: whoever doubts the line opens it. All of it is
made of the tables, figures and sentences that can also be called one by one.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from infrabench.analysis import results, tables
from infrabench.analysis.results import Results, Shown, listed, paragraph
from infrabench.analysis.session_data import Session
from infrabench.analysis.tables import notation
from infrabench.analysis.tables.columns import CI, both, words, write
from infrabench.core import STATES
from infrabench.experiment.design.design import Design
from infrabench.notebook import session_tables
from infrabench.notebook.plan_tables import budget_summary, budget_table, plan_summary, plan_table, power_summary
from infrabench.notebook.session_figures import figure
from infrabench.stats import contrasts, estimates, knee

TESTS = {  # kind of table -> the line that it is folded behind
    "results": "Estimates and contrasts in one table, as a paper prints them",
    "contrasts": "Every contrast with the baseline: ratio, interval, margin, verdict",
    "omnibus": "Is there any difference among the systems at all? Friedman's test over the ranks within blocks",
    "tiers": "Which systems cannot be told apart? Those that share a letter are not ranked",
    "interactions": "Is the ratio to the baseline the same at every level of a factor?",
    "trends": "How steeply does a metric follow its factor? The power, fitted within each block",
}


def fold(line: str, *shown: Shown) -> Shown:
    """Return what is shown, folded behind a line."""
    inside = join(*shown)
    return Shown(
        f"<details><summary>{html.escape(line)}</summary>{inside.html}</details>", f"{line}\n\n{inside.text}".rstrip()
    )


def join(*shown: Shown) -> Shown:
    """Return several things to show as one, below each other."""
    return Shown("".join(each.html for each in shown), "\n\n".join(each.text for each in shown))


def answer(found: Results) -> Shown:
    """Return a sentence for each system, of what it costs or gains in each primary metric, and the forest plot.

    A sentence says what the 95 % intervals rule out, whether a verdict decides or not.
    """
    rows = results.chosen(found)
    if rows.empty:
        return results.alone(found)
    names = rows["workload"] + " " + rows["metric"].map(notation.metric_title)
    sentences = []
    for system in found.systems:
        own = rows[rows["system"] == system]
        clauses = [
            f"{name} {tables.state_bounds(list(some.itertuples(index=False)))}"
            for name, some in own.groupby(names[own.index], sort=False)
        ]
        sentences += [f"{system}: {'; '.join(clauses)}."] if clauses else []
    sentences += [f"{name}: not run: {why}." for name, why in found.data["not_run"].items()]
    about = paragraph(f"Beside {found.data['baseline']}, by the 95 % interval of each ratio:")
    return join(about, listed(sentences), figure(found, "forest"))


def section(
    found: Results, workload: str, *metrics: str, more: Sequence[str] = (), kind: str = "points",
    further: Mapping[str, str] = MappingProxyType({}), columns: Sequence[str] = (),
) -> Shown:  # fmt: skip
    """Return a workload's section: of each metric the figure and what its contrasts say; the estimates folded.

    `more`: metrics of which only the sentences are shown; `kind`: of the figures, see `session_figures.figure`;
    `further`: other kinds of figures to show after them, each with its metric; `columns`: metrics of the folded table,
    by default all. Of a workload that was not run it says why.

    >>> ib.section(results, "web", "requests_per_s", further={"ecdf": "latency_p99_s"})
    """
    if not (found.estimates["workload"] == workload).any():
        return results.findings(found, workload, [*metrics, *more][0])
    shown: list[Shown] = []
    for metric in (*metrics, *more):
        shown += [figure(found, kind, workload, metric)] if metric in metrics else []
        shown.append(results.findings(found, workload, metric))
    shown += [figure(found, other, workload, metric) for other, metric in further.items()]
    return join(
        *shown, fold(f"Estimates of {workload}, by system", results.table(found, "estimates", [workload], columns))
    )


def fold_plan(wanted: Design) -> Shown:
    """Return what will run and what that can show, folded behind the plan in a sentence."""
    return fold(plan_summary(wanted), results.whole(plan_table(wanted)), paragraph(power_summary(wanted)))


def fold_provenance(session: Session) -> Shown:
    """Return where a session was measured and which of its trials are valid: three lines, what is behind them folded.

    What hosts and systems say of themselves, in every session that is pooled; what each system can do, where it was
    asked; states of trials, reasons and numbers of blocks.

    >>> ib.fold_provenance(session)
    """
    site, systems = session.data["site"], ", ".join(session.data["systems"])
    line = f"Measured at {site['name']} ({site['kind']}) from {session.data['created_utc'][:16].replace('T', ' ')} UTC"
    stamp, how = session.data.get("stamp") or "", ""
    if len(session.folders) > 1:
        line = f"{line}, in {len(session.folders)} sessions"
        how = ", a line where all sessions say the same, and else one for each answer"
    hosts = fold(
        f"{line}: {systems}. {stamp}".rstrip(),
        paragraph(f"What each system says, with its limits as seen from inside the target{how}:"),
        results.whole(session_tables.deployments_table(session)),
        paragraph(f"What each host says{how}:"),
        results.whole(session_tables.provenance_table(session)),
    )
    able = session_tables.capabilities_table(session)
    shown = [] if able.empty else [fold("What each system can do, as seen when it was made ready", results.whole(able))]
    return join(hosts, *shown, _fold_trials(session))


def _fold_trials(session: Session) -> Shown:
    """Return which trials are valid and why others are not, folded behind their numbers."""
    counts = session_tables.validity_table(session)
    found = {state: int(counts[state].sum()) for state in (*STATES, "missing")}
    others = ", ".join(f"{count} {state}" for state, count in found.items() if count and state != "ok")
    size = session_tables.size_table(session)
    time = budget_summary(session)
    shared = [paragraph("What the time was shared out by:"), results.whole(budget_table(session))] if time else []
    folded = fold(
        f"{found['ok']} valid trials; {others or 'none failed, invalid or missing'}",
        results.whole(counts), results.whole(session_tables.reasons_table(session)),
        paragraph("Blocks that were interrupted for long, and discarded whole:"),
        results.whole(session_tables.blocks_table(session)),
        paragraph("How many blocks there are, and why:"), results.whole(size), *shared,
    )  # fmt: skip
    return join(folded, paragraph(time)) if time else folded


def fold_tests(found: Results, workloads: Sequence[str] = (), metrics: Sequence[str] = ()) -> Shown:
    """Return the tables of `TESTS`, each folded behind its question."""
    return join(*(fold(line, results.table(found, kind, workloads, metrics)) for kind, line in TESTS.items()))


def fold_diagnostics(
    found: Results, workload: str, metric: str, *, scenario: str = "", workloads: Sequence[str] = (),
    metrics: Sequence[str] = (),
) -> Shown:  # fmt: skip
    """Return one case's values in the order in which they were measured, and the diagnostics of cells folded."""
    return join(
        figure(found, "order", workload, metric, scenario=scenario),
        fold("Diagnostics: dependence, outliers, modes", results.table(found, "diagnostics", workloads, metrics)),
    )


def load_knee(
    found: Results, workload: str = "web-rate", metric: str = "latency_mean_s", rate: str | None = None
) -> Shown:
    """Return a workload whose load was swept: its curve, and the rate at which each system's times leave the plateau.

    All systems share one limit over a factor, twice what the slowest of them takes at the lowest load, so that they are
    compared at equal latency; the rates of each block are a metric like any other, with intervals, ratios in pairs and
    verdicts. `rate`: the metric that says how much was done; None: the level of the factor is the rate that came.

    >>> ib.load_knee(results)
    >>> ib.load_knee(results, "fio-4k", rate="iops")
    """
    if not (found.estimates["workload"] == workload).any():
        return results.absent(found, workload)
    swept = found.table[(found.table["workload"] == workload) & found.table["level"].notna()]
    several = {
        str(factor): part
        for factor, part in swept.groupby("factor", sort=False, observed=True)
        if part["level"].min() < part["level"].max()
    }
    if not several:
        return paragraph(f"{workload}: one load alone has no knee. Take several: its profile load, or --set.")
    tried = swept[swept["state"] != "discarded"]
    blocks = tried.groupby(["session", "block"]).ngroups
    intros, cells, lines = [], [], []
    for factor, part in several.items():
        limit_s, slowest = knee.find_limit(part, workload, metric)
        rows, lacking = knee.sustain(part, workload, metric, limit_s, rate)
        lowest, highest = (notation.number(each) for each in (part["level"].min(), part["level"].max()))
        intros.append(
            f"The rate at which the mean time of a request reaches {format_time(limit_s)}, {knee.TIMES:g} times what "
            f"{slowest}, the slowest there, takes at {lowest} ({factor})"
        )
        lines += [
            f"{system}: in {count} of {blocks} blocks the mean time does not cross {format_time(limit_s)} from "
            f"{lowest} to {highest} ({factor}), or trials up to there were lost, so it has no rate: take loads that "
            "reach further, or lower ones"
            for system, count in lacking.items()
        ]
        if rows.empty:
            continue
        cells.append(write(estimates(rows), {
            "load": lambda _, factor=factor: factor, **words("system"), "blocks": lambda row: f"{row.n} of {blocks}",
            "rate, 1/s": lambda row: both(row, "mean")[0], CI: lambda row: both(row, "mean")[1],
        }))  # fmt: skip
        ratios = contrasts(rows, found.data["baseline"], found.data["margins"])
        lines += [results.sentence(row) for row in ratios.itertuples(index=False)]
    curve = figure(found, "scaling", workload, metric)
    if not cells:
        return join(curve, listed(lines))
    caption = f"{'. '.join(intros)}: means over blocks with 95 % intervals."
    return join(
        curve, listed(intros), results.kept(found, pd.concat(cells), f"{workload}-knee", caption), listed(lines)
    )


def format_time(seconds: float) -> str:
    """Return a time with the unit that suits it."""
    scale = notation.scale([seconds], "s")
    return f"{notation.number(seconds / scale.factor)} {scale.unit}"
