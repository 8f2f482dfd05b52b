"""Session folders in wrong hands: two runs at once, damaged files, a later version's, and clocks that are set."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from contextlib import suppress
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.analysis.tidy import tidy
from infrabench.core import InfrabenchError, LedgerError, SiteError, wait
from infrabench.experiment.execution import blocks, trial
from infrabench.experiment.execution.reparse import check_plan
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.host import LocalHost
from tests.stress.torture import strangers
from tests.stress.torture.dens import MARK, alive
from tests.support import mutations
from tests.support.dataset_sessions import contents as files
from tests.support.fakes import fake_site, run_session, stop_after
from tests.support.stored_sessions import reseal
from tests.support.storm import SEED, size

pytestmark = pytest.mark.usefixtures("storm")


def run(folder: Path, **more: Any) -> Path:
    site = fake_site(LocalHost("here"), home=str(folder.parent.parent / "dens"))
    return run_session(registry.study("storm"), folder, site, profile="storm", **{"runs": 1, **more})


# ------------------------------------------------------------------------------------------------- two runs at once


RUNS, HELD = 5, 20  # of 30 trials; after so many the first run waits, so that it has not ended when the second comes


def in_background(folder: Path, mark: str) -> Any:
    def hold(progress: Any) -> None:
        while progress.done >= HELD:
            time.sleep(1)

    def body() -> None:
        os.environ[MARK] = mark
        run(folder, runs=RUNS, on_progress=hold)

    child = multiprocessing.get_context("fork").Process(target=body)
    child.start()
    return child


@pytest.mark.parametrize("moment", ["deploying", "measuring"])
def test_a_second_run_is_refused_and_touches_nothing_of_the_first(tmp_path: Path, moment: str) -> None:
    folder, mark = tmp_path / "runs/s", f"two-{moment}-{os.getpid()}"
    child = in_background(folder, mark)
    try:
        dens = tmp_path / "dens"
        begun = (dens, "*/pid") if moment == "deploying" else (folder, "trials/[!.]*")
        assert wait.until(lambda: list(begun[0].glob(begun[1])), 60, 0.01)
        keepers = {path: path.read_text() for path in dens.glob("*/pid")}
        begin = time.monotonic()
        with pytest.raises(LedgerError, match="is being written by another run"):
            run(folder, runs=RUNS)
        assert time.monotonic() - begin < 5
        # The first one's systems are still there: they were not taken for leftovers.
        assert {path: path.read_text() for path in keepers} == keepers
        assert child.is_alive()
    finally:
        child.kill()
        child.join()
    # The lock of a dead process is no lock, whatever its id is now.
    run(folder, runs=RUNS)
    assert records.verify(folder) == []
    assert {each.state for each in records.read_trials(folder)} == {"ok"}
    assert len(records.recorded(folder)) == 6 * RUNS
    assert alive(mark) == []
    assert [path.name for path in folder.parent.iterdir()] == ["s"]


# ------------------------------------------------------------------------------------------------- other versions


def test_a_session_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    folder = run(tmp_path / "runs/s")
    data = json.loads((folder / "session.json").read_text()) | {"format": 2, "unheard_of": {}}
    reseal(folder, "session.json", json.dumps(data).encode())
    before = files(folder)
    for use in (
        lambda: run(folder),
        lambda: tidy(folder),
        lambda: records.read_session(folder),
        lambda: SessionFolder(folder).recover(),
    ):
        with pytest.raises(LedgerError, match=r"format 2.*reads 1"):
            use()
    assert any("format 2" in problem for problem in records.verify(folder))
    assert files(folder) == before


# ------------------------------------------------------------------------------------------------- damaged files


def is_only_behind(sums: bytes, whole: bytes) -> bool:
    """Tell whether sums lack only lines, or the end of the last one, of files that prove themselves, or are JSON.

    A trial has sums of its own. That the session and its plan are named is always asked for.
    """
    *lines, last = sums.split(b"\n")
    known = whole.split(b"\n")
    named = b"\n".join(lines)
    is_part = any(line.startswith(last) for line in known)
    return (
        is_part and len(lines) == len({*lines} & {*known}) and b"  session.json" in named and b"  plan.jsonl" in named
    )


def test_a_damaged_file_is_named_and_never_gives_a_number(tmp_path: Path) -> None:
    """Whatever happens to one file: `session verify` names it, no run goes on, and the table is the same or refused."""
    folder, rng = run(tmp_path / "runs/s"), random.Random(SEED)
    whole, table = files(folder), tidy(folder)
    kinds = (*mutations.FAITHFUL, *mutations.LOOSE, mutations.deep)
    for _ in range(size(150, 4000)):
        name, kind = rng.choice(sorted(whole)), rng.choice(kinds)
        data = kind(whole[name], rng) if whole[name] else b"x"
        # The order of the sums says nothing.
        if data == whole[name] or (
            name == "SHA256SUMS" and sorted(data.splitlines()) == sorted(whole[name].splitlines())
        ):
            continue
        (folder / name).write_bytes(data)
        found = records.verify(folder)
        torn = name == "SHA256SUMS" and is_only_behind(data, whole[name])  # what a kill may leave, and is mended
        if not torn:
            assert found, f"{name} {kind.__name__}"
            assert any(part in problem for problem in found for part in (name, "SHA256SUMS", name.split("/")[-1])), (
                name,
                found,
            )
            with pytest.raises(LedgerError):  # a session that is complete is not written to
                run(folder)
        with suppress(InfrabenchError):
            assert tidy(folder).equals(table), f"{name} {kind.__name__}: another table"
        (folder / name).write_bytes(whole[name])
        assert torn or files(folder) == whole  # nothing was mended by guessing
        if torn:
            for path, content in whole.items():
                (folder / path).write_bytes(content)
    assert records.verify(folder) == []


# What a session says of itself that does not follow from what it was asked for, and that no estimate is made of.
FREE = {"title", "versions", "created_utc", "known", "aa"}


def another(value: Any, rng: random.Random) -> Any:
    """Return a value of the same kind that is not this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + rng.choice((-1, 1, 0.5, 1e6))
        case str():
            return rng.choice((f"{value}x", value[:-1] or "x", "native"))
        case list():
            return rng.choice((value[:-1], value[::-1])) if len(value) > 1 and value != value[::-1] else [*value, "x"]
        case dict():
            name = rng.choice([*value, "x"])
            return {key: each for key, each in value.items() if key != name} | ({"x": 1} if name == "x" else {})
    return 1


def test_an_edit_of_what_was_asked_for_is_found_although_sums_are_right(tmp_path: Path) -> None:
    folder, rng = run(tmp_path / "runs/s"), random.Random(SEED)
    assert [*records.verify(folder), *check_plan(SessionFolder(folder))] == []
    whole, sums = files(folder), (folder / "SHA256SUMS").read_bytes()
    for number in range(size(150, 5000)):
        name = rng.choice(("session.json", "session.json", "plan.jsonl"))
        lines = whole[name].splitlines() if name == "plan.jsonl" else [whole[name]]
        chosen = rng.randrange(len(lines))
        data = json.loads(lines[chosen])
        place = rng.choice([each for each in strangers.fields(data) if each[0] not in FREE])
        then = reduce(lambda part, key: part[key], place, data)
        now = another(then, rng)
        edited = strangers.replaced(data, place, now)
        if edited == data:
            continue
        lines[chosen] = json.dumps(edited).encode()
        reseal(folder, name, b"\n".join(lines) + b"\n")
        about = f"seed {SEED}, {number}: {name} {place}: {str(then)[:60]!r} is {str(now)[:60]!r} now"
        assert records.verify(folder) or check_plan(SessionFolder(folder)), about
        (folder / name).write_bytes(whole[name])
        (folder / "SHA256SUMS").write_bytes(sums)
    assert files(folder) == whole


# ------------------------------------------------------------------------------------------------- clocks


YEAR_S = 31556952.0


class SetClock(SimpleNamespace):
    """The module `time`, whose wall clock is set while the monotonic one goes on."""

    offset_s = 0.0


def set_clock_in_third_trial(monkeypatch: pytest.MonkeyPatch, step_s: float) -> None:
    clock = SetClock(monotonic=time.monotonic, sleep=time.sleep)
    clock.time = lambda: time.time() + clock.offset_s
    monkeypatch.setattr(trial, "time", clock)
    real = trial.parse_capture

    def parsed(*words: Any) -> Any:
        if clock.parsed == 2:
            clock.offset_s += step_s
        clock.parsed += 1
        return real(*words)

    clock.parsed = 0
    monkeypatch.setattr(trial, "parse_capture", parsed)


def test_a_clock_that_is_set_far_ahead_is_a_machine_that_slept_and_its_block_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock_in_third_trial(monkeypatch, YEAR_S)
    with pytest.raises(SiteError, match="or the clock set"):
        run(tmp_path / "runs/s", runs=2)
    folder = run(tmp_path / "runs/s", runs=2)
    assert records.verify(folder) == []
    assert len(records.read_blocks(folder, records.DISCARDED)) == 1


@pytest.mark.parametrize("step_s", [-YEAR_S, -2.0, 2.0])
def test_a_clock_that_is_set_in_a_trial_makes_it_invalid_and_changes_no_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    set_clock_in_third_trial(monkeypatch, step_s)
    folder = run(tmp_path / "runs/s", runs=2)
    found = records.read_trials(folder)
    invalid = [each for each in found if each.state == "invalid"]
    assert len(invalid) == 1
    assert "clock was set by" in invalid[0].reason
    assert invalid[0].conditions["clock_stepped_s"] == pytest.approx(step_s, abs=0.5)
    assert all(0 < each.tool_s <= each.duration_s < 30 for each in found)
    again = [each for each in found if each.trial.attempt]
    assert [(each.trial.scenario, each.state) for each in again] == [(invalid[0].trial.scenario, "ok")]
    order = [each.trial.position for each in found]
    assert order == sorted(order)
    assert records.verify(folder) == []
    assert len(tidy(folder)) == len(found)


@pytest.mark.parametrize("jumps_s", [(YEAR_S, -YEAR_S), (-YEAR_S, 0.0), (-3600.0, -3600.0)])
def test_a_clock_that_jumps_between_trials_changes_neither_order_nor_durations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jumps_s: tuple[float, float]
) -> None:
    clock = SetClock(monotonic=time.monotonic, sleep=time.sleep)
    clock.time = lambda: time.time() + clock.offset_s
    monkeypatch.setattr(trial, "time", clock)

    def jump(progress: Any) -> None:
        clock.offset_s += jumps_s[progress.done % 2]

    folder = run(tmp_path / "runs/s", runs=2, on_progress=jump)
    found = records.read_trials(folder)
    assert {each.state for each in found} == {"ok"}
    assert len({each.started_utc[:4] for each in found}) > 1 or abs(jumps_s[0]) < YEAR_S
    assert [each.trial.position for each in found] == [*range(len(found))]
    assert all(0 < each.tool_s <= each.duration_s < 30 for each in found)
    assert records.verify(folder) == []
    assert [*dict.fromkeys(tidy(folder)["trial"])] == [each.trial.id for each in found]


@pytest.mark.parametrize(("gone_s", "discards"), [(60.0, 0), (-0.5, 0), (7200.0, 1), (-7200.0, 1)])
def test_an_interruption_whose_length_the_clock_cannot_tell_spoils_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone_s: float, discards: int
) -> None:
    folder = tmp_path / "runs/s"
    with pytest.raises(KeyboardInterrupt):
        run(folder, on_progress=stop_after(2))
    last = max(records.read_trials(folder), key=lambda each: each.started_utc)
    ended = blocks.datetime.fromisoformat(last.started_utc).timestamp() + last.duration_s

    class Later(blocks.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return blocks.datetime.fromtimestamp(ended + gone_s, tz)

    with monkeypatch.context() as patch:
        patch.setattr(blocks, "datetime", Later)
        run(folder)
    said = SessionFolder(folder).discarded
    assert len(said) == discards
    if gone_s < -1:
        assert "set back by 7200 s" in said[0]
    assert records.verify(folder) == []
