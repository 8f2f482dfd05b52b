"""The conda environment, the pins and the lock say the same; the test command runs all of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.places import ROOT, TESTS

OWN = "infrabench["  # an extra of ours that takes another one in
# conda-forge's name where it is not PyPI's.
CONDA = {"docker-py": "docker", "matplotlib-base": "matplotlib"}


def _direct() -> dict[str, str]:
    project = tomllib.loads((ROOT / "lib/pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    pins = [*project["dependencies"], *(pin for extra in extras for pin in extra if not pin.startswith(OWN))]
    return dict(pin.split("==") for pin in pins)


def test_every_direct_dependency_is_pinned() -> None:
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in _direct().values())


def test_conda_environment_has_the_same_packages_and_versions() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    packages = dict(entry.split("=", 1) for entry in listed if isinstance(entry, str) and "=" in entry)
    assert packages.pop("python") == "3.11"
    found = {CONDA.get(name, name): version for name, version in packages.items()}
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    found |= dict(entry.split("==") for entry in pip if "==" in entry)
    assert found == _direct()


def test_lock_has_the_pins_and_a_hash_for_everything() -> None:
    text = (ROOT / "lib/requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9.-]+)==([^ ;\\]+)", text, re.MULTILINE))
    assert {name: locked.get(name) for name in _direct()} == _direct()
    assert text.count("==") <= text.count("--hash=")
    assert "://" not in text  # no index is written down: whoever installs uses theirs


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command as from a fresh shell: these tests may themselves be run by make, which exports what it was given."""
    path = f"{folder}/bin:{os.environ['PATH']}"
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, env={"PATH": path})


@pytest.mark.parametrize("red", [(), ("lab",), ("browser", "stress")])
def test_all_tiers_run_and_each_is_told_with_its_status(red: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    (tmp_path / "lib").symlink_to(ROOT / "lib")
    for name in ("scripts/make-env", "scripts/system-packages"):
        _program(tmp_path / name, "exit 0")
    wanted = " ".join(f"lib/tests/{tier}) exit 1;;" for tier in red)
    _program(tmp_path / ".venv/bin/pytest", f'echo "ran $*"\ncase "$1" in {wanted} esac')
    done = _run(tmp_path, "make", "test-all")
    lines = done.stdout.splitlines()
    folders = [re.findall(r"lib/tests/(\w+)", line) for line in lines if line.startswith("ran ")]
    assert folders == [["unit", "notebooks"], ["lab"], ["browser"], ["stress"]]
    assert lines[-4:] == [
        f"{name:<14} {'failed (2)' if name.removeprefix('test-') in red else 'passed'}"
        for name in ("test", "test-lab", "test-browser", "test-stress")
    ]
    assert (done.returncode == 0) == (not red)


@pytest.mark.parametrize(
    ("first", "second", "status"), [(0, 9, 0), (2, 0, 0), (2, 1, 1)], ids=["green", "flaky", "red"]
)
def test_the_gate_runs_once_more_what_failed_and_names_it(first: int, second: int, status: int, tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").symlink_to(ROOT / ".ci/run")
    failed = "FAILED lib/tests/a.py::one - first"
    _program(tmp_path / "bin/make", f'echo "{failed if first else "1 passed"}"; exit {first}')
    _program(tmp_path / ".venv/bin/pytest", f'echo "pytest $*"; exit {second}')
    done = _run(tmp_path, "bash", f"{tmp_path}/.ci/run")
    assert done.returncode == status
    again = "pytest lib/tests/unit lib/tests/notebooks --last-failed --last-failed-no-failures none"
    assert (again in done.stdout) == (first != 0)
    assert done.stdout.endswith(f"lib/tests/stress:\n{failed}\n") == (first != 0 and second == 0)


def test_every_test_is_in_the_folder_of_a_tier() -> None:
    """One that is elsewhere would be run by nobody."""
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders == {"unit", "notebooks", "lab", "browser", "stress"}
    assert all((TESTS / folder / "conftest.py").exists() for folder in folders)


def test_the_tool_that_installs_the_lock_is_pinned_by_hash() -> None:
    lines = (ROOT / "lib/tools.lock").read_text().splitlines()
    assert re.fullmatch(r"uv==[\d.]+ \\", lines[0])
    assert len(lines) > 1
    assert all("--hash=sha256:" in line for line in lines[1:])
    assert "--require-hashes -r lib/tools.lock" in (ROOT / "scripts/make-env").read_text()
