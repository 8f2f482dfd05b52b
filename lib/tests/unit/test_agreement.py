"""The parts of a session are held against each other: an edit is found although every sum was mended."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.cli.session import verify
from infrabench.core import LedgerError, Trial, canonical, digest, trial_id
from infrabench.experiment.execution.reparse import check_plan
from infrabench.ledger import catalogue, records
from infrabench.ledger.session_folder import SessionFolder
from tests.support.fakes import PLUGINS, run_session
from tests.unit.test_code import seal

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(registry.VARIABLE, str(PLUGINS))
        folder = tmp_path_factory.mktemp("whole") / "s"
        yield run_session(registry.study("fakes"), folder, runs=2)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "s"))


def refused(folder: Path) -> str:
    """Return what `session verify` says of a session whose sums were all mended."""
    seal(folder)
    with pytest.raises(LedgerError) as caught:
        list(verify(Namespace(sessions=[str(folder)])))
    return str(caught.value)


def change_trials(folder: Path, change: Change, select: Callable[[Trial], bool] = lambda trial: True) -> None:
    """Change planned trials, and the records and folders of the same trials with them."""
    planned = []
    for trial in records.read_plan(folder):
        data = trial.as_json()
        if select(trial):
            change(data)
            own = folder / "trials" / trial.id
            record = json.loads((own / "trial.json").read_text()) | {"trial": data}
            (own / "trial.json").write_text(json.dumps(record))
            own.rename(own.with_name(data["id"]))
        planned.append(canonical(data))
    (folder / "plan.jsonl").write_text("".join(f"{each}\n" for each in planned))


def test_a_session_that_was_sealed_anew_without_a_change_is_sound(folder: Path) -> None:
    seal(folder)
    (told,) = verify(Namespace(sessions=[str(folder)]))
    assert "every file is as recorded" in told


def both(name: str, value: Any) -> Change:
    """Change what was asked for and what the session says of itself alike."""

    def change(data: dict[str, Any]) -> None:
        data[name] = data["parameters"][name] = value

    return change


def everything(name: str, value: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        both(name, value)(data)
        data["parameters_sha256"] = digest(data["parameters"], 64)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data["margins"].update({"": 0.5}), "its margins is not the one of its parameters"),
        (lambda data: data.update(margins={"": 0.02, "value": 0.5}), "its margins is not"),
        (lambda data: data.update(primary=[]), "its primary is not"),
        (lambda data: data.update(baseline="fake-other"), "its baseline is not"),
        (lambda data: data["guards"].update(steal_share=0.5), "its guards is not"),
        (lambda data: data.update(seed=99), "its seed is not"),
        (lambda data: data.update(systems=data["systems"][::-1]), "its systems is not"),
        (lambda data: data.update(systems=["fake-base"]), "its systems are not those that were asked for"),
        (lambda data: data.update(not_run={"fake-other": "gone"}), "its systems are not those that were asked for"),
        (both("margins", {"": 0.5}), "parameters_sha256"),
        (both("seed", 99), "parameters_sha256"),
        (everything("margins", {"": 0.5}), "was made with code, or parameters, that the session does not name"),
        (everything("primary", []), "was made with code, or parameters,"),
        (everything("seed", 99), "has the id of another one"),
        (lambda data: data.pop("parameters_sha256"), "parameters_sha256"),
        (lambda data: data["parameters"].pop("seed"), "parameters_sha256"),
        (lambda data: data.update(code={}), "was made with code, or parameters,"),
        (lambda data: data.update(code=["measurement"]), "code is ['measurement'], which no session has"),
        (lambda data: data.pop("margins"), "its margins is missing, which its parameters have"),
        (lambda data: data.pop("primary"), "its primary is missing"),
        (lambda data: data.pop("guards"), "its guards is missing"),
        (lambda data: data.pop("systems"), "its systems is missing"),
        (lambda data: data.update(not_run={"podman": "gone"}), "its not_run names podman, which its parameters"),
        (lambda data: data.update(left_out={"web": "gone"}), "its left_out names web"),
        (lambda data: data.update(parameters=[1]), "parameters is [1], which no session has"),
    ],
)  # fmt: skip
def test_an_edit_of_what_a_session_says_of_itself_is_found(folder: Path, change: Change, named: str) -> None:
    data = json.loads((folder / "session.json").read_text())
    change(data)
    (folder / "session.json").write_text(json.dumps(data))
    assert named in refused(folder)


def first_block(trial: Trial) -> bool:
    return trial.block == 0


def test_an_edit_of_a_trials_parameters_is_found(folder: Path) -> None:
    change_trials(folder, lambda data: data["params"].update(value=7.0), first_block)
    assert "has the id of another one" in refused(folder)


def test_a_trial_that_was_given_to_another_system_is_found_also_with_the_right_id(folder: Path) -> None:
    def exchange(data: dict[str, Any]) -> None:
        data["scenario"] = "value=1" if data["scenario"] == "value=2" else "value=2"
        data["id"] = trial_id("fakes", json.loads((folder / "session.json").read_text())["seed"], Trial(**data))

    change_trials(folder, exchange, lambda trial: trial.block == 1)
    assert "block 1 of the plan is not the one that follows" in refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(position=3 - data["position"]),
        lambda data: data.update(level=9.0),
        lambda data: data.update(factor="other"),
        lambda data: data.update(deployment=1),
        lambda data: data.update(seconds=9.0),
    ],
)
def test_an_edit_of_the_plan_that_no_id_has_is_found(folder: Path, change: Change) -> None:
    change_trials(folder, change, first_block)
    assert "block 0 of the plan is not the one that follows from what was asked for" in refused(folder)


def test_a_block_that_was_dropped_or_added_is_found(folder: Path) -> None:
    planned = records.read_plan(folder)
    dropped = [trial for trial in planned if trial.block == 1]
    for trial in dropped:
        shutil.rmtree(folder / "trials" / trial.id)
    lines = (folder / "plan.jsonl").read_text().splitlines(keepends=True)
    (folder / "plan.jsonl").write_text("".join(lines[: len(planned) - len(dropped)]))
    assert "block 1 of the plan is not the one that follows" in refused(folder)
    (folder / "blocks/00001-extra.jsonl").write_text("".join(lines[len(planned) - len(dropped) :]))
    seal(folder)
    assert check_plan(SessionFolder(folder)) == []  # the same block, whichever file it is in
    extra = [{**trial.as_json(), "block": 2, "position": trial.position + 4} for trial in dropped]
    seed = records.read_session(folder)["seed"]
    text = "".join(f"{canonical({**each, 'id': trial_id('fakes', seed, Trial(**each))})}\n" for each in extra)
    (folder / "blocks/00002-extra.jsonl").write_text(text)
    assert "block 2 of the plan is not the one that follows" in refused(folder)  # nothing says why it was added


@pytest.mark.parametrize("name", sorted(catalogue.recorded()))
def test_the_plan_of_a_recorded_session_follows_from_what_was_asked_for(name: str) -> None:
    assert check_plan(SessionFolder(catalogue.find(None, name))) == []
