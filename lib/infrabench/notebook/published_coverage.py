"""Every result that the five papers print, and what of ours stands beside it, or why nothing does.

What stands where is what each study's notebook shows: published ratios, printed cells, bounds, statements and the
composite score.
``coverage.toml`` has what is printed a second time, and the reasons for the rest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.published import derived_metrics, score, statements
from infrabench.analysis.published.comparison import WORDS, plain, targets
from infrabench.analysis.published.printed_numbers import EXPERIMENTS, NO_RESULTS, numbers, published, read_toml
from infrabench.analysis.results import Results, Shown, absence, listed, whole
from infrabench.analysis.session_data import open_session
from infrabench.analysis.tables import columns, notation
from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from infrabench.notebook import api
from infrabench.notebook.published_cells import LETTERS, compare_published, compare_values, read_cells
from infrabench.notebook.published_measured import SCORE, count_verdicts, score_text, statement_sentence
from infrabench.notebook.sections import fold, join
from infrabench.notebook.session_tables import results

AT_THEIR_SIZES = "papers"  # folder of the recorded sessions at the papers' sizes, of whatever study
COLUMNS = ("number", "printed", "of", "where", "session", "ours", "agreement", "why not", "printed again")


@dataclass(frozen=True, slots=True)
class Counterpart:
    """What a session has beside a printed number; without `ours`, the reason why it has nothing."""

    number: str  # its id
    session: str
    ours: str
    agreement: str = ""
    reason: str = ""


def cover(sessions: Sequence[Results]) -> pd.DataFrame:
    """Return every printed result with what sessions have beside it: columns `COLUMNS`, as text, a row a number.

    Several counterparts of one number are joined. ``printed again``: the number that it repeats, whose counterparts it
    has. ``why not`` is empty where there is a counterpart; where there is neither, nobody has said why.
    """
    found = defaultdict[str, list[Counterpart]](list)
    for each in (each for session in sessions for each in find_counterparts(session)):
        found[each.number].append(each)
    every, rows = published(), []
    for printed in every[~every["statistic"].isin(NO_RESULTS)].itertuples(index=False):
        first = find_first(printed.id)
        ours = [each for each in found[first] if each.ours]
        reasons = () if ours else [*(each.reason for each in found[first]), *find_reasons(printed.id)]
        rows.append((
            printed.id, f"{printed.printed} {printed.unit}".strip(), printed.platform.replace("|", ", "),
            f"{printed.source} {printed.section}", _joined(each.session for each in ours),
            _joined(each.ours for each in ours), _joined(each.agreement for each in ours), _joined(reasons),
            first if first != printed.id else "",
        ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def open_large(out: str = "out") -> dict[str, Results]:
    """Return the analysis of the sessions that were recorded at the papers' sizes, by the name of the session.

    Their figures and tables go to folders ``STUDY-papers``.
    """
    found = sorted(catalogue.recorded(AT_THEIR_SIZES).items())
    return {name: results(open_session(path), out, AT_THEIR_SIZES) for name, path in found}


def show_coverage(out: str = "out") -> Shown:
    """Return what the recorded session of each study has beside every printed result: counts, and the table.

    So have those recorded at the papers' sizes, in a folder of their own. The table is written to files too.
    """
    wanted = [api.request(study, profile="quick") for study, _ in EXPERIMENTS.values()]
    quick = [results(api.run_or_load(each, mode="load")) for each in wanted]
    rows = cover([*quick, *open_large(out).values()])
    caption = "Every printed result, and what of ours stands beside it, or why nothing does."
    tables.save(rows, catalogue.home() / out / "tables" / "published", "coverage", caption)
    shown = whole(rows[["number", "printed", "ours", "agreement", "why not"]])
    return join(listed(count_coverage(rows)), fold("Every printed result, with ours or the reason why not", shown))


def count_coverage(rows: pd.DataFrame) -> list[str]:
    """Return sentences: how many results have ours beside them, by paper, and what comes out; `rows`: of `cover`."""
    have = rows["ours"] != ""
    words = rows.loc[have, "agreement"].str.split("; ").explode().value_counts()
    of = have.groupby(rows["where"].str.split().str[0]).agg(["sum", "size"])
    papers = ", ".join(f"{each.sum} of {each.size} of paper {each.Index}" for each in of.itertuples())
    agreeing = ", ".join(f"{word} {words[word]}" for word in WORDS if word in words)
    return [
        f"{int(have.sum())} of {len(rows)} printed results have a measurement of ours beside them: {papers}. "
        f"{int((rows['printed again'] != '').sum())} of all are printed a second time, in another place or form.",
        f"What comes out of their ratios: {agreeing}. Values, bounds and scores have no such word.",
        f"{int((~have).sum())} have none; the table has the reason of each.",
    ]


def find_counterparts(found: Results) -> Iterator[Counterpart]:
    """Yield what a session has beside printed numbers, and why it has nothing beside others of its study."""
    name = ", ".join(dict.fromkeys(found.table["session"]))
    pairs = {pair.printed: (pair.above.row.id, pair.below.row.id) for pair in read_cells(found.data["study"])[1]}
    ratios = {
        (each.workload, each.metric, each.system, each.columns["where"]): each.ids
        for of in targets()
        for each in of.values()
    }
    for row in compare_published(found).itertuples(index=False):
        if row.printed in pairs:
            about, ids = row.ours, pairs[row.printed]
        else:
            about = f"{row.workload} {row.scenario}, {row.system} / {row.baseline}"
            ids = ratios[row.workload, row.metric, plain(row.system), row.where]
        text = " ".join([f"{about}, {notation.metric_title(row.metric)}:", *columns.both(row, "ratio", null=1)])
        for number in ids:
            if row.n_pairs:
                yield Counterpart(number, name, text, row.agreement)
            else:
                yield Counterpart(number, name, "", reason=row.reason)
    for cell in compare_values(found):
        if "ours" in cell:
            about = f"{cell['system']}, {cell['scenario']}, {cell['metric']}"
            yield Counterpart(cell["id"], name, f"{about}: {cell['ours']} {cell['95 % CI']} {cell['unit']}")
        else:
            yield Counterpart(cell["id"], name, "", reason=cell["note"])
    judged = derived_metrics.judge_bounds(found.table)
    ids = {bound.key: bound.printed for bound in derived_metrics.bounds()}
    for (key, metric), cells in judged.groupby(["key", "metric"], sort=False):
        text = f"{notation.metric_title(metric)}: {count_verdicts(cells)} of {len(cells)} cells"
        yield Counterpart(ids[key], name, text)
    yield from _statements(found, name)
    yield from _scores(found, name)


def _statements(found: Results, name: str) -> Iterator[Counterpart]:
    said = statements.judge_statements(found.table, found.data["margins"])
    for each in statements.statements():
        rows = said[said["key"] == each.key]
        if each.key.partition(".")[0] != LETTERS.get(str(found.data["study"])):
            continue
        for number in each.printed:
            if rows.empty:
                yield Counterpart(number, name, "", reason=absence(found, each.workload))
            else:
                yield Counterpart(number, name, statement_sentence(rows))


def _scores(found: Results, name: str) -> Iterator[Counterpart]:
    try:
        measured = score.measure_score(found.table)
    except InfrabenchError:  # not a session of engines, or not one of all four rows
        return
    for row in measured.scores[measured.scores["form"] == "printed"].itertuples(index=False):
        text = f"composite score as printed, {row.system}: {score_text(row)} %"
        yield Counterpart(SCORE.format(plain(row.system)), name, text)


def find_first(number: str) -> str:
    """Return the id of the number that a printed one repeats, or its own."""
    known = numbers().rows
    for pattern, first in read_toml("coverage.toml")["same"].items():
        match = _pattern(pattern).fullmatch(number)
        if match and (target := first.format(*match.groups())) in known and target != number:
            return find_first(target)
    return number


def find_reasons(number: str) -> list[str]:
    """Return why nothing of ours can stand beside a printed number, where it is known for every session."""
    entries: Sequence[Mapping[str, list[str] | str]] = read_toml("coverage.toml")["reason"]
    return [str(each["text"]) for each in entries if any(_pattern(one).fullmatch(number) for one in each["printed"])]


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\{\}", r"([A-Za-z0-9.-]+)"))


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))
