"""Re-measurement: what the recorded session claims, asked of sessions that were measured on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench.analysis import session_data
from infrabench.core import InfrabenchError, LedgerError
from infrabench.experiment.design import costs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.progress import bar
from infrabench.experiment.provenance.comparability import differences
from infrabench.ledger import catalogue
from infrabench.ledger.checksums import SUMS
from infrabench.ledger.files import read_bytes
from infrabench.ledger.records import read_session
from infrabench.notebook import api
from infrabench.selfcheck.claims import agreement_rule, recorded_numbers
from infrabench.selfcheck.claims.claim import NOT_RUN, REMEASUREMENT, Claim, Judged

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class New:
    """A session measured here: its name, when it began, and its contrasts by `recorded_numbers.key`."""

    name: str
    created_utc: str
    contrasts: Mapping[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Refused:
    """A session measured here that cannot be asked, and why."""

    name: str
    reason: str


def claims(source: str, recorded: Path, sessions: Sequence[str] | None = None) -> Iterator[Claim]:
    """Yield the re-measurement claims of a recorded session, each judged by `rule`.

    Parameters
    ----------
    source
        How the recorded session is called among all.
    sessions
        Names or folders of those to ask; None: all that were measured here and asked the same.

    Of several sessions the one with the most pairs of a contrast is asked about it, the latest of equals: what it says
    plays no part in the choice.
    """
    then = recorded_numbers.read(recorded)
    original = catalogue.find(None, str(recorded))
    asked = read_session(original)
    found = [_opened(original, path) for path in _candidates(asked, original, sessions)]
    new = [each for each in found if isinstance(each, New)]
    refused = "; ".join(f"{each.name}: {each.reason}" for each in found if isinstance(each, Refused))
    wanted = request(asked)
    cost = costs.of_study(session.study_of(wanted), wanted)
    command = f"{command_of(asked)} && .venv/bin/infrabench selfcheck claims {source} --level {REMEASUREMENT}"
    for row in then["contrasts"]:
        if agreement_rule.claims_something(row):
            key = recorded_numbers.key(row)
            statement = f"{row['workload']}, {row['scenario']}, {row['metric']}: {agreement_rule.statement(row)}."
            judged, space = judge_contrast(row, new, refused), cost.ledger_bytes + cost.target_bytes
            yield Claim(
                source, REMEASUREMENT, " ".join(key), statement, command, cost.seconds, space, agreement_rule.STATED,
                judged,
            )  # fmt: skip


def request(asked: Mapping[str, Any], profile: str | None = None, site: str = "auto") -> Design:
    """Return the design that measures the study of a recorded session again (``session.json``), at another profile."""
    return api.request(asked["study"], profile=profile or asked["profile"], aa=asked.get("aa") or "", site=site)


def command_of(asked: Mapping[str, Any], profile: str | None = None) -> str:
    """Return the command that measures what a recorded session measured."""
    more = f" --aa {asked['aa']}" if asked.get("aa") else ""
    return f".venv/bin/infrabench run {asked['study']} --profile {profile or asked['profile']}{more}"


def measure(recorded: Path, profile: str, site: str = "auto") -> Path:
    """Measure here what the recorded session measured, at a profile, and return the new session's folder.

    What is missing of it: a session that is there is gone on with. Raises `NotRunnable` or `SiteError` where it cannot.
    """
    wanted = request(read_session(catalogue.find(None, str(recorded))), profile, site)
    with bar(f"{wanted.study} {wanted.profile}") as show:
        return runs.carry_out(wanted, on_progress=show).path


def _candidates(asked: Mapping[str, Any], original: Path, sessions: Sequence[str] | None) -> Iterator[Path]:
    """The sessions measured here of the same study and form, or those that were named."""
    if sessions is not None:
        yield from (catalogue.find(None, name) for name in sessions)
        return
    for path in catalogue.local(asked["study"]).values():
        try:
            if (read_session(path).get("aa") or "") == (asked.get("aa") or ""):
                yield path
        except LedgerError as error:
            log.warning("%s is passed over: %s", path, error)


def _opened(original: Path, folder: Path) -> New | Refused:
    if read_bytes(folder / SUMS) == read_bytes(original / SUMS):
        return Refused(folder.name, "is the recorded session itself")
    asked = read_session(folder)
    if asked["study"] != read_session(original)["study"]:
        return Refused(folder.name, f"is of study {asked['study']}")
    other = [each.key for each in differences(original, folder) if each.where == "asked" and each.checked]
    if other:
        return Refused(folder.name, f"was asked something else: {', '.join(other)}")
    try:
        contrasts = recorded_numbers.contrasts_of(session_data.open_session(folder))
    except InfrabenchError as error:
        return Refused(folder.name, f"cannot be analysed: {error}")
    return New(folder.name, asked["created_utc"], contrasts)


def judge_contrast(row: Mapping[str, Any], new: Sequence[New], refused: str) -> Judged:
    """Return what the sessions measured here say of a recorded contrast; `refused`: why others were not asked."""
    key = recorded_numbers.key(row)
    able = [each for each in new if key in each.contrasts]
    if not able:
        if new:
            why = f"{', '.join(each.name for each in new)}: did not measure it; a session at the recorded profile does"
        else:
            why = refused or "no session of this study was measured on this machine"
        return Judged(NOT_RUN, why)
    best = max(able, key=lambda each: (each.contrasts[key]["n_pairs"], each.created_utc))
    judged = agreement_rule.judge(row, best.contrasts[key])
    return Judged(judged.outcome, f"{best.name}: {judged.found}")
