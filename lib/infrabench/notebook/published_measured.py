"""A session beside the papers: every published ratio with ours, the metrics that they promise, their composite score.

How a comparison is classified stands in `infrabench.analysis.published.comparison` alone; nothing here decides.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from infrabench.analysis import results
from infrabench.analysis.published import derived_metrics, score
from infrabench.analysis.published.comparison import WORDS, plain
from infrabench.analysis.published.printed_numbers import numbers
from infrabench.analysis.published.statements import judge_statements, statements
from infrabench.analysis.results import Results, Shown, absence, kept, listed, paragraph
from infrabench.analysis.tables import columns, notation
from infrabench.core import InfrabenchError
from infrabench.notebook import published_audit, published_cells
from infrabench.notebook.published_cells import LETTERS, compare_published
from infrabench.notebook.sections import fold, format_time, join
from infrabench.notebook.session_figures import figure

SCORE = "A.overall.percent.{}.000"  # id of an engine's printed score
METRICS = (  # what papers print of a workload, and the metric of ours that it is
    ("memory", "stream", derived_metrics.AVERAGE),
    ("the web server's time per request", "web", derived_metrics.PER_REQUEST),
    ("FTP's latency", "ftp", "first_byte_s"),
)


def published(found: Results) -> Shown:
    """Return how many published ratios agree with ours, and the figure of all of them.

    Folded: what is printed, printed values beside ours, every ratio as a table, what does not add up in the papers,
    what is left of their conclusions.

    >>> ib.published(results)
    """
    rows = compare_published(found)
    if rows.empty:
        return paragraph("No published ratio belongs to this study.")
    words = rows["agreement"].value_counts()
    counts = ", ".join(f"{word} {words[word]}" for word in WORDS if word in words)
    missing = int((rows["n_pairs"] == 0).sum())
    more = f", {missing} of them because nothing was measured" if missing else ""
    sections = [results.table(found, "published")] if rows["where"].notna().any() else []
    sections += [published_cells.ratios(found)] if rows["printed"].notna().any() else []
    study, folder = LETTERS[str(found.data["study"])], str(found.folder)
    cells = [published_cells.values(found)] if published_cells.read_cells(found.data["study"])[0] else []
    return join(
        fold("What is printed, as it stands", published_audit.numbers(study, folder)),
        *(fold("Printed values beside those of ours that they can stand for", each) for each in cells),
        paragraph(f"{len(rows)} comparisons with published ratios: {counts}{more}."),
        figure(found, "published"),
        fold("Every published ratio, where it is printed, and what is to be known of it", *sections),
        fold("What does not add up in what is printed, computed from it", published_audit.audit(study, folder)),
        fold("What is left of the conclusions", published_audit.outcome(study)),
    )


def published_metrics(found: Results) -> Shown:
    """Return the metrics that the papers define otherwise than our tools, and whether what they promise is kept.

    The average of the four memory kernels, the web server's time per request and the time to FTP's first byte, each
    as a ratio with its verdict; then the papers' limits of the latter two, for every system, and what the papers say of
    several engines or loads at once.

    >>> ib.published_metrics(results)
    """
    every = pd.concat([found.contrasts, results.derived_contrasts(found)], ignore_index=True)
    lines = []
    for name, workload, metric in METRICS:
        rows = every[(every["workload"] == workload) & (every["metric"] == metric)]
        lines += [f"{name}, {results.sentence(row)}" for row in rows.itertuples(index=False)]
        lines += [f"{name}: not measured: {absence(found, workload)}."] if rows.empty else []
    judged, limits = derived_metrics.judge_bounds(found.table), []
    for bound in derived_metrics.bounds():
        rows = judged[judged["key"] == bound.key]
        limits += [_limit_sentence(bound.value, cells) for _, cells in rows.groupby("metric", sort=False)]
        if rows.empty:
            why = absence(found, bound.workload)
            limits.append(f"{bound.workload}, below {format_time(bound.value)}: not measured: {why}.")
    shown = [
        paragraph("Metrics as the papers define them, each as a ratio with its verdict:"),
        listed(lines),
        paragraph("What the papers say that a value stays below on every system, by the interval of the mean:"),
        listed(limits),
    ]
    if not judged.empty:
        rows = columns.write(judged, LIMITS)
        caption = (
            "What the papers say that a value stays below, and ours: kept where the whole 95 % interval is below it."
        )
        shown.append(fold("Every limit and every system", kept(found, rows, "published-limits", caption)))
    return join(*shown, *_statements(found))


def _statements(found: Results) -> list[Shown]:
    judged, told = judge_statements(found.table, found.data["margins"]), []
    for each in statements():
        rows = judged[judged["key"] == each.key]
        said = statement_sentence(rows) if len(rows) else f"not measured: {absence(found, each.workload)}"
        told.append(f"{each.quote}: {said}.")
    shown = [paragraph("What the papers say of several engines or loads at once, by our ratios:"), listed(told)]
    if not judged.empty:
        caption = "Ratios of ours that a statement of the papers is about, and whether each is as it says."
        rows = columns.write(
            judged.merge(pd.DataFrame([{"key": s.key, "said": s.quote, "note": s.note} for s in statements()])), SAID
        )
        shown.append(fold("Every statement and every ratio", kept(found, rows, "published-statements", caption)))
    return shown


def count_verdicts(rows: pd.DataFrame) -> str:
    """Return how many rows have which ``verdict``, ``kept in 3, open in 1``: the most frequent first."""
    return ", ".join(f"{word} in {count}" for word, count in rows["verdict"].value_counts().items())


def statement_sentence(rows: pd.DataFrame) -> str:
    """Return in how many ratios a statement of the papers is kept, and between which two these are."""
    what = f"{rows['workload'].iloc[0]}, {notation.metric_title(rows['metric'].iloc[0])}"
    there = rows.dropna(subset="ratio").sort_values("ratio")
    ends = [f"{each.ratio_of}: {' '.join(columns.both(each, 'ratio', null=1))}" for each in there.itertuples()]
    between = f"; {' to '.join(dict.fromkeys([ends[0], ends[-1]]))}" if ends else ""
    return f"{what}: {count_verdicts(rows)} of {len(rows)} ratios{between}"


def _limit_sentence(bound: float, cells: pd.DataFrame) -> str:
    """Return in how many cells of a metric a bound is kept, and how close the worst of them comes."""
    what = f"{cells['workload'].iloc[0]}, {notation.metric_title(cells['metric'].iloc[0])} below {format_time(bound)}"
    worst = cells.loc[cells["mean"].fillna(0).idxmax()]
    return (
        f"{what}: {count_verdicts(cells)} of {len(cells)} cells; the largest mean is {format_time(worst['mean'])} "
        f"({worst['system']}, {worst['scenario']}), the largest trial {format_time(cells['max'].max())}."
    )


LIMITS: columns.Columns = {
    **columns.words("workload", "scenario"), "metric": lambda row: notation.metric_title(row.metric),
    **columns.words("system"), "n": lambda row: str(row.n), "mean": lambda row: format_time(row.mean),
    columns.CI: lambda row: f"{format_time(row.mean_low)} to {format_time(row.mean_high)}",
    "max": lambda row: format_time(row.max), "limit": lambda row: format_time(row.bound),
    **columns.words("verdict", "note"), "printed in": lambda row: row.where,
}  # fmt: skip


SAID: columns.Columns = {
    "said": lambda row: row.said, **columns.words("workload"), "metric": lambda row: notation.metric_title(row.metric),
    "ratio of": lambda row: row.ratio_of, "n": lambda row: str(row.n_pairs),
    "ratio": lambda row: columns.both(row, "ratio", null=1)[0],
    columns.CI: lambda row: columns.both(row, "ratio", null=1)[1], **columns.words("verdict", "reason", "note"),
}  # fmt: skip


def published_score(found: Results) -> Shown:
    """Return the composite score of the container papers, from this session's own blocks, beside the printed ones.

    In the form that the papers printed and in corrected ones (`infrabench.analysis.published.score`), each
    with its 95 % interval; and whether one engine leads another.

    >>> ib.published_score(results)
    """
    try:
        measured = score.measure_score(found.table)
    except InfrabenchError as error:
        return paragraph(f"The composite score is not measured: {error}.")
    about, forms = f"{measured.n} {measured.pair_unit}", measured.scores.set_index("form")
    cases = ", ".join(dict.fromkeys(f"{score.ROWS[row][0]} {case}" for row, case in measured.cases.items()))
    more = measured.planned - measured.n
    caption = (
        f"Overall performance, % of native, of {cases}: ours over {about}, with its 95 % interval (delta method), and "
        "what the papers' own numbers give in the same form." + (f" {more} others lack a value." if more else "")
    )
    cells: dict[str, dict[str, str]] = {}
    for row in measured.scores.itertuples(index=False):
        texts = {f"{row.system}, ours": score_text(row), f"{row.system}, papers": f"{row.published:.2f}"}
        cells.setdefault(row.label, {"form": row.label}).update(texts)
    sentences = []
    for system, of in forms.groupby("system", sort=False):
        printed = numbers().printed(SCORE.format(plain(str(system))))
        sentences.append(
            f"{system}: {score_text(of.loc['corrected'])} % of native (95 % interval, n = {about}); by the papers' "
            f"own arithmetic {score_text(of.loc['printed'])} %. The papers print {printed} %, which is "
            f"{of.loc['corrected', 'published']:.1f} % with their CPU row corrected."
        )
    for row in measured.leads.itertuples(index=False):
        points, ends = notation.estimate(row.points, row.low, row.high, null=0)
        word = "not decided" if not row.low * row.high > 0 else "leads" if row.low > 0 else "is behind"
        sentences.append(f"{row.ahead} over {row.behind}, corrected: {points} points {ends}: {word}.")
    scores = kept(found, pd.DataFrame(cells.values()), "published-score", caption)
    return join(paragraph(caption), scores, listed(sentences))


def score_text(row: Any) -> str:
    """Return a score and its interval."""
    return " ".join(notation.estimate(row.score, row.low, row.high, null=100))
