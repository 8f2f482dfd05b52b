"""What code makes a session's trials, and whether a session that goes on still has the one that made its last trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infrabench import registry
from infrabench.core import DesignError, LedgerError, Study
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.provenance import collect
from infrabench.experiment.provenance.source_trace import ROOT, Definition, digests_of
from infrabench.ledger.codes import CODE, known_codes
from infrabench.ledger.records import not_applicable
from infrabench.ledger.session_folder import SessionFolder

RUN = (*(name for name in registry.CONTRACT["workloads"] if name != "parse"), *registry.DERIVED.values())
EXECUTION = ROOT / "experiment/execution"
# What runs, watches and judges a trial; what decides which trial comes next.
SUITE: Mapping[str, tuple[Definition, ...]] = {
    "measurement": (
        (EXECUTION / "trial.py", None), (EXECUTION / "runner.py", "Runner"), (EXECUTION / "deployments.py", None),
        (ROOT / "machines/hosts/host.py", None),
    ),
    "plan": ((ROOT / "experiment/design/design.py", "trials"), (EXECUTION / "blocks.py", None)),
}  # fmt: skip
CHOICES = (
    "Start another session (give it a name), or go on with a mixture (--mixture; MIXTURE=true with make; "
    "mixture = True in a notebook; mixture: true in a campaign file): trials of another code are then analysed apart"
)
REPARSE = "; or `infrabench session reparse` it into a folder, which goes on with the parsers of now"


def code_parts(study: Study, wanted: Design) -> dict[str, str]:
    """Return the digest of every part of the code that the trials of `wanted` are made with."""
    systems = {study.variants[name].system if name in study.variants else name for name in wanted.systems}
    roots = dict(SUITE)
    for name in sorted(systems):
        roots[f"system {name}"] = _definitions("systems", name, (None,))
    for name in designs.workloads(wanted):
        roots[f"workload {name}"] = _definitions("workloads", name, RUN)
        roots[f"parser {name}"] = parser_definitions(name)
    return digests_of(roots)


def parser_definitions(workload: str) -> tuple[Definition, ...]:
    """Return where the parser of a workload is defined."""
    return _definitions("workloads", workload, ("parse",))


def check_code(stored: SessionFolder, study: Study, wanted: Design) -> dict[str, str] | None:
    """Return the code of now where the session has to take note of it before it goes on; None where nothing differs.

    Raises
    ------
    LedgerError
        Its last trial was made with other code, or it is not known with which, and `wanted` asks for no mixture.
    DesignError
        It asks for one, and for a precision.
    """
    then = known_codes(stored.session, stored.notes(CODE))[-1]
    begun = stored.session
    left_out = {"systems": tuple(begun["not_run"]), "workloads": tuple(begun["left_out"])}
    kept = designs.without(wanted, **left_out, excluded=not_applicable(begun))
    now = code_parts(study, kept)
    if now == then:
        return None
    if stored.records and not wanted.request.mixture:
        raise LedgerError(f"{stored.path} cannot go on: {_difference(stored, then, now)}")
    if stored.records and wanted.stopping is not None:
        raise DesignError(
            f"{stored.path}: a mixture cannot reach a precision, for which the trials of one code are counted: start "
            "another session"
        )
    return now


def append_code(stored: SessionFolder, study: Study, wanted: Design, block: int) -> None:
    """Take note of code that is not that of the last trial, before its first trial, in `block`. See `check_code`."""
    now = check_code(stored, study, wanted)
    if now is not None:
        note = {"parts": now, "after": _last_trial(stored), "versions": collect.of_suite()}
        stored.append_block_note(block, CODE, note)


def _definitions(kind: str, name: str, names: Sequence[str | None]) -> tuple[Definition, ...]:
    path = registry.source(kind, name)
    if path.is_dir():
        inside = sorted(each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        return tuple((each, None) for each in inside)
    return tuple((path, each) for each in names)


def _last_trial(stored: SessionFolder) -> str:
    """Return the id of the trial that was made last; empty without one."""
    return max(stored.records.values(), key=lambda each: each.started_utc).trial.id if stored.records else ""


def _difference(stored: SessionFolder, then: Mapping[str, str], now: Mapping[str, str]) -> str:
    last = stored.records[_last_trial(stored)]
    where = f"trial {last.trial.id} (block {last.trial.block}, {last.started_utc})"
    if not then:
        return f"what made its trials up to {where} is not known, as it was recorded before that was kept. {CHOICES}"
    parts = [part for part in dict.fromkeys([*then, *now]) if then.get(part) != now.get(part)]
    only_parsers = all(part.startswith("parser ") for part in parts)
    return f"the code has changed since {where}: {', '.join(parts)}. {CHOICES}{REPARSE if only_parsers else ''}"
