"""Re-analysis: what a recorded session says, in numbers, made again from its raw output.

The numbers are written beside a session on the day that it is recorded, by ``infrabench selfcheck claims --record
SESSION``. From then on they are what its raw output has to give: a change of the analysis that changes one of them
makes a claim fail. The findings about the published numbers are claims too: each is computed again from what the papers
print.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from infrabench.analysis import results, session_data
from infrabench.analysis.published import findings
from infrabench.analysis.tables import notation
from infrabench.core import LedgerError
from infrabench.experiment.execution import reparse
from infrabench.ledger import catalogue
from infrabench.ledger.files import SUMS, read_bytes
from infrabench.ledger.records import read_trials, verify
from infrabench.notebook import api
from infrabench_selfcheck import known_answers
from infrabench_selfcheck.claims.claim import EXACT, FAIL, PASS, REANALYSIS, Claim, Judged

log = logging.getLogger(__name__)

# another processor's logarithm may end in another last binary digit, and so may what is computed with it
RELATIVE = 1e-12
ROUNDING = f"relative {RELATIVE:.0e}"
KEY = ("workload", "scenario", "metric", "system")
WORDS = ("baseline", "better", "pair_unit", "n_pairs", "verdict", "verdict_without_flagged", "sensitive", "reason")
REALS = ("margin", "ratio", "ratio_low", "ratio_high", "n_to_decide")
COUNTS = ("trials", "measurements", "missing")
KNOWN = ("n_pairs", "verdict", "covers", "excludes_1"), ("true_ratio", "ratio", "ratio_low", "ratio_high")
# What one trial took to check, read and parse again, and a session to analyse, on two cores: for the estimate alone.
TRIAL_S, SESSION_S = 0.002, 3.0
FINDINGS_S = 1.0  # all findings together
PUBLISHED = "published"  # the source of the findings


class Verification(NamedTuple):
    """One statement about a session, what contradicts it, and what is said where nothing does."""

    what: str
    statement: str
    differences: Sequence[str]
    agreement: str = ""
    tolerance: str = EXACT


def claims(source: str, recorded: Path) -> Iterator[Claim]:
    """Yield the re-analysis claims of a recorded session, each checked; one that fails says what differs.

    Raises `LedgerError` when nobody has written down what the session says.
    """
    then, space = read_numbers(recorded), 0
    count = sum(then["trials"].values())
    log.info("%s: %d trials are analysed again", source, count)
    files = f"Every file of {recorded.name.removesuffix(catalogue.ARCHIVE)} is as recorded."
    try:
        folder = catalogue.find(None, str(recorded))
        space = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        damage = verify(folder)
    except LedgerError as error:  # damaged: that is what this level is there to find
        damage = [str(error)]
    command = f".venv/bin/infrabench selfcheck claims {source} --level {REANALYSIS}"
    for check in [Verification("files", files, damage)] if damage else verify_session(folder, then, files):
        found = check.differences
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        judged = Judged(FAIL, "; ".join(found[:3]) + more) if found else Judged(PASS, check.agreement)
        yield Claim(
            source, REANALYSIS, check.what, check.statement, command, SESSION_S + count * TRIAL_S, space,
            check.tolerance, judged,
        )  # fmt: skip


def verify_session(folder: Path, then: Mapping[str, Any], files: str) -> Iterator[Verification]:
    """Hold a session against its recorded numbers: its files (statement `files`), raw output, counts and results."""
    now = session_numbers(session_data.open_session(folder))
    same_files = [*differences(then["sums_sha256"], now["sums_sha256"], "SHA-256 of its SHA256SUMS")]
    yield Verification("files", files, same_files, "every SHA-256 agrees")
    raw = reparse.compare(folder)
    yield Verification(
        "raw output",
        f"The raw output of {sum(then['trials'].values())} trials gives the same {then['measurements']} measurements.",
        raw.differences, "; ".join(("every value is equal to the last bit", *raw.new_metrics)),
    )  # fmt: skip
    states = ", ".join(f"{count} {state}" for state, count in then["trials"].items())
    verdicts = "; ".join(f"{count} {verdict}" for verdict, count in then["verdicts"].items())
    then_counts, now_counts = ({name: each[name] for name in COUNTS} for each in (then, now))
    for what, statement, old, new in (
        ("trials", f"Trials: {states}; {then['missing']} missing.", then_counts, now_counts),
        ("verdicts", f"All contrasts: {verdicts}.", then["verdicts"], now["verdicts"]),
    ):
        yield Verification(what, statement, [*differences(old, new)], "all counts are equal")
    for kind, name, sentence in (
        ("contrasts", key, _describe_contrast),
        ("known", lambda row: (*key(row), "known effect"), _describe_known_effect),
        ("same", lambda row: (row["label"], "the same under two labels"), _describe_same_system),
    ):
        rest = {name(row): row for row in now[kind]}
        for row in then[kind]:
            new = rest.pop(name(row), None)
            differs = [*differences(row, new)] if new else ["the analysis gives no such number any more"]
            agreement = "equal to the last digit" if row == new else f"equal but for rounding ({ROUNDING})"
            yield Verification(" ".join(name(row)), sentence(row), differs, agreement, ROUNDING)
        if rest:
            extra = [f"{' '.join(each)}: not recorded" for each in rest]
            yield Verification(f"more {kind}", f"There are no more {kind} than recorded.", extra)


def session_numbers(session: session_data.Session) -> dict[str, Any]:
    """Return what a session says now: its files, trials by state, primary contrasts, verdicts, known answers."""
    found = api.results(session)
    records = read_trials(session.folder)
    primary = found.contrasts[results.is_primary(found)]
    primary = primary.sort_values(["workload", "metric", "scenario", "system"], kind="stable")
    return {
        "sums_sha256": sha256(read_bytes(session.folder / SUMS)).hexdigest(),
        "trials": dict(sorted(Counter(record.state for record in records).items())),
        "measurements": sum(len(record.measurements) for record in records),
        "missing": len(session.missing),
        "contrasts": [_numbers(row) for row in primary.to_dict("records")],
        "verdicts": dict(sorted(Counter(found.contrasts["verdict"]).items())),
        "known": [_numbers(row, *KNOWN) for row in known_answers.injected_effects(found).to_dict("records")],
        "same": [
            {
                "label": each.label, "contrasts": each.contrasts, "different": each.different,
                "significant": each.significant, "cases": len(each.swapped.cases), "share": _real(each.swapped.share),
                "even": _real(each.swapped.even), "low": each.swapped.band.low, "high": each.swapped.band.high,
            }
            for each in known_answers.same(found)
        ],
    }  # fmt: skip


def contrasts_of(session: session_data.Session) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return every contrast of a session as it would be written down, by `key`."""
    return {key(row): _numbers(row) for row in api.contrasts(session).to_dict("records")}


def key(contrast: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what names a contrast: workload, scenario, metric, system."""
    return tuple(contrast[name] for name in KEY)


def numbers_path(recorded: Path) -> Path:
    """Return where the numbers of a recorded session (an archive or a folder) lie."""
    return recorded.with_name(recorded.name.removesuffix(catalogue.ARCHIVE) + ".json")


def read_numbers(recorded: Path) -> dict[str, Any]:
    """Return the numbers that were written down for a recorded session; `LedgerError` when there are none."""
    path = numbers_path(recorded)
    if not path.is_file():
        raise LedgerError(
            f"{path} is missing: nobody has written down what {recorded.name} says. Look at it, then "
            f"`infrabench selfcheck claims --record {path.stem}`"
        )
    try:
        return dict(json.loads(read_bytes(path)))
    except ValueError as error:
        raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error


def format_numbers(numbers: Mapping[str, Any]) -> str:
    """Return the numbers as the text of their file: every digit of every number."""
    return json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def differences(then: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield what differs between recorded numbers and those of now: everything but the rounding of a real number."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*then, *now]):
            yield from differences(then.get(name), now.get(name), f"{where} {name}".strip())
    elif isinstance(then, float) and isinstance(now, float):
        if not math.isclose(then, now, rel_tol=RELATIVE, abs_tol=0.0):
            yield f"{where}: recorded {then!r}, now {now!r}"
    elif then != now or type(then) is not type(now):
        yield f"{where}: recorded {then!r}, now {now!r}"


def _numbers(row: Mapping[str, Any], words: Sequence[str] = WORDS, reals: Sequence[str] = REALS) -> dict[str, Any]:
    plain = {name: row[name].item() if hasattr(row[name], "item") else row[name] for name in (*KEY, *words)}
    return plain | {name: _real(row[name]) for name in reals}


def _real(value: Any) -> float | None:
    """A missing number is null: JSON has no NaN."""
    return float(value) if math.isfinite(value) else None


def _describe_contrast(row: Mapping[str, Any]) -> str:
    """The sentence of the notebooks, with the workload and the metric."""
    missing = {name: float("nan") if row[name] is None else row[name] for name in REALS}
    sentence = results.sentence(SimpleNamespace(**{**row, **missing}))
    return f"{row['workload']}, {notation.metric_title(row['metric'])}, {sentence}"


def _describe_known_effect(row: Mapping[str, Any]) -> str:
    interval = notation.interval(row["ratio_low"], row["ratio_high"], null=1)
    holds = "contains" if row["covers"] else "does NOT contain"
    tells = "is" if row["excludes_1"] else "is NOT"
    return (
        f"{row['system']} in {row['workload']}, {row['scenario']}: the interval {interval} {holds} the injected ratio "
        f"{row['true_ratio']:.4f}, which {tells} told from 1."
    )


def _describe_same_system(row: Mapping[str, Any]) -> str:
    band = f"{100 * row['low']:.2f} to {100 * row['high']:.2f} %"
    where = "inside" if row["low"] <= row["share"] <= row["high"] else "OUTSIDE"
    return (
        f"{row['label']} is the baseline again: {row['significant']} of {row['contrasts']} contrasts are different in "
        f"their family. With labels swapped at random {100 * row['share']:.2f} % differ, {where} {band}."
    )


def findings_path() -> Path:
    """Return where the findings are written down as they were read and agreed with."""
    return findings.TOML.with_name("findings.json")


def current_findings() -> dict[str, dict[str, str]]:
    """Return every finding as it is computed now: claim, recomputation and verdict, by id."""
    rows = findings.audit().to_dict("records")
    return {row["id"]: {name: str(row[name]) for name in ("claim", "recomputed", "verdict")} for row in rows}


def published_claims() -> Iterator[Claim]:
    """Yield one claim for each finding: its sentences, numbers and all, come out as they were written down."""
    if not findings_path().is_file():
        hint = f"read the findings, then `infrabench selfcheck claims --record {PUBLISHED}`"
        raise LedgerError(f"{findings_path()} is missing: {hint}")
    then, now = json.loads(read_bytes(findings_path())), current_findings()
    for name in dict.fromkeys([*then, *now]):
        old, new = then.get(name), now.get(name)
        judged = Judged(FAIL, f"now: {new['recomputed']}" if new else "no such finding any more")
        if old == new:
            judged = Judged(PASS, "the same words and numbers")
        each = old or new
        yield Claim(
            PUBLISHED, REANALYSIS, name, f"{each['claim']} {each['recomputed']} {each['verdict'].capitalize()}.",
            f".venv/bin/infrabench selfcheck claims {PUBLISHED}", FINDINGS_S, 0, EXACT, judged,
        )  # fmt: skip
