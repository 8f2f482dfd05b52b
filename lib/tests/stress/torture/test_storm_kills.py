"""Kill -9 at random moments of plan, deployment, trial, writing and analysis: nothing is lost, doubled or changed."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.analysis.export import export
from infrabench.analysis.session_data import open_session
from infrabench.core import Study
from infrabench.experiment.execution import runner, session
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.host import LocalHost
from infrabench.stats.contrasts import contrasts
from tests.stress.torture.dens import MARK, alive
from tests.support.analysis_fixtures import read_table
from tests.support.fakes import fake_site, run_session
from tests.support.storm import SEED, size

KILLS = size(6, 200)
PHASES = ("begin", "plan", "deploy", "trial", "write", "analysis", "end")
# Which phase a kill is meant for, how often, and how long it lasts at most (seconds).
MOMENTS = {"plan": (1, 0.004), "deploy": (2, 0.3), "trial": (4, 0.12), "write": (3, 0.002), "analysis": (2, 0.08)}
LONGEST_S = 120.0
TABLES = ("table.csv", "table.parquet")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session of the storm lives."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / "runs" / self.name

    @property
    def out(self) -> Path:
        return self.root / "out" / self.name


def live(place: Place, phase: Synchronized[int]) -> None:
    """Do what `infrabench run` and `infrabench session show` do, and tell in `phase` what is being done."""

    def during(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(do)
        def done(*words: Any, **named: Any) -> Any:
            before, phase.value = phase.value, PHASES.index(name)
            try:
                return do(*words, **named)
            finally:
                phase.value = before

        return done

    real = session.deployed

    @contextmanager
    def deployed(*words: Any, **named: Any) -> Iterator[Any]:
        phase.value = PHASES.index("deploy")
        with real(*words, **named) as fleet:
            yield fleet

    session.deployed = deployed
    runner.execute_turns = during("trial", runner.execute_turns)
    for name in ("begin", "append_trial", "append_file"):
        setattr(SessionFolder, name, during("write", getattr(SessionFolder, name)))
    phase.value = PHASES.index("plan")
    site = fake_site(LocalHost("here"), home=str(place.root / "dens"))
    run_session(registry.study("storm"), place.folder, site, profile="storm")
    phase.value = PHASES.index("analysis")
    opened = open_session(place.folder)
    for name in TABLES:
        export(opened, name.partition(".")[2], place.out / name)
    contrasts(opened.table, "den-one", {"": 0.02}, [("count", "value")])
    phase.value = PHASES.index("end")


def started(place: Place, mark: str) -> tuple[Any, Synchronized[int]]:
    context = multiprocessing.get_context("fork")
    phase = context.Value("i", 0, lock=False)

    def body() -> None:
        os.environ |= {MARK: mark, "TMPDIR": str(place.root / "tmp")}
        tempfile.tempdir = None
        try:
            live(place, phase)
        except BaseException:
            (place.root / "said").write_text(traceback.format_exc())
            raise

    child = context.Process(target=body)
    child.start()
    return child, phase


def draw_phases(rng: random.Random) -> Iterator[str]:
    """Yield which phase each kill is meant for: all of them first, then by their weights."""
    yield from rng.sample(list(MOMENTS), len(MOMENTS))
    while True:
        yield rng.choices(list(MOMENTS), [weight for weight, _ in MOMENTS.values()])[0]


def killed_in(place: Place, mark: str, meant: str, rng: random.Random) -> str | None:
    """Run the session, kill it at a random moment, and return the phase that was hit; None when it was over before."""
    child, phase = started(place, mark)
    # Not always the first trial and the first write.
    not_before = time.monotonic() + (rng.uniform(0, 2.5) if meant in ("trial", "write") else 0)
    deadline = time.monotonic() + LONGEST_S
    while child.is_alive() and time.monotonic() < deadline:
        if phase.value == PHASES.index(meant) and time.monotonic() >= not_before:
            time.sleep(rng.uniform(0, MOMENTS[meant][1]))
            break
        time.sleep(0.0003)
    child.kill()
    child.join(LONGEST_S)
    if child.exitcode == -signal.SIGKILL:
        return PHASES[phase.value]
    assert child.exitcode == 0, (place.root / "said").read_text()
    return None


def stored(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of every recorded trial."""
    if not folder.exists():
        return {}
    names = [path for trial in records.recorded(folder) for path in sorted((folder / "trials" / trial).iterdir())]
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in names}


def raw(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return what every trial is and measured, by id."""
    found = [records.read_trial(folder, name) for name in records.recorded(folder)]
    return {
        each.trial.id: (
            each.trial,
            each.state,
            each.measurements,
            (folder / "trials" / each.trial.id / "tool.stdout").read_bytes(),
        )
        for each in found
    }


@pytest.fixture
def root(tmp_path: Path, storm: Study) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


def test_a_run_that_is_killed_at_any_moment_loses_doubles_and_changes_nothing(root: Path) -> None:
    rng, mark = random.Random(SEED), f"kills-{os.getpid()}"
    calm = Place(root, "calm")
    child, _ = started(calm, mark)
    child.join(LONGEST_S)
    assert child.exitcode == 0, (root / "said").read_text()
    expected, plan = raw(calm.folder), (calm.folder / records.PLAN).read_bytes()
    hit: Counter[str] = Counter()
    sessions, meant = 0, draw_phases(rng)
    while sum(hit.values()) < KILLS:
        place, before = Place(root, f"storm-{sessions}"), dict[str, str]()
        while (phase := killed_in(place, mark, next(meant), rng)) is not None:
            hit[phase] += 1
            now = stored(place.folder)
            assert before.items() <= now.items(), f"seed {SEED}: what was recorded was lost or changed"
            before = now
            if place.folder.exists():
                assert records.verify(place.folder) == []
                assert (place.folder / records.PLAN).read_bytes() == plan
            for name in TABLES:
                if (place.out / name).exists():  # whole or not there
                    assert len(read_table(place.out / name)) == len(expected)
            if sum(hit.values()) >= KILLS:
                child, _ = started(place, mark)
                child.join(LONGEST_S)
                assert child.exitcode == 0, (root / "said").read_text()
                break
        sessions += 1
        assert before.items() <= stored(place.folder).items()
        assert raw(place.folder) == expected  # the same trials, at the same places, with the same output
        assert (place.folder / records.PLAN).read_bytes() == plan
        assert records.verify(place.folder) == []
        found = sorted(records.read_trials(place.folder), key=lambda each: each.started_utc)
        assert [each.trial.position for each in found] == sorted(each.trial.position for each in found)
        listed = (place.folder / "SHA256SUMS").read_text().splitlines()
        assert len(listed) == len(set(listed))
        assert sum("  trials/" in line for line in listed) == len(expected)
        assert not list(place.folder.rglob(".tmp-*"))
    time.sleep(0.5)
    assert alive(mark) == []
    assert not list((root / "dens").iterdir())
    assert not list((root / "tmp").iterdir())
    assert not list((root / "runs").glob(".tmp-*"))
    assert len(hit) >= 3, f"too few phases were hit: {hit}"
