"""Systems that are pairs, taken apart: what one layer changes while the other stays that of the baseline.

A system ``HIGH-LOW`` is a high-level runtime over a low-level one. Compared as wholes, a difference between two pairs
belongs to neither layer. With one layer held, it belongs to the other; and whether the two simply add up is a question
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from infrabench.analysis.results import Results
from infrabench.analysis.scenarios import analyse_view
from infrabench.core import unknown_name

Layer = Literal["high", "low"]
LAYERS = ("high", "low")


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
    rows = found.table[found.table["system"].isin(list(names))]
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
    high = {name: _split(name)[0] for name in found.systems}
    low = {name: _split(name)[1] + _more(name) for name in found.systems}
    shared = {each for each in low.values() if len({high[name] for name in found.systems if low[name] == each}) > 1}
    rows = found.table[found.table["system"].map(low).isin(list(shared))]
    turned = rows.assign(
        system=rows["system"].map(high), scenario=rows["system"].map(low), factor=None, level=float("nan"),
        workload=rows["workload"] + ", " + rows["scenario"],
    )  # fmt: skip
    baseline = {found.data["baseline"]: high[found.data["baseline"]]}
    systems = dict.fromkeys(high[name] for name in found.systems if low[name] in shared)
    return analyse_view(
        found, turned, "together", **_renamed_absence(found, baseline), systems=list(systems), primary=[],
        not_applicable=[],
    )  # fmt: skip


def _renamed_absence(found: Results, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the baseline by its other name, and why those of the systems that have one were not run."""
    not_run = {names[name]: why for name, why in found.data["not_run"].items() if name in names}
    return {"baseline": names[found.data["baseline"]], "not_run": not_run}


def _split(label: str) -> tuple[str, str]:
    """Return the high and the low layer of a system, without what its label adds in brackets."""
    high, _, low = label.partition(" (")[0].partition("-")
    return high, low


def _more(label: str) -> str:
    """Return what a label adds to the name."""
    return "".join(label.partition(" (")[1:])
