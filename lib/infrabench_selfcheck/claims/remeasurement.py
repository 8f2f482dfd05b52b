"""Re-measurement: what the recorded session claims, asked of sessions that were measured on this machine.

May two sessions, the recorded one and one measured elsewhere, both be right? This is the rule:

A recorded verdict makes one of two statements about a ratio: that it lies on one side of 1 (*different*), or within
the margin about 1 (*equivalent*; *different, within the margin*). *Inconclusive* makes none, and nothing is claimed.

pass          the new session, by itself, makes the same statement
fail          the two contradict each other: both exclude 1, on opposite sides; or one says that the ratio is within the
              margin, by its equivalence test, and the other's whole interval is outside
inconclusive  neither

Only the paired 95 % intervals and the equivalence test are read, which `selfcheck.validation` checks. If both machines
have one true ratio, each kind of failure needs one of the two sessions to be wrong in a way that has a chance of 5 % at
most. Machines differ, so a failure says that the claim does not carry over, not that a session is wrong.

How far the size is from the recorded one is told beside it, by the 95 % prediction interval for a session of that many
blocks (Patil, Peng and Leek 2016), and decides nothing: differences between machines are not in it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench.analysis import session_data
from infrabench.analysis.published.comparison import prediction
from infrabench.analysis.tables import notation
from infrabench.core import InfrabenchError, LedgerError, split_version
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import bar
from infrabench.experiment.provenance.comparability import differences
from infrabench.ledger import catalogue
from infrabench.ledger.files import SUMS, read_bytes
from infrabench.ledger.records import read_session
from infrabench.notebook import api
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, WITHIN
from infrabench_selfcheck.claims import reanalysis
from infrabench_selfcheck.claims.claim import FAIL, INCONCLUSIVE, NOT_RUN, PASS, REMEASUREMENT, Claim, Judged

log = logging.getLogger(__name__)

STATED = "no contradiction of verdicts, by the 95 % intervals and the equivalence test at the study's margin"
ALIKE = (EQUIVALENT, WITHIN)


@dataclass(frozen=True, slots=True)
class New:
    """A session measured here: its name, when it began, and its contrasts by `reanalysis.key`."""

    name: str
    created_utc: str
    contrasts: Mapping[tuple[str, ...], Mapping[str, Any]]


def claims(source: str, recorded: Path, sessions: Sequence[str] | None = None) -> Iterator[Claim]:
    """Yield the re-measurement claims of the recorded session that is called `source`, each judged by the rule above.

    `sessions`: names or folders of those to ask; None: all that were measured here and asked the same. Of several the
    one with the most pairs of a contrast is asked about it, the latest of equals: what it says plays no part in the
    choice.
    """
    then = reanalysis.read_numbers(recorded)
    original = catalogue.find(None, str(recorded))
    data = read_session(original)
    found = [_open(original, path) for path in _candidates(data, sessions)]
    new = [each for each in found if isinstance(each, New)]
    refused = "; ".join(each for each in found if isinstance(each, str))
    wanted = request(data)
    cost = designs.expected_study_cost(session.study_of(wanted), wanted)
    more = f" --aa {data['aa']}" if data.get("aa") else ""
    more += f" --systems {' '.join(versions)}" if (versions := _versions(data)) else ""
    command = (
        f".venv/bin/infrabench run {data['study']} --profile {data['profile']}{more} && "
        f".venv/bin/infrabench selfcheck claims {source} --level {REMEASUREMENT}"
    )
    for row in filter(claims_something, then["contrasts"]):
        yield Claim(
            source, REMEASUREMENT, " ".join(reanalysis.key(row)),
            f"{row['workload']}, {row['scenario']}, {row['metric']}: {statement(row)}.",
            command, cost.seconds, cost.ledger_bytes + cost.target_bytes, STATED, judge_contrast(row, new, refused),
        )  # fmt: skip


def request(asked: Mapping[str, Any], profile: str | None = None, site: str = "auto") -> Design:
    """Return the design that measures the study of a recorded session again (``session.json``), at another profile."""
    return api.request(
        asked["study"], profile=profile or asked["profile"], aa=asked.get("aa") or "", site=site,
        systems=_versions(asked) or None,
    )  # fmt: skip


def _versions(asked: Mapping[str, Any]) -> list[str]:
    """Return the systems of a session that compares versions, its baseline first; empty for any other one."""
    names = sorted(asked["systems"], key=lambda name: bool(name != asked["baseline"]))
    return names if any(split_version(name)[1] for name in names) and not asked.get("aa") else []


def measure(recorded: Path, profile: str, site: str = "auto") -> Path:
    """Measure here what the recorded session measured, at a profile, and return the new session's folder.

    What is missing of it: a session that is there is gone on with. Raises `NotRunnable` or `SiteError` where it cannot.
    """
    wanted = request(read_session(catalogue.find(None, str(recorded))), profile, site)
    with bar(f"{wanted.study} {wanted.profile}") as show:
        return runs.carry_out(wanted, on_progress=show).path


def _candidates(asked: Mapping[str, Any], sessions: Sequence[str] | None) -> Iterator[Path]:
    """The sessions measured here of the same study and form, or those that were named; packed ones are unpacked."""
    if sessions is not None:
        yield from (catalogue.find(None, name) for name in sessions)
        return
    for path in catalogue.local(asked["study"]).values():
        try:
            folder = catalogue.find(None, str(path))
            if (read_session(folder).get("aa") or "") == (asked.get("aa") or ""):
                yield folder
        except LedgerError as error:
            log.warning("%s is passed over: %s", path, error)


def _open(original: Path, folder: Path) -> New | str:
    """The session in `folder`, or why it cannot be asked what the recorded one in `original` claims."""
    if read_bytes(folder / SUMS) == read_bytes(original / SUMS):
        return f"{folder.name}: is the recorded session itself"
    data = read_session(folder)
    if data["study"] != read_session(original)["study"]:
        return f"{folder.name}: is of study {data['study']}"
    other = [each.key for each in differences(original, folder) if each.where == "asked" and each.checked]
    if other:
        return f"{folder.name}: was asked something else: {', '.join(other)}"
    try:
        return New(folder.name, data["created_utc"], reanalysis.contrasts_of(session_data.open_session(folder)))
    except InfrabenchError as error:
        return f"{folder.name}: cannot be analysed: {error}"


def judge_contrast(row: Mapping[str, Any], new: Sequence[New], refused: str) -> Judged:
    """Return what the sessions measured here say of a recorded contrast; `refused`: why others were not asked."""
    key = reanalysis.key(row)
    able = [each for each in new if key in each.contrasts]
    if not able:
        if new:
            why = f"{', '.join(each.name for each in new)}: did not measure it; a session at the recorded profile does"
        else:
            why = refused or "no session of this study was measured on this machine"
        return Judged(NOT_RUN, why)
    best = max(able, key=lambda each: (each.contrasts[key]["n_pairs"], each.created_utc))
    judged = judge(row, best.contrasts[key])
    return Judged(judged.outcome, f"{best.name}: {judged.found}")


def claims_something(contrast: Mapping[str, Any]) -> bool:
    """Tell whether a recorded contrast makes a statement that another session can make, or contradict."""
    return contrast["verdict"] in (DIFFERENT, *ALIKE) and contrast["ratio_low"] is not None


def statement(contrast: Mapping[str, Any]) -> str:
    """Return what a recorded contrast claims of any machine: a side of 1, or the margin about it."""
    who, base, contrast = contrast["system"], contrast["baseline"], _with_upper_end(contrast)
    if contrast["verdict"] in ALIKE:
        return f"{who} and {base} are the same within {100 * contrast['margin']:g} %"
    return f"{who} is {'above' if _side(contrast) > 0 else 'below'} {base} ({notation.direction(contrast['better'])})"


def judge(then: Mapping[str, Any], now: Mapping[str, Any]) -> Judged:
    """Return what the contrast `now` of a new session makes of the recorded one, `then`."""
    if now["ratio_low"] is None:
        return Judged(INCONCLUSIVE, f"here no interval: {now['reason'] or now['verdict']}")
    then, now = _with_upper_end(then), _with_upper_end(now)
    return Judged(_outcome(then, now), f"here {_describe_ratio(now)}; {_size(then, now)}")


def _with_upper_end(contrast: Mapping[str, Any]) -> Mapping[str, Any]:
    """An interval of counts may have no upper end; JSON, which has no infinity, says null."""
    ends = {name: math.inf for name in ("ratio", "ratio_high") if contrast[name] is None}
    return {**contrast, **ends} if contrast["ratio_low"] is not None else contrast


def _outcome(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if then["verdict"] in ALIKE:
        if now["verdict"] in ALIKE:
            return PASS
        return FAIL if _outside(now, then["margin"]) else INCONCLUSIVE
    if _side(now) == _side(then):
        return PASS
    opposite = _side(now) == -_side(then)
    return FAIL if opposite or (now["verdict"] in ALIKE and _outside(then, then["margin"])) else INCONCLUSIVE


def _side(contrast: Mapping[str, Any]) -> int:
    """1 or -1: the side of 1 on which the whole interval lies; 0 when it holds 1."""
    return int(contrast["ratio_low"] > 1) - int(contrast["ratio_high"] < 1)


def _outside(contrast: Mapping[str, Any], margin: float) -> bool:
    return bool(contrast["ratio_high"] < 1 - margin or contrast["ratio_low"] > 1 + margin)


def _describe_ratio(contrast: Mapping[str, Any]) -> str:
    low, high = contrast["ratio_low"], contrast["ratio_high"]
    ratio, interval = notation.estimate(contrast["ratio"], low, high, null=1)
    return f"{ratio} {interval}, n = {contrast['n_pairs']} {contrast['pair_unit']}: {contrast['verdict']}"


def _size(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if then["ratio_low"] <= 0 or then["ratio_high"] == math.inf:  # no such interval on the scale of logarithms
        return "no prediction interval"
    low, high = prediction(then["ratio"], then["ratio_low"], then["ratio_high"], then["n_pairs"], now["n_pairs"])
    inside = "inside" if low <= now["ratio"] <= high else "outside"
    return f"{inside} the prediction interval {notation.interval(low, high, null=1)}"
