"""Reading raw output again: does it still say what was recorded? A mended parser needs no new runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from infrabench import ledger, registry
from infrabench.core import Capture, NotAsClaimed, ParseError, Result, TrialRecord
from infrabench.records import BLOCKS, PLAN, read_bytes, read_session, read_trials, read_trials_of
from infrabench.sums import SUMS
from infrabench.trial import parsed

READABLE = ("ok", "invalid", "unparsable")  # the states of trials whose tool ended well


def differences(folder: Path) -> Iterator[str]:
    """Yield one sentence for each trial whose raw output does not give the recorded measurements any more."""
    for then in read_trials(folder):
        trial, now = then.trial, again(folder, then)
        if (then.measurements, then.state) != (now.measurements, now.state):
            where = f"trial {trial.id} ({trial.system}, {trial.workload}, {trial.scenario}, block {trial.block})"
            yield f"{where}: recorded {_told(then)}, read again {_told(now)}"


def again(folder: Path, record: TrialRecord) -> TrialRecord:
    """Return `record` with what its raw output says to the parser of now."""
    if record.state not in READABLE:
        return record
    try:
        found = parsed(registry.workload(record.trial.workload), capture(folder, record))
    except NotAsClaimed as error:
        return replace(record, measurements=(), state="invalid", reason=str(error))
    except ParseError as error:
        return replace(record, measurements=(), state="unparsable", reason=str(error))
    if record.measurements:
        return replace(record, measurements=found)
    # it was the output that spoke against the trial; what the guards said of it stays
    guarded = record.conditions.get("invalid", [])
    state, reason = ("invalid", "; ".join(guarded)) if guarded else ("ok", "")
    return replace(record, measurements=found, state=state, reason=reason)


def capture(folder: Path, record: TrialRecord) -> Capture:
    """Return the raw outcome of a recorded trial, as its parser saw it."""
    own = folder / "trials" / record.trial.id

    def stream(name: str) -> bytes:
        return read_bytes(own / name) if (own / name).exists() else b""

    steps = {
        step["name"]: Result(
            tuple(step["argv"]), step["status"], stream(f"{step['name']}.stdout"), stream(f"{step['name']}.stderr"),
            step["started_s"], step["duration_s"], step["timed_out"],
        )
        for step in record.steps
    }  # fmt: skip
    return Capture(steps, record.trial.params)


def write(folder: Path, destination: Path) -> Path:
    """Write a new session to `destination`: the raw output of `folder`, measured by the parsers of now."""
    planned = read_trials_of(folder / PLAN)
    with ledger.opened(destination, read_session(folder), planned) as done:
        for path in sorted(path for part in ("provenance", BLOCKS) for path in folder.glob(f"{part}/[!.]*")):
            name = path.relative_to(folder).as_posix()
            if not (destination / name).exists():
                ledger.add_file(destination, name, read_bytes(path))
        for record in read_trials(folder):
            if record.trial.id not in done:
                own = folder / "trials" / record.trial.id
                blobs = {p.name: read_bytes(p) for p in own.iterdir() if p.name not in ("trial.json", SUMS)}
                ledger.write_trial(destination, again(folder, record), blobs)
    return destination


def _told(record: TrialRecord) -> str:
    values = ", ".join(f"{m.metric} = {m.value:.6g} {m.unit}" for m in record.measurements)
    return f"{record.state} ({values or record.reason})"
