"""Re-analysis: the recorded numbers of a session, made again from its raw output."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from infrabench import analysis, display, facade, reparse, runs
from infrabench.claims import numbers
from infrabench.claims.claim import AGAIN, EXACT, FAIL, PASS, Claim, Judged
from infrabench.core import LedgerError
from infrabench.records import verify

log = logging.getLogger(__name__)

ROUNDING = f"relative {numbers.RELATIVE:.0e}"
# What one trial took to check, read and parse again, and a session to analyse, on two cores: for the estimate alone.
TRIAL_S, SESSION_S = 0.002, 3.0


def claims(source: str, recorded: Path) -> Iterator[Claim]:
    """Yield the re-analysis claims of a recorded session, each checked; one that fails says what differs.

    Raises `LedgerError` when nobody has written down what the session says.
    """
    then = numbers.read(recorded)
    name = recorded.name.removesuffix(runs.ARCHIVE)
    try:
        folder = runs.find(None, str(recorded))
        damage = verify(folder)
    except LedgerError as error:  # damaged: that is what this level is there to find
        folder, damage = None, [str(error)]
    count = sum(then["trials"].values())
    log.info("%s: %d trials are read and analysed again", source, count)
    space = 0 if folder is None else sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def claim(what: str, statement: str, tolerance: str, found: list[str], well: str) -> Claim:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        judged = Judged(FAIL, "; ".join(found[:3]) + more) if found else Judged(PASS, well)
        command = f".venv/bin/infrabench claims {source} --level {AGAIN}"
        return Claim(source, AGAIN, what, statement, command, SESSION_S + count * TRIAL_S, space, tolerance, judged)

    if folder is None or damage:
        yield claim("files", f"Every file of {name} is as recorded.", EXACT, damage, "")
        return
    session = facade.open_session(folder)
    now = numbers.of(session)
    same_files = list(numbers.differences(then["sums_sha256"], now["sums_sha256"], "SHA-256 of its SHA256SUMS"))
    yield claim("files", f"Every file of {name} is as recorded.", EXACT, same_files, "every SHA-256 agrees")
    raw = list(reparse.differences(folder))
    told = f"The raw output of {count} trials gives the same {then['measurements']} measurements."
    yield claim("raw output", told, EXACT, raw, "every value is equal to the last bit")
    yield from _parts(then, now, claim)


def _parts(then: Mapping[str, Any], now: Mapping[str, Any], claim: Callable[..., Claim]) -> Iterator[Claim]:
    """Compare what was written down part by part; every part is a claim."""
    counted = ("trials", "measurements", "missing")
    differs = list(numbers.differences({k: then[k] for k in counted}, {k: now[k] for k in counted}))
    states = ", ".join(f"{count} {state}" for state, count in then["trials"].items())
    yield claim("trials", f"Trials: {states}; {then['missing']} missing.", EXACT, differs, "all counts are equal")
    differs = list(numbers.differences(then["verdicts"], now["verdicts"]))
    verdicts = "; ".join(f"{count} {verdict}" for verdict, count in then["verdicts"].items())
    yield claim("verdicts", f"All contrasts: {verdicts}.", EXACT, differs, "all counts are equal")
    for kind, name, sentence in (
        ("contrasts", numbers.key, contrast_told),
        ("known", lambda row: (*numbers.key(row), "known effect"), _known_told),
        ("same", lambda row: (row["label"], "the same under two labels"), _same_told),
    ):
        made = {name(row): row for row in now[kind]}
        for row in then[kind]:
            new = made.pop(name(row), None)
            differs = list(numbers.differences(row, new)) if new else ["the analysis gives no such number any more"]
            well = "equal to the last digit" if row == new else f"equal but for rounding ({ROUNDING})"
            yield claim(" ".join(name(row)), sentence(row), ROUNDING, differs, well)
        extra = [f"{' '.join(each)}: not recorded" for each in made]
        if extra:
            yield claim(f"more {kind}", f"There are no more {kind} than recorded.", EXACT, extra, "")


def contrast_told(row: Mapping[str, Any]) -> str:
    """Return what a recorded contrast says: the sentence of the notebooks, with the workload and the metric."""
    missing = {name: float("nan") if row[name] is None else row[name] for name in numbers.REALS}
    sentence = analysis.sentence(SimpleNamespace(**{**row, **missing}))
    return f"{row['workload']}, {display.metric_title(row['metric'])}, {sentence}"


def _known_told(row: Mapping[str, Any]) -> str:
    interval = display.interval(row["ratio_low"], row["ratio_high"], null=1)
    holds = "contains" if row["covers"] else "does NOT contain"
    tells = "is" if row["excludes_1"] else "is NOT"
    return (
        f"{row['system']} in {row['workload']}, {row['scenario']}: the interval {interval} {holds} the injected ratio "
        f"{row['true_ratio']:.4f}, which {tells} told from 1."
    )


def _same_told(row: Mapping[str, Any]) -> str:
    band = f"{100 * row['low']:.2f} to {100 * row['high']:.2f} %"
    where = "inside" if row["low"] <= row["share"] <= row["high"] else "OUTSIDE"
    return (
        f"{row['label']} is the baseline again: {row['significant']} of {row['contrasts']} contrasts are different in "
        f"their family. With labels swapped at random {100 * row['share']:.2f} % differ, {where} {band}."
    )
