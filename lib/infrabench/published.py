"""The papers' own numbers, and where they stand beside ours.

Published ratios have no variance of their own, so only direction and size are compared, never significance. Where the
papers contradict themselves, the note says so and the number counts for its direction at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.core import InfrabenchError, SchemaError

COLUMNS = (
    *("study", "source", "platform", "workload", "scenario", "metric", "unit", "value"),
    *("statistic", "n", "quote_location"),
)
CSV = Path(__file__).resolve().parents[2] / "data" / "published" / "published.csv"
CONTAINERS = "telkom-2018-docker-lxc-lxd"
SYSTEMS = ("docker", "lxc", "lxd")
AGREES_SIZE, AGREES_DIRECTION = "agrees in size", "agrees in direction"
DISAGREES, NOT_COMPARABLE = "disagrees", "not comparable"
# how a printed percentage becomes a ratio to native; the printed formula |Pm - Pb| / Pb lost the sign, words keep it
CHANGES = {
    "increase": lambda v: 1 + v / 100,
    "decrease": lambda v: 1 - v / 100,
    "share": lambda v: v / 100,
    "rate from time increase": lambda v: 1 / (1 + v / 100),
}
Use = Literal["size", "direction"]


@dataclass(frozen=True, slots=True)
class Target:
    """One published metric and the metric of ours that stands for it.

    `use`: how far the number can be trusted, by system; "size" where it is not named. `notes`: by system, "" for all.
    """

    printed: tuple[str, str]  # workload and metric in published.csv
    change: str
    workload: str
    metric: str
    scenario: str = ""  # beginning of our scenario's label
    use: Mapping[str, Use] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


UNTRUSTED: Mapping[str, Use] = dict.fromkeys(SYSTEMS, "direction")
RAM = "published: RAMspeed's average of copy, scale, add and triad; here one kernel"
FTP = (
    "printed times and rates contradict each other (-47.42 % in time means +90.2 % in rate, +33.05 % is printed), "
    "and a gain of 30 to 47 % over native points at an uncontrolled factor"
)
WEB = (
    "lowest and highest over 1000 to 8000 users, the level of each end is not printed; rate and total time, which ab "
    "computes from each other, do not fit"
)
MAIL = (
    "'below 2 %' (abstract) and 'spread below 0.05 %' do not fit 2.09 and 1.85 %; the load as described is more than "
    "the link carries"
)
CPU = "the composite tables print 0.73, 0.91, 0.95: the percentage was used as a fraction; the text's value is used"
TARGETS = (
    Target(
        *(("sysbench-cpu", "cpu_time_increase_vs_native"), "rate from time increase"),
        *("sysbench-cpu", "events_per_s", "threads=1"),
        notes={"": CPU},
    ),
    Target(
        *(("iozone-read", "percent_of_native"), "share", "iozone", "read_B_per_s"),
        use={"docker": "direction"},
        notes={
            "": "4 GB file on a host with 4 GB memory: part of the reads came from the page cache",
            "docker": "82.22 % in the text, 72.46 % from the printed rates, 0.74 in the table",
        },
    ),
    Target(
        *(("iozone-write", "percent_of_native"), "share", "iozone", "write_B_per_s"),
        notes={
            "docker": "the table prints 0.82; text and printed rates give 0.7938",
            "lxd": "the table prints 0.83 for 83.54 %",
        },
    ),
    *(
        Target(("ramspeed", "percent_of_native"), "share", "stream", f"{kernel}_B_per_s", notes={"": RAM})
        for kernel in ("copy", "scale", "add", "triad")
    ),
    Target(
        *(("apache-ab", "total_time_increase_vs_native"), "increase", "web", "total_s", "users="),
        use={"lxc": "direction", "lxd": "direction"},
        notes={"": WEB},
    ),
    Target(
        *(("apache-ab", "requests_per_second_decrease_vs_native"), "decrease", "web", "requests_per_s", "users="),
        use={"lxc": "direction", "lxd": "direction"},
        notes={"": WEB},
    ),
    Target(
        *(("jmeter-ftp", "total_time_reduction_vs_native"), "decrease", "ftp", "total_s"),
        use=UNTRUSTED,
        notes={"": FTP},
    ),
    Target(
        *(("jmeter-ftp", "transfer_rate_increase_vs_native"), "increase", "ftp", "transfer_B_per_s"),
        use=UNTRUSTED,
        notes={"": FTP},
    ),
    Target(
        *(("postal-smtp", "messages_sent_decrease_vs_native"), "decrease", "mail", "messages_per_min"),
        notes={
            "": MAIL,
            "lxd": f"{MAIL}; the later paper calls LXD the lowest (1.9 %), its own table LXC (1.85 %)",
        },
    ),
)
KEPT = ("workload", "scenario", "metric", "system", "n_pairs", "ratio", "ratio_low", "ratio_high")


def published(study_prefix: str = "", path: Path = CSV) -> pd.DataFrame:
    """Return the published numbers of the studies whose key begins with `study_prefix`, one row each.

    Column ``printed`` keeps the text of ``value``, which is NaN for what is no number: a version, a printed hash.
    Raises `InfrabenchError` when the file is absent, `SchemaError` when its columns or values are not as expected.
    """
    try:
        table = pd.read_csv(path, dtype="str", keep_default_na=False)
    except FileNotFoundError as error:
        raise InfrabenchError(f"{path} is missing: the published numbers are part of the repository") from error
    if tuple(table.columns) != COLUMNS:
        raise SchemaError(f"{path}: columns are {list(table.columns)}, expected {list(COLUMNS)}")
    table["printed"] = table["value"]
    table["value"] = pd.to_numeric(table["printed"], errors="coerce").astype("float64")
    wrong = table["value"].isna() & (table["statistic"] != "parameter") & (table["unit"] != "")
    if wrong.any():
        raise SchemaError(f"{path}: {table.loc[wrong, 'printed'].iloc[0]!r} has a unit and is not a number")
    chosen = table[table["study"].str.startswith(study_prefix)].reset_index(drop=True)
    if chosen.empty:
        known = ", ".join(sorted(table["study"].unique()))
        raise SchemaError(f"no published study begins with {study_prefix!r}; there are {known}")
    return chosen


def against(contrasts: pd.DataFrame, numbers: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return our contrasts to native beside the published ratios of the container papers.

    Parameters
    ----------
    contrasts
        As made by `infrabench.stats.contrasts`.
    numbers
        Published numbers; those of the container papers by default.

    Returns
    -------
    DataFrame
        One row per contrast with a published counterpart. ``published_low``, ``published_high``: the published ratio
        (equal ends) or its range over levels; ``predicted_low``, ``predicted_high``: where a second campaign of
        ``published_n`` blocks would put its ratio with 95 % probability, on this site; ``agreement``: method of
        comparison in `agreement`; ``where``: place in the text; ``note``: what the papers contradict.
    """
    numbers = published(CONTAINERS) if numbers is None else numbers
    rows: list[dict[str, Any]] = []
    for target in TARGETS:
        ours = contrasts[(contrasts["workload"] == target.workload) & (contrasts["metric"] == target.metric)]
        ours = ours[ours["scenario"].str.startswith(target.scenario) & ours["system"].isin(SYSTEMS)]
        for row in ours.itertuples(index=False):
            theirs = _printed(numbers, target, row.system)
            if theirs is not None:
                rows.append({name: getattr(row, name) for name in KEPT} | _compared(row, theirs, target))
    extra = ("published_low", "published_high", "published_n", "predicted_low", "predicted_high")
    return pd.DataFrame(rows, columns=[*KEPT, *extra, "agreement", "where", "note"])


def prediction(ratio: float, low: float, high: float, n: int, published_n: int) -> tuple[float, float]:
    """Return the 95 % prediction interval of a second campaign's ratio, from ours and its interval.

    The spread of a mean of `published_n` blocks is added to that of our mean of `n`, on the log scale. Differences
    between sites are not in it, so it is the narrowest that can be justified.
    """
    widen = np.sqrt(1 + n / published_n)
    return float(ratio * (low / ratio) ** widen), float(ratio * (high / ratio) ** widen)


def agreement(row: Any, theirs: tuple[float, float], predicted: tuple[float, float], use: Use) -> str:
    """Return the word for one comparison.

    *agrees in size*: the published ratio (or part of its range) lies in our prediction interval. *agrees in direction*:
    our interval excludes 1 on the published side. *disagrees*: neither. A number that the papers contradict themselves
    is compared by direction only, and is *not comparable* while our interval holds 1.
    """
    low, high = theirs
    if use == "size" and low <= predicted[1] and high >= predicted[0]:
        return AGREES_SIZE
    if (row.ratio_high < 1 and high < 1) or (row.ratio_low > 1 and low > 1):
        return AGREES_DIRECTION
    if use == "direction" and row.ratio_low <= 1 <= row.ratio_high:
        return NOT_COMPARABLE
    return DISAGREES


def _printed(numbers: pd.DataFrame, target: Target, system: str) -> pd.DataFrame | None:
    found = numbers[
        (numbers["workload"] == target.printed[0])
        & (numbers["metric"] == target.printed[1])
        & (numbers["platform"] == system)
        & numbers["statistic"].str.match(r"mean$|(?:min|max) over load levels")
    ]
    return None if found.empty else found


def _compared(row: Any, theirs: pd.DataFrame, target: Target) -> dict[str, Any]:
    ratios = [CHANGES[target.change](value) for value in theirs["value"]]
    ends = (min(ratios), max(ratios))
    n = int(theirs["n"].iloc[0])
    predicted = (np.nan, np.nan)
    note = "; ".join(filter(None, (target.notes.get(row.system, target.notes.get("", "")),)))
    if row.baseline != "native" or not np.isfinite(row.ratio_low) or row.ratio_low <= 0:
        word = NOT_COMPARABLE
        why = f"our baseline is {row.baseline}" if row.baseline != "native" else row.reason or "no interval of ours"
        note = "; ".join(filter(None, (why, note)))
    else:
        predicted = prediction(row.ratio, row.ratio_low, row.ratio_high, row.n_pairs, n)
        word = agreement(row, ends, predicted, target.use.get(row.system, "size"))
    return {
        "published_low": ends[0],
        "published_high": ends[1],
        "published_n": n,
        "predicted_low": predicted[0],
        "predicted_high": predicted[1],
        "agreement": word,
        "where": "; ".join(dict.fromkeys(theirs["quote_location"])),
        "note": note,
    }
