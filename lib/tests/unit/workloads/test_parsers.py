"""Every parser against captured outputs of the real tool. A new workload needs a folder of cases, no edit here."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench import registry
from infrabench.core import UNITS, Capture, Measurement, NotAsClaimed, ParseError
from tests.support.captures import GOOD, WORKLOADS, case_folders, label, read, with_stdout
from tests.support.checks import check_each
from tests.support.storm import size

REFUSED = (ParseError, NotAsClaimed)  # unparsable, or invalid by the trial's own evidence
SETTINGS = settings(max_examples=size(20, 1000))


def schema(measurements: list[Measurement]) -> list[tuple[str, str, str]]:
    return [(m.metric, m.unit, m.better) for m in measurements]


def test_every_case_belongs_to_a_workload() -> None:
    assert len(WORKLOADS) >= 20
    assert {path.parent.name for path in case_folders()} == set(WORKLOADS)


def test_case_parses_as_expected() -> None:
    def check(folder: Path) -> None:
        capture, about = read(folder)
        parse = registry.workload(folder.parent.name).parse
        if "error" in about["expect"]:
            with pytest.raises(REFUSED) as caught:
                parse(capture)
            assert about["expect"]["error"] in str(caught.value)
            return
        found, expected = list(parse(capture)), [Measurement(*row) for row in about["expect"]["measurements"]]
        assert schema(found) == schema(expected)
        assert [m.value for m in found] == pytest.approx([m.value for m in expected], rel=1e-12)
        assert {m.unit for m in found} <= UNITS
        assert len({m.metric for m in found}) == len(found)
        assert set(capture.params) == set(registry.workload(folder.parent.name).PARAMS)

    check_each(check, case_folders(), label)


@pytest.mark.parametrize("damage", [False, True], ids=["cut", "damaged"])
@pytest.mark.parametrize("folder", GOOD, ids=label)
@SETTINGS
@given(data=st.data())
def test_a_damaged_output_is_refused_or_has_the_same_metrics(folder: Path, damage: bool, data: st.DataObject) -> None:
    """Whatever is cut off changes no number; other bytes anywhere raise nothing but the errors of a parser."""
    capture, _ = read(folder)
    parse = registry.workload(folder.parent.name).parse
    step = data.draw(st.sampled_from(sorted(capture.steps)))
    whole = capture[step].stdout
    # Half of the cuts are near the end, where an output may look whole.
    anywhere, near_the_end = st.integers(0, len(whole)), st.integers(max(0, len(whole) - 4), len(whole))
    place = data.draw(anywhere if damage else st.one_of(anywhere, near_the_end))
    other = data.draw(st.binary(max_size=20)) if damage else b""
    try:
        found = list(parse(with_stdout(capture, step, whole[:place] + other + (whole[place + len(other) :] * damage))))
    except REFUSED:
        return
    assert schema(found) == schema(list(parse(capture)))
    assert damage or found == list(parse(capture))


def test_output_twice_and_output_without_numbers_are_refused() -> None:
    """Two runs in one capture have no one answer; silence and noise have none."""

    def check(folder: Path) -> list[str]:
        capture, _ = read(folder)
        name = folder.parent.name
        measured = [step for step in capture.steps if capture[step].stdout]
        assert measured or name == "null"
        faults = []
        for step in measured:
            for other in (2 * capture[step].stdout, b"", b"\0\xff no numbers here\n"):
                try:
                    registry.workload(name).parse(with_stdout(capture, step, other))
                except ParseError:
                    continue
                faults.append(f"{step} is read with {other[:30]!r}")
        return faults

    check_each(check, GOOD, label)


def test_missing_step_is_named() -> None:
    def check(folder: Path) -> None:
        capture, _ = read(folder)
        with pytest.raises(ParseError, match="is missing"):
            registry.workload(folder.parent.name).parse(Capture({}, capture.params))

    check_each(check, GOOD, label)
