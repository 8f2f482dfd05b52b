"""Every parser on damaged outputs: the same schema, or an error it declares; never another number for a lost line."""

from __future__ import annotations

import math
import random
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from infrabench import registry
from infrabench.core import Capture, Measurement, NotAsClaimed, ParseError
from tests.support import mutations
from tests.support.captures import GOOD, read
from tests.support.storm import SEED, Memory, size

EACH = size(300, 100_000)
REFUSED = (ParseError, NotAsClaimed)
LONGEST_S = 5.0  # of one parse, of a mebibyte that a machine made
MOST_GROWN = 512 * 2**20  # bytes of memory
# (workload, case, kind of mutation): why its parser cannot tell.
CANNOT_TELL = {
    ("integrity", "both-zfs", "lose_part"): "how much of an unreadable file was read is not told file by file",
    ("integrity", "both-ceph", "lose_part"): "how much of an unreadable file was read is not told file by file",
}
NAMES = sorted({path.parent.name for path in GOOD})


@dataclass(frozen=True, slots=True)
class Golden:
    """A capture of a real tool, what it says, and the outputs that can be damaged."""

    case: str
    capture: Capture
    expected: tuple[Measurement, ...]
    places: tuple[tuple[str, str], ...]  # step and stream


def goldens(name: str) -> list[Golden]:
    found = []
    for path in GOOD:
        if path.parent.name == name:
            capture, _ = read(path)
            streams = [(step, key) for step in capture.steps for key in ("stdout", "stderr")]
            places = tuple((step, key) for step, key in streams if getattr(capture[step], key))
            expected = tuple(registry.workload(name).parse(capture))
            found.append(Golden(path.name, capture, expected, places))
    return found


def damaged(golden: Golden, rng: random.Random) -> tuple[mutations.Mutate, Capture, str]:
    step, stream = rng.choice(golden.places)
    kind, data = mutations.mutated(getattr(golden.capture[step], stream), rng)
    changed = replace(golden.capture[step], **{stream: data})
    return kind, Capture({**golden.capture.steps, step: changed}, golden.capture.params), f"{step}.{stream}"


def judged(golden: Golden, kind: mutations.Mutate, found: Sequence[Measurement]) -> str:
    """Return what is wrong with the numbers that a parser gave for damaged output; empty when nothing is."""
    if any(not math.isfinite(each.value) for each in found):
        return ""  # `trial.parse_capture` refuses it
    schema = [(each.metric, each.unit, each.better) for each in found]
    if schema != [(each.metric, each.unit, each.better) for each in golden.expected]:
        return f"another schema: {schema}"
    if kind in mutations.FAITHFUL and tuple(found) != golden.expected:
        differing = [
            f"{now.metric} {then.value!r} -> {now.value!r}"
            for then, now in zip(golden.expected, found, strict=True)
            if then != now
        ]
        return f"another number: {'; '.join(differing)}"
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_output_is_refused_or_says_the_same(name: str) -> None:
    parse = registry.workload(name).parse
    good = [golden for golden in goldens(name) if golden.places]
    if not good:
        assert name == "null"  # `true` says nothing that could be damaged
        return
    rng = random.Random(f"{SEED} {name}")
    refused = 0
    wrong: dict[str, str] = {}
    slowest, memory = 0.0, Memory()
    for number in range(EACH):
        golden = rng.choice(good)
        kind, capture, where = damaged(golden, rng)
        told, begin = "", time.process_time()
        try:
            found = parse(capture)
        except REFUSED:
            refused += 1
        except Exception as error:  # noqa: BLE001 (any other exception is what is looked for)
            told = f"{type(error).__name__}: {str(error)[:200]} at {traceback.extract_tb(error.__traceback__)[-1].line}"
        else:
            told = "" if (name, golden.case, kind.__name__) in CANNOT_TELL else judged(golden, kind, found)
        slowest = max(slowest, time.process_time() - begin)
        if told:
            wrong.setdefault(f"{golden.case} {where} {kind.__name__}: {told}", f"mutation {number}")
            if len(wrong) > 20:
                break
    grown = memory.grown
    assert not wrong, f"seed {SEED}:\n" + "\n".join(f"{what} ({at})" for what, at in wrong.items())
    assert refused > EACH / 10
    assert slowest < LONGEST_S
    assert grown < MOST_GROWN


def test_the_storm_finds_a_parser_that_guesses() -> None:
    """A parser that takes the last of several numbers, and none for a zero, does not come through."""
    golden = Golden("made", Capture({}, {}), (Measurement("value", 2.0, "1/s", "higher"),), ())
    last = (Measurement("value", 3.0, "1/s", "higher"),)
    assert "another number" in judged(golden, mutations.double_lines, last)
    assert judged(golden, mutations.digit, last) == ""
    assert "another schema" in judged(golden, mutations.digit, ())


@pytest.mark.parametrize("name", NAMES)
def test_a_parser_takes_time_in_proportion_to_its_input(name: str) -> None:
    """Runs of one sign, a line that is repeated, and gaps in a line: no pattern goes over them more than once."""
    parse = registry.workload(name).parse
    good = [golden for golden in goldens(name) if golden.places]
    rng = random.Random(f"{SEED} long {name}")
    for _ in range(size(8, 300) if good else 0):
        golden = rng.choice(good)
        step, stream = rng.choice(golden.places)
        kind, data = mutations.inflated(getattr(golden.capture[step], stream), rng)
        changed = replace(golden.capture[step], **{stream: data})
        begin = time.process_time()
        with suppress(*REFUSED):
            parse(Capture({**golden.capture.steps, step: changed}, golden.capture.params))
        assert time.process_time() - begin < LONGEST_S, f"seed {SEED}: {golden.case} {step}.{stream}: {kind}"
