"""Systems that are pairs, taken apart: what one layer changes while the other stays that of the baseline.

A system ``HIGH-LOW`` is a high-level runtime over a low-level one, or a CNI with an option; one that names no low
layer, such as ``flannel``, has that layer `DEFAULT`. Compared as wholes, a difference between two pairs belongs to
neither layer. With one layer held, it belongs to the other; and whether the two simply add up is a question of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.analysis.results import Results
from infrabench.analysis.scenarios import analyse_view, planned_rows
from infrabench.core import unknown_name
from infrabench.stats.events import COUNT, SHARE
from infrabench.stats.table import kinds

Layer = Literal["high", "low"]
LAYERS = ("high", "low")
DEFAULT = "default"


def split_layer(found: Results, layer: Layer) -> Results:
    """Return the analysis of one layer: the systems whose other layer is the baseline's, called by this one alone.

    Its figures and tables go to folders ``STUDY-high`` and ``STUDY-low``. Its contrasts are a family of their own, so
    fewer of them share an adjusted p than in the analysis of all pairs.
    """
    if layer not in LAYERS:
        raise unknown_name("layer", layer, LAYERS)
    kept = 1 - LAYERS.index(layer)
    other = _split(found.data["baseline"])[kept]
    every = {*found.systems, *found.data["not_run"]}
    every |= {each["system"] for each in found.data.get("not_applicable", [])}
    names = {name: _split(name)[1 - kept] + _more(name) for name in every if _split(name)[kept] == other}
    rows = planned_rows(found)
    rows = rows[rows["system"].isin(list(names))]
    return analyse_view(
        found, rows.assign(system=rows["system"].map(names)), layer, **_renamed_absence(found, names),
        systems=[names[name] for name in found.systems if name in names],
        not_applicable=[
            {**each, "system": names[each["system"]]}
            for each in found.data.get("not_applicable", [])
            if each["system"] in names
        ],
    )  # fmt: skip


def join_layers(found: Results) -> Results:
    """Return the analysis of the high layer with the low layers as its scenarios, for those that several high ones ran.

    Its workloads are a workload at a scenario. Its table of interactions says whether the ratio of two high-level
    runtimes is the same above every low-level one; where they share one only, it is empty.
    """
    high, low, base = _by_layer(found)
    shared = {each for each in low.values() if len({high[name] for name in found.systems if low[name] == each}) > 1}
    rows = planned_rows(found)
    rows = rows[rows["system"].map(low).isin(list(shared))]
    turned = rows.assign(
        system=rows["system"].map(high), scenario=rows["system"].map(low), factor=None, level=float("nan"),
        workload=rows["workload"] + ", " + rows["scenario"],
    )  # fmt: skip
    baseline = {found.data["baseline"]: base[0]}
    systems = dict.fromkeys(high[name] for name in found.systems if low[name] in shared)
    return analyse_view(
        found, turned, "together", **_renamed_absence(found, baseline), systems=list(systems), primary=[],
        not_applicable=[],
    )  # fmt: skip


def turn_layers(found: Results, view: str = "options") -> Results:
    """Return the analysis of the low layers within every high one, each as a ratio to that of the baseline.

    Its systems are low layers, its scenarios ``HIGH, SCENARIO``, of those high layers that were measured with the
    baseline's low one. The contrasts of the primary metrics are a family of their own. Its figures and tables go to
    ``STUDY-VIEW``.

    >>> ib.figure(turn_layers(results), "forest")
    """
    high, low, base = _by_layer(found)
    every = planned_rows(found)
    turned = every.assign(
        system=every["system"].map(low), factor=None, level=float("nan"),
        scenario=every["system"].map(high) + ", " + every["scenario"],
    )  # fmt: skip
    beside = {high[name] for name in found.systems if low[name] == base[1]}
    rows = turned[every["system"].map(high).isin(list(beside))]
    return analyse_view(
        found, rows, view, systems=[*dict.fromkeys((base[1], *(low[name] for name in found.systems)))],
        baseline=base[1], not_run=_absent_pairs(found), not_applicable=[],
    )  # fmt: skip


def cross_layers(found: Results) -> Results:
    """Return how much a low layer changes what a high one costs: a ratio of ratios, with its interval.

    In each block the value of a high layer is divided by that of the baseline's with the same low layer. Its systems
    are low layers, and each is compared with the baseline's: one means that the two layers add up (on the logarithms),
    1.1 that the high layer's ratio is a tenth larger with this low one. Its scenarios are ``HIGH / BASELINE,
    SCENARIO``.
    A value that is not positive has no ratio, and a metric that counts has none; a trial that is lost is one of each
    ratio that it was to be part of. Its figures and tables go to ``STUDY-crossed``.

    >>> ib.figure(cross_layers(results), "forest")
    """
    high, low, base = _by_layer(found)
    rows = planned_rows(found)
    rows = rows.assign(system=rows["system"].map(low), high=rows["system"].map(high), factor=None, level=float("nan"))
    of_base, measured, lost = rows["high"] == base[0], rows["value"].gt(0), rows["metric"].isna()
    cell = ["session", "block", "workload", "scenario", "metric", "system"]
    below = rows[measured & of_base].set_index(cell)["value"].rename("below")
    pairs = rows[measured & ~of_base].join(below, on=cell, how="inner")
    pairs = pairs[~np.isin(kinds(pairs), (COUNT, SHARE))]  # a ratio of counts is no count
    pairs = pairs.assign(value=pairs["value"] / pairs["below"], unit="1")
    place = ["workload", "scenario", "system"]
    others = rows.loc[~of_base, [*place, "high"]].drop_duplicates().set_index(place)
    bases = rows.loc[of_base, place].drop_duplicates().set_index(place)
    without = rows[lost & ~of_base].join(bases, on=place, how="inner")
    without_base = rows[lost & of_base].drop(columns="high").join(others, on=place, how="inner")
    crossed = pd.concat([pairs, without, without_base]).drop_duplicates([*cell, "high", "attempt"])
    crossed = crossed.assign(scenario=crossed["high"] + f" / {base[0]}, " + crossed["scenario"])
    there = set(pairs["system"])
    crossed = crossed if base[1] in there else crossed.iloc[:0]
    systems = [name for name in dict.fromkeys((base[1], *(low[name] for name in found.systems))) if name in there]
    return analyse_view(
        found, crossed[list(found.table.columns)], "crossed", systems=systems or [base[1]], baseline=base[1],
        not_run=_absent_pairs(found), not_applicable=[],
    )  # fmt: skip


def _absent_pairs(found: Results) -> dict[str, str]:
    """Return the pairs that were not run, as ``LOW with HIGH``, and why: a low layer may have run with another one."""
    split = {name: _split(name) for name in found.data["not_run"]}
    return {f"{low} with {high}": found.data["not_run"][name] for name, (high, low) in split.items()}


def _by_layer(found: Results) -> tuple[dict[str, str], dict[str, str], tuple[str, str]]:
    """Return the high layer of each system, its low layer, and both of the baseline."""
    high = {name: _split(name)[0] for name in found.systems}
    low = {name: _split(name)[1] + _more(name) for name in found.systems}
    return high, low, _split(found.data["baseline"])


def _renamed_absence(found: Results, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the baseline by its other name, and why those of the systems that have one were not run."""
    not_run = {names[name]: why for name, why in found.data["not_run"].items() if name in names}
    return {"baseline": names[found.data["baseline"]], "not_run": not_run}


def _split(label: str) -> tuple[str, str]:
    """Return the high and the low layer of a system, without what its label adds in brackets."""
    high, _, low = label.partition(" (")[0].partition("-")
    return high, low or DEFAULT


def _more(label: str) -> str:
    """Return what a label adds to the name."""
    return "".join(label.partition(" (")[1:])
