"""Numbers for the sentences of a paper: each has a name and is written once, by the analysis, as a LaTeX command.

A name is made of the words that the study uses: ``\\containersDockerStreamTriadRatio`` is study, system, workload,
metric and quantity. A scenario stands before the metric where the workload has several, its numbers spelled, since
LaTeX commands consist of letters alone: ``...WebUsersOneThousandRequestsRatio``. A number that does not exist has no
command, so a paper that quotes it does not compile. Captions are commands too, for they have numbers in them; the same
numbers are written as JSON, and the ratios as a table.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.figures import pairs, ratio_interval
from infrabench.analysis.results import Results, base, chosen
from infrabench.analysis.tables import notation, tex
from infrabench.core import DesignError
from infrabench.core.names import file_name

ONES = (
    "Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve",
    "Thirteen", "Fourteen", "Fifteen", "Sixteen", "Seventeen", "Eighteen", "Nineteen",
)  # fmt: skip
TENS = ("Twenty", "Thirty", "Forty", "Fifty", "Sixty", "Seventy", "Eighty", "Ninety")
PART = re.compile(r"\d+|[A-Za-z]+|\.(?=\d)")
THIN = "\u202f"  # between a number and its unit


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a session that a paper may quote.

    ``text`` is what is printed; ``value``, ``low`` and ``high`` are the same unrounded, in ``unit`` (SI base units; "1"
    for a ratio), None where there is none or where the text is words. ``about`` says session, case, metric and n.
    """

    name: str
    text: str
    about: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""


def write(found: Results, folder: Path, figures: Path | None = None, prefix: str = "") -> list[Path]:
    """Write ``numbers-NAME.tex``, ``numbers-NAME.json`` and ``ratios-NAME.tex`` into `folder` and return the paths.

    NAME is the study, or the prefix. The ratios are those of the primary metrics, as wide as a page. `figures`: folder
    of saved figures; the caption of each figure of this session is a command as well, for it has numbers in it:
    ``\\containersForestCaption``. `prefix`: first letters of every command instead of the study's.

    Raises `DesignError` as `numbers` does.
    """
    name, session = file_name(prefix or found.name), _join_sessions(found)
    every = [*numbers(found, prefix), *_captions(found, figures, prefix)]
    head = f"Numbers of session {session}: {found.data['title']}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"numbers-{name}.tex", folder / f"numbers-{name}.json"]
    paths[0].write_text(commands(every, head), encoding="utf-8")
    keys = ("text", "value", "low", "high", "unit", "about")
    texts = {each.name: {key: getattr(each, key) for key in keys} for each in every}
    data = {"session": session, "study": found.data["study"], "numbers": texts}
    paths[1].write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = chosen(found)
    if len(rows):
        paths.append(folder / f"ratios-{name}.tex")
        table = tables.ratios_table(rows, found.systems)
        paths[2].write_text(notation.latex(table, f"{session}: {ratios_caption(found)}"), encoding="utf-8")
    return paths


def ratios_caption(found: Results) -> str:
    """Return the caption of the table of ratios: what they are, over how many pairs, what its signs mean."""
    rows = chosen(found)
    margins = " and ".join(f"{100 * margin:g} %" for margin in sorted(rows["margin"].dropna().unique()))
    return (
        f"Ratio of means to {found.data['baseline']} with {ratio_interval(rows)} over {pairs(rows)}. "
        f"{tables.describe_signs(rows)} (margin {margins}). The arrow shows which direction is better. {base(found)}"
    ).strip()


def numbers(found: Results, prefix: str = "") -> list[Number]:
    """Return every number of a session that a paper may quote, each with a name of its own.

    Contrasts give ``Ratio`` (with its 95 % interval) and ``RatioOnly`` (without), ``Overhead`` and ``OverheadOnly`` (in
    percent, positive is worse), ``Verdict`` and ``Pairs`` ("30 blocks"); cells give ``Mean``, ``MeanOnly``, ``Median``,
    ``MedianOnly`` and ``Trials``; the session ``Session``, ``Profile``, ``Blocks`` and ``Baseline``.

    `prefix`: first letters of every name instead of the study's, where a paper has two sessions of one study.

    Raises `DesignError` where the prefix has other signs than letters, or two numbers come to the same name.
    """
    if prefix and not re.fullmatch("[A-Za-z]+", prefix):
        raise DesignError(f"the prefix {prefix!r} of LaTeX commands may have letters only, such as hostA")
    start, data, session = first(found, prefix), found.data, _join_sessions(found)
    facts = {"Session": session, "Profile": data["profile"], "Baseline": data["baseline"]}
    of_session = [Number(f"{start}{word}", value, f"{session}: the session") for word, value in facts.items()]
    blocks = data["blocks"]
    of_session.insert(2, Number(f"{start}Blocks", str(blocks), f"{session}: the session", float(blocks), unit="1"))
    of_session += [*_contrasts(found, start), *_cells(found, start)]
    for name, count in Counter(each.name for each in of_session).items():
        if count > 1:
            both = " | ".join(each.about for each in of_session if each.name == name)
            raise DesignError(f"two numbers come to the name {name}: {both}. Give one of these systems another name")
    return of_session


def sessions(found: Results) -> list[str]:
    """Return the names of the sessions that an analysis is of."""
    return sorted(found.table["session"].unique())


def first(found: Results, prefix: str = "") -> str:
    """Return the first letters of the names of all numbers of a session: the prefix, else its study."""
    word = letters(found.name)
    return prefix or word[:1].lower() + word[1:]


def commands(made: list[Number], head: str) -> str:
    """Return the numbers as a file of LaTeX commands, each under a comment that says what it is; `head` comes first."""
    lines = [
        tex.comment(head),
        tex.comment("Written by infrabench, not by hand. \\input it before \\begin{document}; quote as \\name{}."),
    ]
    for about, group in itertools.groupby(made, key=lambda each: each.about):
        lines += ["", tex.comment(about)]
        lines += [rf"\newcommand{{\{each.name}}}{{{tex.escaped(each.text)}}}" for each in group]
    return "\n".join(lines) + "\n"


def letters(text: str) -> str:
    """Return words as letters alone, each word with a capital: ``users=1000`` gives ``UsersOneThousand``."""
    plain = unicodedata.normalize("NFKD", text.replace("µ", "u"))
    parts = PART.findall(plain)
    return "".join(_spelled(part) if part[0].isdigit() else "Point" if part == "." else part[0].upper() + part[1:]
                   for part in parts)  # fmt: skip


def _spelled(digits: str) -> str:
    number = int(digits)
    if digits != str(number) or number >= 10**6:
        return "".join(ONES[int(digit)] for digit in digits)
    for size, word in ((1000, "Thousand"), (100, "Hundred")):
        if number >= size:
            rest = number % size
            return _spelled(str(number // size)) + word + (_spelled(str(rest)) if rest else "")
    if number < 20:
        return ONES[number]
    return TENS[number // 10 - 2] + (ONES[number % 10] if number % 10 else "")


def _contrasts(found: Results, start: str) -> Iterator[Number]:
    session = _join_sessions(found)
    for stem, row in _named(found, found.contrasts, start):
        case = f"{session}: {row.workload}, {row.scenario}, {row.metric}: {row.system} / {row.baseline}"
        if not np.isfinite(row.ratio):
            continue
        about = f"{case}, n = {row.n_pairs} {row.pair_unit}"
        yield from _pair(f"{stem}Ratio", about, (row.ratio, row.ratio_low, row.ratio_high), "1", null=1)
        ends = (row.overhead_percent, row.overhead_low, row.overhead_high)
        yield from _pair(f"{stem}Overhead", about, ends, "%", null=0)
        yield Number(f"{stem}Verdict", row.verdict, about)
        yield Number(f"{stem}Pairs", f"{row.n_pairs} {row.pair_unit}", about, float(row.n_pairs), unit="1")


def _cells(found: Results, start: str) -> Iterator[Number]:
    session = _join_sessions(found)
    cells = found.estimates[found.estimates["metric"].notna() & (found.estimates["n"] > 0)]
    scales = {key: notation.scale(group["max"], group["unit"].iloc[0]) for key, group in
              cells.groupby(["workload", "metric"], sort=False)}  # fmt: skip
    for stem, row in _named(found, cells, start):
        about = f"{session}: {row.workload}, {row.scenario}, {row.metric}: {row.system}, n = {row.n} trials"
        if row.deployments > 1:
            about += f" over {row.deployments} deployments"
        scale = scales[row.workload, row.metric]
        for word in ("mean", "median"):
            ends = (getattr(row, word), getattr(row, f"{word}_low"), getattr(row, f"{word}_high"))
            yield from _pair(f"{stem}{word.capitalize()}", about, ends, row.unit, scale)
        yield Number(f"{stem}Trials", str(row.n), about, float(row.n), unit="1")


def _pair(
    name: str, about: str, ends: tuple[float, float, float], unit: str, scale: notation.Scale | None = None,
    null: float | None = None,
) -> Iterator[Number]:  # fmt: skip
    """Yield a number with its interval, and the same without; both rounded to the place that the interval gives."""
    factor, shown = (scale.factor, scale.unit) if scale else (1.0, unit)
    number, interval = notation.estimate(*(end / factor for end in ends), null=null)
    alone = number if shown in ("1", "") else f"{number}{THIN}{shown}"
    value, low, high = (float(end) if np.isfinite(end) else None for end in ends)
    given = interval if interval != "n/a" else "(no interval)"
    yield Number(name, f"{alone} {given}", about, value, low, high, unit)
    yield Number(f"{name}Only", alone, about, value, unit=unit)


def _join_sessions(found: Results) -> str:
    return " and ".join(sessions(found))


def _named(found: Results, rows: pd.DataFrame, start: str) -> Iterator[tuple[str, Any]]:
    """Yield each row with the letters that its numbers begin with; contrasts and cells of one case have the same."""
    known = found.estimates[found.estimates["metric"].notna()]
    several = known.groupby("workload")["scenario"].nunique()
    stems = known[["workload", "metric"]].drop_duplicates()
    shared = Counter((row.workload, _stem(row.metric)) for row in stems.itertuples(index=False))
    for row in rows.itertuples(index=False):
        stem = _stem(row.metric)
        # metrics that differ in their unit alone, cpu_s and cpu_percent, keep it
        metric = letters(row.metric) if shared[row.workload, stem] > 1 else stem
        scenario = letters(row.scenario) if several[row.workload] > 1 else ""
        yield f"{start}{letters(row.system)}{letters(row.workload)}{scenario}{metric}", row


def _stem(metric: str) -> str:
    return letters(notation.SUFFIXES.sub("", metric))


def _captions(found: Results, figures: Path | None, prefix: str) -> list[Number]:
    """Return the captions of the table and of the saved figures of this session and view, by the figures' names."""
    captions: list[Number] = []
    session, start = _join_sessions(found), first(found, prefix)
    if len(chosen(found)):
        about = f"{session}: caption of the table of ratios"
        captions.append(Number(f"{start}RatiosCaption", ratios_caption(found), about))
    for path in sorted((figures / found.name).glob("*.json")) if figures else ():
        car = json.loads(path.read_text(encoding="utf-8"))
        if car["data"]["sessions"] == sessions(found):
            name = f"{start}{letters(car['figure'])}Caption"
            captions.append(Number(name, car["caption"], f"{session}: caption of the figure {car['figure']}"))
    return captions
