"""May the verdicts be trusted? Simulations, and recorded sessions whose answer is known, as a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from infrabench.analysis import tables
from infrabench.analysis.results import Results, Shown
from infrabench.analysis.tables import notation
from infrabench.core import DesignError, InfrabenchError
from infrabench.selfcheck.validation import CHECKS, SEED, run
from infrabench.selfcheck.validation.recorded import known_effects
from infrabench.selfcheck.validation.relabelling import Relabelled, relabelled

FORMS = ("none", "fast", "full")
DIFFERENT = ("different", "different, within the margin")


@dataclass(frozen=True)
class Same:
    """A label that stands for the very thing that the baseline is, and what the analysis says of the two."""

    label: str
    contrasts: int  # with a verdict
    different: int
    significant: int  # of them: adjusted within its family below 5 %
    swapped: Relabelled


def simulations(form: str = "fast", seed: int = SEED) -> Shown:
    """Return every check of the simulations as a table: what, estimate, allowed band, replicates, passed.

    `form`: "fast" (about 2 000 replicates, under a minute), "full" (10 000 and more, minutes), "none".
    """
    if form not in FORMS:
        raise DesignError(f"unknown form {form!r} of the simulations: known are {', '.join(FORMS)}")
    if form == "none":
        text = "The simulations were not run: simulations = 'fast' runs them here, `make validate` the long form."
        return Shown(f"<p>{text}</p>", text)
    rows = [
        {
            "check": outcome.id, "of": CHECKS[outcome.id].what, "what": outcome.what,
            "estimate": f"{outcome.estimate:.4f}", "allowed": f"{outcome.low:.4f} to {outcome.high:.4f}",
            "replicates": str(outcome.replicates), "passed": "yes" if outcome.passed else "NO",
        }
        for outcome in run(full=form == "full", seed=seed)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    bad = int((frame["passed"] == "NO").sum())
    told = f"{len(frame) - bad} of {len(frame)} passed, seed {seed}."
    return Shown(f"{notation.html_table(frame)}<p>{told}</p>", f"{tables.markdown(frame)}\n{told}")


def same(found: Results, swaps: int = 1_000) -> list[Same]:
    """Return, for each label that is the baseline under another name, what the analysis makes of it."""
    return [_same(found, label, swaps) for label in same_labels(found.data)]


def same_labels(data: Mapping[str, Any]) -> list[str]:
    """Return the labels of a session (``session.json``) that stand for exactly what its baseline stands for."""
    variants = data.get("variants") or {}

    def stands_for(label: str) -> Any:
        return variants.get(label) or {"system": label, "prefix": [], "enter": [], "leave": []}

    baseline = data["baseline"]
    return [label for label in data["systems"] if label != baseline and stands_for(label) == stands_for(baseline)]


def same_table(found: Results) -> Shown:
    """Return one row per label that is the baseline again: how often called different, as measured and swapped."""
    rows = [
        {
            "label": each.label, "contrasts": str(each.contrasts), "different": str(each.different),
            "different in its family": str(each.significant), "cases swapped": str(len(each.swapped.cases)),
            "different when swapped %": f"{100 * each.swapped.share:.2f}",
            "dominated by one block": str(int(each.swapped.cases["dominated"].sum())),
            "of the others %": f"{100 * each.swapped.even:.2f}",
            "allowed %": f"{100 * each.swapped.band.low:.2f} to {100 * each.swapped.band.high:.2f}",
        }
        for each in same(found)
    ]  # fmt: skip
    return _shown(rows, "No label of this session stands for the same as its baseline.")


def known_table(found: Results) -> Shown:
    """Return one row per injected effect: its true ratio, ours with the interval, and whether that contains it."""
    rows = []
    for row in known_effects(found.contrasts, _known(found)).itertuples(index=False):
        places = notation.decimals(row.ratio_low, row.ratio_high, null=1)
        rows.append(
            {
                "effect": row.system, "workload": row.workload, "scenario": row.scenario,
                "metric": notation.metric_title(row.metric), "n": str(row.n_pairs),
                "true ratio": f"{row.true_ratio:.4f}",
                "our ratio": notation.number(row.ratio, places),
                "95 % CI": notation.interval(row.ratio_low, row.ratio_high, null=1),
                "contains the truth": "yes" if row.covers else "NO", "excludes 1": "yes" if row.excludes_1 else "NO",
                "verdict": row.verdict,
            }
        )  # fmt: skip
    return _shown(rows, "No effect was injected in this session.")


def lines(found: Results) -> Iterator[str]:
    """Yield what a session with a known answer says; `InfrabenchError` at the end when it is not that answer."""
    pairs, known = same(found), known_effects(found.contrasts, _known(found))
    if not pairs and known.empty:
        raise DesignError("this session has no known answer: it is neither A/A nor were effects injected")
    if pairs:
        yield same_table(found).text
    if len(known):
        yield known_table(found).text
    wrong = [f"{each.label} is called different from itself" for each in pairs if each.significant]
    wrong += [
        f"{each.label}: labels swapped at random differ in {100 * each.swapped.share:.2f} % of cases, and in "
        f"{100 * each.swapped.even:.2f} % of those that no single block dominates"
        for each in pairs
        if not each.swapped.band.low <= each.swapped.share <= each.swapped.band.high
    ]
    wrong += [f"{row.system}: truth outside the interval" for row in known.itertuples() if not row.covers]
    wrong += [f"{row.system}: not told from 1" for row in known.itertuples() if not row.excludes_1]
    if wrong:
        raise InfrabenchError(f"not the known answer: {'; '.join(wrong)}")


def _same(found: Results, label: str, swaps: int) -> Same:
    rows = found.contrasts[(found.contrasts["system"] == label) & found.contrasts["p"].notna()]
    called = rows["verdict"].isin(DIFFERENT)
    family = called & (rows["p_adjusted"] < 0.05)
    swapped = relabelled(found.table, found.data["baseline"], label, swaps)
    return Same(label, len(rows), int(called.sum()), int(family.sum()), swapped)


def _known(found: Results) -> list[tuple[str, str, str, float]]:
    return [(system, workload, metric, float(true)) for system, workload, metric, true in found.data.get("known", [])]


def _shown(rows: list[dict[str, str]], otherwise: str) -> Shown:
    if not rows:
        return Shown(f"<p>{otherwise}</p>", otherwise)
    frame = pd.DataFrame(rows)
    return Shown(notation.html_table(frame), tables.markdown(frame))
