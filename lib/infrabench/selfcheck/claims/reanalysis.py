"""Re-analysis: the recorded numbers of a session, made again from its raw output.

The findings about the published numbers are claims too: each is computed again from what the papers print.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from infrabench.analysis import results, session_data
from infrabench.analysis.published import findings
from infrabench.analysis.tables import notation
from infrabench.core import LedgerError
from infrabench.experiment.execution import reparse
from infrabench.ledger import catalogue
from infrabench.ledger.files import read_bytes
from infrabench.ledger.records import verify
from infrabench.selfcheck.claims import recorded_numbers
from infrabench.selfcheck.claims.claim import EXACT, FAIL, PASS, REANALYSIS, Claim, Judged

log = logging.getLogger(__name__)

ROUNDING = f"relative {recorded_numbers.RELATIVE:.0e}"
# What one trial took to check, read and parse again, and a session to analyse, on two cores: for the estimate alone.
TRIAL_S, SESSION_S = 0.002, 3.0
FINDINGS_S = 1.0  # all findings together
PUBLISHED = "published"  # the source of the findings


def claims(source: str, recorded: Path) -> Iterator[Claim]:
    """Yield the re-analysis claims of a recorded session, each checked; one that fails says what differs.

    Raises `LedgerError` when nobody has written down what the session says.
    """
    then = recorded_numbers.read(recorded)
    name = recorded.name.removesuffix(catalogue.ARCHIVE)
    try:
        folder = catalogue.find(None, str(recorded))
        damage = verify(folder)
    except LedgerError as error:  # damaged: that is what this level is there to find
        folder, damage = None, [str(error)]
    count = sum(then["trials"].values())
    log.info("%s: %d trials are analysed again", source, count)
    space = 0 if folder is None else sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def claim(what: str, statement: str, tolerance: str, found: list[str], well: str) -> Claim:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        judged = Judged(FAIL, "; ".join(found[:3]) + more) if found else Judged(PASS, well)
        command = f".venv/bin/infrabench selfcheck claims {source} --level {REANALYSIS}"
        return Claim(
            source, REANALYSIS, what, statement, command, SESSION_S + count * TRIAL_S, space, tolerance, judged
        )

    if folder is None or damage:
        yield claim("files", f"Every file of {name} is as recorded.", EXACT, damage, "")
        return
    session = session_data.open_session(folder)
    now = recorded_numbers.of(session)
    same_files = list(
        recorded_numbers.differences(then["sums_sha256"], now["sums_sha256"], "SHA-256 of its SHA256SUMS")
    )
    yield claim("files", f"Every file of {name} is as recorded.", EXACT, same_files, "every SHA-256 agrees")
    raw = reparse.compare(folder)
    told = f"The raw output of {count} trials gives the same {then['measurements']} measurements."
    well = "; ".join(("every value is equal to the last bit", *raw.new_metrics))
    yield claim("raw output", told, EXACT, list(raw.differences), well)
    yield from _parts(then, now, claim)


def _parts(then: Mapping[str, Any], now: Mapping[str, Any], claim: Callable[..., Claim]) -> Iterator[Claim]:
    """Compare what was written down part by part; every part is a claim."""
    counted = ("trials", "measurements", "missing")
    differs = list(recorded_numbers.differences({k: then[k] for k in counted}, {k: now[k] for k in counted}))
    states = ", ".join(f"{count} {state}" for state, count in then["trials"].items())
    yield claim("trials", f"Trials: {states}; {then['missing']} missing.", EXACT, differs, "all counts are equal")
    differs = list(recorded_numbers.differences(then["verdicts"], now["verdicts"]))
    verdicts = "; ".join(f"{count} {verdict}" for verdict, count in then["verdicts"].items())
    yield claim("verdicts", f"All contrasts: {verdicts}.", EXACT, differs, "all counts are equal")
    for kind, name, sentence in (
        ("contrasts", recorded_numbers.key, describe_contrast),
        ("known", lambda row: (*recorded_numbers.key(row), "known effect"), _describe_known_effect),
        ("same", lambda row: (row["label"], "the same under two labels"), _describe_same_system),
    ):
        made = {name(row): row for row in now[kind]}
        for row in then[kind]:
            new = made.pop(name(row), None)
            differs = (
                list(recorded_numbers.differences(row, new)) if new else ["the analysis gives no such number any more"]
            )
            well = "equal to the last digit" if row == new else f"equal but for rounding ({ROUNDING})"
            yield claim(" ".join(name(row)), sentence(row), ROUNDING, differs, well)
        extra = [f"{' '.join(each)}: not recorded" for each in made]
        if extra:
            yield claim(f"more {kind}", f"There are no more {kind} than recorded.", EXACT, extra, "")


def describe_contrast(row: Mapping[str, Any]) -> str:
    """Return what a recorded contrast says: the sentence of the notebooks, with the workload and the metric."""
    missing = {name: float("nan") if row[name] is None else row[name] for name in recorded_numbers.REALS}
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


def format_findings() -> str:
    """Return the findings of now as the text of their file."""
    return json.dumps(current_findings(), indent=1, ensure_ascii=False) + "\n"


def published_claims() -> Iterator[Claim]:
    """Yield one claim for each finding: its sentences, numbers and all, come out as they were written down."""
    if not findings_path().is_file():
        hint = f"read the findings, then `infrabench selfcheck claims --record {PUBLISHED}`"
        raise LedgerError(f"{findings_path()} is missing: {hint}")
    then, made = json.loads(read_bytes(findings_path())), current_findings()
    for name in dict.fromkeys([*then, *made]):
        old, new = then.get(name), made.get(name)
        if old == new:
            judged = Judged(PASS, "the same words and numbers")
        else:
            judged = Judged(FAIL, f"now: {new['recomputed']}" if new else "no such finding any more")
        each = old or new
        yield Claim(
            PUBLISHED, REANALYSIS, name, f"{each['claim']} {each['recomputed']} {each['verdict'].capitalize()}.",
            f".venv/bin/infrabench selfcheck claims {PUBLISHED}", FINDINGS_S, 0, EXACT, judged,
        )  # fmt: skip
