"""Do the parts of a session agree: what was asked for, what it says of itself, its plan and its records?

Sums tell that a file is as it was written. These checks tell that files belong together, also where sums were mended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from infrabench.core import Trial, TrialRecord, digest, trial_id
from infrabench.ledger.codes import code_labels

REDUCED = ("systems", "workloads")  # a session may have fewer than were asked for


def disagreements(
    session: Mapping[str, Any], plan: Iterable[Trial], records: Collection[TrialRecord],
    codes: Sequence[Mapping[str, Any]],
) -> Iterator[str]:  # fmt: skip
    """Yield what does not agree, one sentence each; `codes`: the notes on other code."""
    asked = session["parameters"]
    if not isinstance(asked, dict):
        yield "its parameters are no mapping of names to values"
        return
    if session.get("parameters_sha256") != digest(asked, 64):
        yield "its parameters are not those that the session was begun with (parameters_sha256)"
    for name in sorted({*session} & {*asked}):
        then, now = asked[name], session[name]
        if name in REDUCED and isinstance(then, list) and isinstance(now, list):
            then = [each for each in then if each in now]
        if then != now:
            yield f"its {name} is not the one of its parameters"
    for name, left in (("systems", "not_run"), ("workloads", "left_out")):
        unasked = sorted({*session.get(left, {})} - {*asked[name]}) if name in asked else []
        if unasked:
            yield f"its {left} names {', '.join(unasked)}, which its parameters have not"
    if {"study", "seed"} <= {*asked}:
        for trial in plan:
            if trial.id != trial_id(asked["study"], asked["seed"], trial):
                yield f"the plan's trial {trial.id} (block {trial.block}) has the id of another one"
    known = code_labels(session, codes, {record.trial.workload for record in records})
    for record in records:
        if record.code not in known[record.trial.workload]:
            yield f"trial {record.trial.id} was made with code, or parameters, that the session does not name"
