"""What a recorded session says, in numbers, written beside it on the day that it is recorded.

From then on they are what its raw output has to give. The file is made by
``infrabench selfcheck claims --record SESSION``; a change of the analysis that changes
one of its numbers makes a claim fail.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from infrabench.analysis import session_data
from infrabench.analysis.results import Results, is_primary
from infrabench.core import LedgerError
from infrabench.ledger import catalogue
from infrabench.ledger.checksums import SUMS
from infrabench.ledger.files import read_bytes
from infrabench.ledger.records import read_trials
from infrabench.notebook import api
from infrabench.selfcheck import known_answers

SUFFIX = ".json"
# another processor's logarithm may end in another last binary digit, and so may what is computed with it
RELATIVE = 1e-12
KEY = ("workload", "scenario", "metric", "system")
WORDS = ("baseline", "better", "pair_unit", "n_pairs", "verdict", "verdict_without_flagged", "sensitive", "reason")
REALS = ("margin", "ratio", "ratio_low", "ratio_high", "n_to_decide")


def file_of(recorded: Path) -> Path:
    """Return where the numbers of a recorded session (an archive or a folder) lie."""
    return recorded.with_name(recorded.name.removesuffix(catalogue.ARCHIVE) + SUFFIX)


def read(recorded: Path) -> dict[str, Any]:
    """Return the numbers that were written down for a recorded session; `LedgerError` when there are none."""
    path = file_of(recorded)
    if not path.is_file():
        name = recorded.name.removesuffix(catalogue.ARCHIVE)
        raise LedgerError(
            f"{path} is missing: nobody has written down what {recorded.name} says. Look at it, then "
            f"`infrabench selfcheck claims --record {name}`"
        )
    try:
        return dict(json.loads(read_bytes(path)))
    except ValueError as error:
        raise LedgerError(f"{path} is not JSON ({error}); restore it from a copy") from error


def format_numbers(numbers: Mapping[str, Any]) -> str:
    """Return the numbers as the text of their file: every digit of every number."""
    return json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def of(session: session_data.Session) -> dict[str, Any]:
    """Return what a session says now: its files, trials by state, primary contrasts, verdicts, known answers."""
    found = api.results(session)
    records = read_trials(session.folder)
    return {
        "sums_sha256": sha256(read_bytes(session.folder / SUMS)).hexdigest(),
        "trials": dict(sorted(Counter(record.state for record in records).items())),
        "measurements": sum(len(record.measurements) for record in records),
        "missing": len(session.missing),
        "contrasts": [_contrast(row) for row in _primary(found)],
        "verdicts": dict(sorted(Counter(found.contrasts["verdict"]).items())),
        "known": [_known(row) for row in known_answers.injected_effects(found).to_dict("records")],
        "same": [_same(each) for each in known_answers.same(found)],
    }


def contrasts_of(session: session_data.Session) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return every contrast of a session as it would be written down, by `key`."""
    rows = api.contrasts(session).to_dict("records")
    return {key(row): _contrast(row) for row in rows}


def key(contrast: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what names a contrast: workload, scenario, metric, system."""
    return tuple(contrast[name] for name in KEY)


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


def _primary(found: Results) -> Iterator[dict[str, Any]]:
    rows = found.contrasts[is_primary(found)].sort_values(["workload", "metric", "scenario", "system"], kind="stable")
    yield from rows.to_dict("records")


def _contrast(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _plain(row[name]) for name in (*KEY, *WORDS)}
    return plain | {name: _real(row[name]) for name in REALS}


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _plain(row[name]) for name in (*KEY, "n_pairs", "verdict", "covers", "excludes_1")}
    return plain | {name: _real(row[name]) for name in ("true_ratio", "ratio", "ratio_low", "ratio_high")}


def _same(each: known_answers.Same) -> dict[str, Any]:
    swapped = each.swapped
    return {
        "label": each.label, "contrasts": each.contrasts, "different": each.different, "significant": each.significant,
        "cases": len(swapped.cases), "share": _real(swapped.share), "even": _real(swapped.even),
        "low": _real(swapped.band.low), "high": _real(swapped.band.high),
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _real(value: Any) -> float | None:
    """A missing number is null: JSON has no NaN."""
    return float(value) if math.isfinite(value) else None
