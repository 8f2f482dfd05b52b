"""How a number, a unit, a metric and a table are written: one rule for figures, tables and captions.

Data stay in SI base units everywhere else; only what is shown is scaled here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.spreadsheets import write_csv
from infrabench.analysis.tables import tex
from infrabench.core.names import file_name

PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}
POWERS = {-9: "10⁻⁹", -6: "10⁻⁶", -3: "10⁻³", 3: "10³", 6: "10⁶", 9: "10⁹", 12: "10¹²"}
# unit -> smallest and largest exponent that is customary for it
PREFIXED = {"B/s": (0, 12), "bit/s": (0, 12), "B": (0, 12), "s": (-9, 0), "W": (-3, 3)}
COUNTED = {"1/s": (0, 12), "1/min": (0, 12)}
PER_BYTE = {"s/B": "s/GB"}  # always per gigabyte: a prefix of the second would not make it readable
PLAIN_BELOW = 1e5  # a rate of 8 000 requests a second is easier to read than 8 x 10^3
WORDS = {"total": "total time", "wall": "wall time", "tool": "tool time", "setup": "set-up time"}
WORDS |= {"teardown": "tear-down time", "received": "received rate", "offered": "offered rate"}
# metrics whose names differ in the unit alone
NAMES = {"cpu_percent": "CPU busy", "cpu_s_per_B": "CPU time per byte"}
NAMES |= {"sender_cpu_s_per_B": "sender CPU time per byte", "receiver_cpu_s_per_B": "receiver CPU time per byte"}
NAMES |= {"pair_throughput_bit_per_s": "throughput per pair", "pod_events_per_s": "events per pod"}
NAMES |= {f"{kernel}_pod_B_per_s": f"{kernel} per pod" for kernel in ("copy", "scale", "add", "triad")}
NAMES |= {"average_B_per_s": "average of copy, scale, add and triad", "request_time_s": "time per request"}
NAMES |= {"memory_B_per_pod": "memory per pod", "runtime_s": "time at the runtime"}
NAMES |= {"cpu_s": "CPU time per pod", "cpu_utilisation_percent": "CPU utilisation"}
NAMES |= {"efficiency_percent": "multi-core efficiency", "start_spread_s": "spread of the starts"}
NAMES |= {f"told_{of}_percent": f"{of} that the tool tells" for of in ("utilisation", "efficiency")}
NAMES |= {"first_instruction_s": "time to first instruction", "ready_s": "time until ready"}
NAMES |= {"all_ready_s": "time until all are ready", "all_done_s": "time until all are done"}
NAMES |= {"iops": "IOPS", "foreground_iops": "IOPS of the load", "foreground_latency_s": "latency of the load"}
NAMES |= {f"foreground_iops_{when}": f"IOPS of the load {when}" for when in ("before", "during")}
NAMES |= {f"foreground_latency_{when}_s": f"latency of the load {when}" for when in ("before", "during")}
NAMES |= {"foreground_worst_s": "worst half second of the load", "foreground_longest_s": "longest request of the load"}
NAMES |= {"rebuild_s": "time until clean", "rebuild_B_per_s": "rate of the rebuild", "noticed_s": "time until noticed"}
NAMES |= {f"{way}_cpu_percent": f"CPU busy, {way}" for way in ("read", "write")}
NAMES |= {
    f"{way}_{side}_cpu_s_per_B": f"{side} CPU time per byte, {way}" for way in ("read", "write")
    for side in ("storage", "client")
}  # fmt: skip
SUFFIXES = re.compile(r"_(s_per_B|B_per_s|bit_per_s|per_s|per_min|s|B|percent|W|K)$")
# columns of words, which are read from the left
LEFT = frozenset((
    "workload", "scenario", "metric", "system", "verdict", "reason", "flags", "adjustment", "field", "tiers",
    "agreement", "printed in", "note", "grade", "modes (SI)", "mode by deployment", "verdict without flagged",
    "ruled out", "method", "unit", "aim", "where", "capability", "carried", "quiet", "on the nodes", "source",
    "level", "statement", "command", "tolerance", "outcome", "found", "package", "licence", "for", "question",
    "family", "state", "label", "what", "then", "factor", "claim", "recomputed", "consequence", "effect", "basis",
    "evidence", "inputs", "section", "quote", "over sites", "named", "missing", "site", "session", "begun", "id",
    "study", "experiment", "platform", "statistic", "version", "lead of", "measured here as",
    "changed at", "got", "explained by",
))  # fmt: skip
LONG, WINDOW = 24, "36em"  # rows, and the height of the window on a longer table
FIXED = ";position:sticky;top:0;background:var(--jp-layout-color0,Canvas)"
PIXELS, LARGER = 96 / 25.4, 1.35  # CSS pixels in a millimetre; how much larger a screen shows what paper shows

TAG = re.compile(r"<(?=[A-Za-z/!?])")  # where HTML begins; not in "< 0.1"


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit as shown: a value in SI base units divided by `factor` is in `unit`."""

    factor: float
    unit: str
    note: str  # "1 MB/s = 10⁶ B/s"; empty for an unscaled unit

    @property
    def label(self) -> str:
        """The unit in brackets, behind what is in it; nothing for a number without unit."""
        return f" ({self.unit})" if self.unit not in ("", "1") else ""


@dataclass(frozen=True, slots=True)
class Link:
    """A cell of a table that leads somewhere."""

    text: str
    href: str

    def __str__(self) -> str:
        return self.text


def scale(values: Iterable[float], unit: str) -> Scale:
    """Return the scale in which the largest finite value has one to three digits before the point."""
    if unit in PER_BYTE:
        return Scale(1e-9, PER_BYTE[unit], f"1 {PER_BYTE[unit]} = {POWERS[-9]} {unit}")
    finite = np.abs(np.asarray([v for v in values if np.isfinite(v)], dtype=float))
    largest = float(finite.max()) if finite.size else 0.0
    low, high = PREFIXED.get(unit, COUNTED.get(unit, (0, 0)))
    if not largest or (unit in COUNTED and largest < PLAIN_BELOW):
        return Scale(1.0, unit, "")
    exponent = int(np.clip(3 * np.floor(np.log10(largest) / 3), low, high))
    if exponent == 0:
        return Scale(1.0, unit, "")
    if unit in PREFIXED:
        name = PREFIXES[exponent] + unit
        return Scale(10.0**exponent, name, f"1 {name} = {POWERS[exponent]} {unit}")
    return Scale(10.0**exponent, f"{POWERS[exponent]} {unit}", "")


def metric_title(metric: str) -> str:
    """Return a metric's name in words, without its unit: ``latency_p99_s`` gives ``latency p99``."""
    stem = SUFFIXES.sub("", metric)
    return NAMES.get(metric, WORDS.get(stem, stem)).replace("_", " ")


def direction(better: str) -> str:
    """Return ``higher is better`` or ``lower is better``."""
    return f"{better} is better"


def axis_label(metric: str, scale: Scale, better: str) -> str:
    """Return the label of an axis: metric, shown unit and direction."""
    title = metric_title(metric)
    return f"{title[0].upper()}{title[1:]}{scale.label}, {direction(better)}"


def decimals(low: float, high: float, null: float | Sequence[float] | None = None) -> int | None:
    """Return the decimal place of the second significant digit of an interval's half-width; None without one.

    Negative for places before the point: a half-width of 1 500 gives -2. With `null`, the value that means no effect,
    or the ends of a margin, places are added until no end rounds onto or across it: that would contradict the verdict.
    """
    half = (high - low) / 2
    if not np.isfinite(half) or half <= 0:
        return None
    places = 1 - int(np.floor(np.log10(float(f"{half:.1e}"))))
    nulls = [] if null is None else np.atleast_1d(null).tolist()
    while places < 12 and any(_moved(end, round(end, places), each) for end in (low, high) for each in nulls):
        places += 1
    return places


def _moved(value: float, rounded: float, null: float) -> bool:
    """Whether rounding takes a value onto `null` or to its other side."""
    off = rounded - null
    if abs(off) < 1e-12:  # 1 - 0.02 is not 0.98 to the last binary digit
        return value != null
    return (value > null) != (off > 0)


def number(value: float, places: int | None = None) -> str:
    """Return `value` rounded to `places` decimals, or to four significant digits when there is no interval."""
    if value == np.inf:
        return "∞"
    if not np.isfinite(value):
        return "n/a"
    if places is None:
        if value == int(value) and abs(value) < 1e4:
            return str(int(value))
        places = 3 - int(np.floor(np.log10(float(f"{abs(value):.3e}"))))
    return f"{round(value, places) + 0.0:.{max(places, 0)}f}"  # + 0.0 turns -0.0 into 0.0


def interval(low: float, high: float, null: float | Sequence[float] | None = None) -> str:
    """Return ``[low, high]`` with ends to two significant digits of the half-width; ``n/a`` without an interval.

    An upper end may be infinite: ``[low, ∞)``, the lower one with two significant digits, more where `null` needs them.
    """
    if high == np.inf and np.isfinite(low):
        return f"[{number(low, decimals(low, low + abs(low), null))}, ∞)"
    places = decimals(low, high, null)
    return "n/a" if places is None else f"[{number(low, places)}, {number(high, places)}]"


def estimate(value: float, low: float, high: float, null: float | None = None) -> tuple[str, str]:
    """Return a number and its interval, both to the place that the half-width gives."""
    return number(value, decimals(low, high, null)), interval(low, high, null)


def ratio(row: Any) -> str:
    """Return the ratio of a row and its interval as text, ``1.02 [0.98, 1.06]``."""
    return " ".join(estimate(row.ratio, row.ratio_low, row.ratio_high, null=1))


def short(value: float) -> str:
    """Return a diagnostic's number: two decimals at most, two significant digits where that would leave none."""
    if not np.isfinite(value):
        return "n/a"
    if value and abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.2f}".rstrip("0").rstrip(".")


def chance(probability: float) -> str:
    """Return a probability in percent with one decimal, ``< 0.1`` below that."""
    return "< 0.1" if probability < 0.001 else short(round(100 * probability, 1))


def p_value(p: float) -> str:
    """Return a p-value with two significant digits, more where it would round onto 0.05; ``< 0.0001`` below that."""
    if not np.isfinite(p):
        return "n/a"
    if p < 1e-4:
        return "< 0.0001"
    return next((text for text in (f"{p:.{n}g}" for n in range(2, 9)) if (float(text) < 0.05) == (p < 0.05)), f"{p}")


def markdown(table: pd.DataFrame, caption: str = "") -> str:
    """Return the table in Markdown, numbers to the right."""
    rule = ["---" if name in LEFT else "---:" for name in table.columns]
    lines = [list(table.columns), rule, *table.astype("str").to_numpy().tolist()]
    cells = ([_only_text(cell).replace("|", "\\|") for cell in line] for line in lines)
    text = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return (f"{_only_text(caption)}\n\n" if caption else "") + text + "\n"


def on_screen(width_mm: float) -> int:
    """Return how many CSS pixels wide a figure is shown: somewhat larger than in print, text of all figures alike."""
    return round(width_mm * PIXELS * LARGER)


def png_width_mm(png: bytes) -> float | None:
    """Return the width in print that a PNG says it has (chunk pHYs, pixels a metre); None where it says nothing.

    PNG specification, third edition, 11.2.1 and 11.3.4.3.
    """
    at = png.find(b"pHYs", 0, max(png.find(b"IDAT"), 0))  # it stands before the picture's own bytes
    per_metre = int.from_bytes(png[at + 4 : at + 8], "big") if at > 0 else 0
    return 1000 * int.from_bytes(png[16:20], "big") / per_metre if per_metre else None


def html_table(table: pd.DataFrame, *, words: bool = False) -> str:
    """Return the table in HTML, words to the left and numbers to the right; with `words`, all to the left.

    Numbers are not broken into lines. In JupyterLab a long table is a window of its own, headings fixed: what comes
    after it would else be pages away. The report, which is for reading and for paper, shows all of it.
    """
    side = ["text-align:left" if words or name in LEFT else "text-align:right" for name in table.columns]
    kept = ["" if words or name in LEFT else ";white-space:nowrap" for name in table.columns]
    plain = [""] * len(side)

    def row(tag: str, cells: Iterable[Any], more: Sequence[str], fixed: str = "") -> str:
        parts = (
            f'<{tag} style="{to};vertical-align:top{how}{fixed}">{_html(cell)}</{tag}>'
            for to, how, cell in zip(side, more, cells, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>"

    long = len(table) > LONG
    head = row("th", table.columns, plain, FIXED if long else "")
    body = "".join(row("td", cells, kept) for cells in table.itertuples(index=False))
    made = f'<table border="0"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return f'<div style="max-height:{WINDOW};overflow:auto">{made}</div>' if long else made


def latex(table: pd.DataFrame, caption: str = "") -> str:
    """Return a LaTeX tabular for the package booktabs, every special character escaped."""
    left = [name in LEFT for name in table.columns]
    return tex.tabular(list(table.columns), table.astype("str").to_numpy().tolist(), left, caption)


def save(
    table: pd.DataFrame, folder: Path, name: str, caption: str = "", whole: pd.DataFrame | None = None
) -> list[Path]:
    """Write ``name.md``, ``name.csv`` and ``name.tex`` (booktabs) into `folder` and return the three paths.

    `whole`: the table with all of its columns, for the CSV. `SchemaError` when `name` cannot be that of a file.
    """
    folder, name = Path(folder), file_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    csv = write_csv(table if whole is None else whole) or ""
    texts = {"md": markdown(table, caption), "csv": csv, "tex": latex(table, caption)}
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in texts}
    for suffix, text in texts.items():
        paths[suffix].write_text(text, encoding="utf-8")
    return list(paths.values())


def _html(cell: Any) -> str:
    text = html.escape(str(cell))
    return f'<a href="{html.escape(cell.href, quote=True)}">{text}</a>' if isinstance(cell, Link) else text


def _only_text(text: str) -> str:
    """Return what was measured or typed as one line of Markdown without HTML, links and pictures."""
    return TAG.sub("&lt;", " ".join(text.splitlines())).replace("](", "]\\(")
