"""The conda environment, the pins and the lock say the same; the test command runs all of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
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


RED = "\x1b[31mFAILED\x1b[0m"  # as pytest writes it for a terminal


@pytest.mark.parametrize(("units", "lab", "status"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (3, 1, 3)])
def test_both_halves_of_the_tests_run_and_the_end_tells_what_failed_in_each(
    units: int, lab: int, status: int, tmp_path: Path
) -> None:
    for name in ("Makefile", "scripts", "lib"):
        (tmp_path / name).symlink_to(ROOT / name)
    log, runner, told = tmp_path / "log", tmp_path / "pytest", (tmp_path / "units", tmp_path / "lab")
    wrong = f"one line\n{RED} lib/tests/a.py::one - first\nERROR lib/tests/a.py::two\n"
    told[0].write_text(wrong if units else "1 passed\n")
    told[1].write_text("another\nFAILED lib/tests/b.py::three - second\n" if lab else "1 passed\n")
    runner.write_text(
        f'#!/bin/sh\necho "$*" >>{log}\n'
        f'case "$*" in *"not lab"*) cat {told[0]}; exit {units};; *) cat {told[1]}; exit {lab};; esac\n'
    )
    runner.chmod(0o755)
    made = subprocess.run(
        ["make", "-o", "env", "-o", "system", "test", f"BIN={tmp_path}", "TESTS="],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},  # of a make around it
    )  # fmt: skip
    assert (made.returncode != 0) == (status != 0)  # make answers 2 whatever a command's status is
    assert f"Error {status}" in made.stderr or not status
    assert [each.split(" -m ")[1].split(" -n")[0] for each in log.read_text().splitlines()] == [
        "not lab and not browser", "lab or browser --durations=30"
    ]  # fmt: skip
    every = "".join(path.read_text() for path in told)
    failed = [line for line in every.splitlines() if "FAILED" in line or "ERROR" in line]
    assert made.stdout.startswith(every)  # as they ran, and once more together where one failed
    heading, *again = made.stdout.removeprefix(every).strip().splitlines() or [""]
    assert heading.startswith("What failed, in both halves") == (status != 0)
    assert again == failed


def test_the_tool_that_installs_the_lock_is_pinned_by_hash() -> None:
    lines = (ROOT / "lib/tools.lock").read_text().splitlines()
    assert re.fullmatch(r"uv==[\d.]+ \\", lines[0])
    assert len(lines) > 1
    assert all("--hash=sha256:" in line for line in lines[1:])
    assert "--require-hashes -r lib/tools.lock" in (ROOT / "scripts/make-env").read_text()
