"""The conda environment, the pins and the lock say the same; the test command runs all of the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT, TESTS

OWN = "infrabench["  # an extra of ours that takes another one in
# conda-forge's name where it is not PyPI's.
CONDA = {"matplotlib-base": "matplotlib"}


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "lib/pyproject.toml").read_text())["project"]


def _direct() -> dict[str, str]:
    project = _project()
    extras = [pins for name, pins in project["optional-dependencies"].items() if name != "go"]
    pins = [*project["dependencies"], *(pin for extra in extras for pin in extra if not pin.startswith(OWN))]
    return dict(pin.partition(";")[0].split("==") for pin in pins)


def test_every_direct_dependency_is_pinned() -> None:
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in _direct().values())


def test_conda_environment_has_the_same_packages_and_versions() -> None:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    packages = dict(entry.split("=", 1) for entry in listed if isinstance(entry, str) and "=" in entry)
    assert f"Programming Language :: Python :: {packages.pop('python')}" in _project()["classifiers"]
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
    """Run a command as from a fresh shell: make, which may run these tests, exports what it was given."""
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


def _python(folder: Path, name: str, version: str, *, supported: bool = True, complete: bool = True) -> None:
    """Write what answers as a Python of this version; it makes no environment."""
    _program(
        folder / "bin" / name,
        f'case "$*" in *version_info*) echo {version} /opt; exit {int(not supported)};; '
        f'*ensurepip*) exit {int(not complete)};; esac; echo "$@"; exit 7',
    )


def _make_env(folder: Path, **environment: str) -> str:
    """Run scripts/make-env in a checkout with no Pythons on the search path but those of `folder`; return its words."""
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("bash", "sh", "df", "tail", "mkdir", "seq", "sed", "id", "cat", "rm"):
        if not (folder / "bin" / name).exists():
            (folder / "bin" / name).symlink_to(shutil.which(name) or name)
    for name in ("lib", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [f"{folder}/bin/bash", "scripts/make-env", "env"],
        cwd=folder, capture_output=True, text=True, check=False, env={"PATH": f"{folder}/bin", **environment},
    )  # fmt: skip
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_the_environment_is_made_with_the_newest_python_that_can(tmp_path: Path) -> None:
    _python(tmp_path, "python3.14", "3.14.0", complete=False)
    _python(tmp_path, "python3.13", "3.13.0", supported=False)  # as a version manager's name of one that is not chosen
    _python(tmp_path, "python3.12", "3.12.1")
    _python(tmp_path, "python3", "3.11.2")
    said = _make_env(tmp_path)
    assert "in env with Python 3.12.1" in said
    assert "-m venv --without-pip env" in said


@pytest.mark.parametrize(
    ("made_at", "version", "kept"),
    [
        ("{}", "3.12.1", True), ("", "3.12.1", True), ("/elsewhere", "3.12.1", False), ("{}", "3.12.0", False),
        ("{}", None, False),
    ],
    ids=["made here", "not finished", "of a copied checkout", "of another Python", "of a Python that is gone"],
)  # fmt: skip
def test_an_environment_that_is_not_of_this_place_and_python_is_made_anew(
    made_at: str, version: str | None, kept: bool, tmp_path: Path
) -> None:
    _python(tmp_path, "python3.12", "3.12.1")
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/.made").write_text(made_at.format(tmp_path))
    os.utime(tmp_path / "env/.made", (0, 0))  # before the lock was written
    if version is None:
        (tmp_path / "env/bin/python").symlink_to("/no/such/python")
    else:
        _python(tmp_path / "env", "python", version)
    _make_env(tmp_path, PYTHON=f"{tmp_path}/bin/python3.12")
    assert (tmp_path / "env/.made").exists() == kept


def test_an_environment_is_kept_where_the_checkout_is_entered_through_a_link(tmp_path: Path) -> None:
    _python(tmp_path, "python3.12", "3.12.1")
    _python(tmp_path / "env", "python", "3.12.1")
    (tmp_path / "env/.made").write_text(str(tmp_path.resolve()))
    os.utime(tmp_path / "env/.made", (0, 0))  # before the lock was written
    (tmp_path / "link").symlink_to(tmp_path)
    _make_env(tmp_path, PYTHON=f"{tmp_path}/bin/python3.12", PWD=f"{tmp_path}/link")
    assert (tmp_path / "env/.made").exists()


def test_a_python_that_makes_no_environment_is_told_with_its_package(tmp_path: Path) -> None:
    _python(tmp_path, "python3.12", "3.12.3", complete=False)
    assert "apt-get install python3.12-venv" in _make_env(tmp_path)


def test_without_a_python_of_ours_the_way_out_is_named(tmp_path: Path) -> None:
    _python(tmp_path, "python3", "3.10.1", supported=False)
    for environment, words in (({}, "finds none on the search path"), ({"PYTHON": "python3"}, "(3.10.1 /opt)")):
        folder = tmp_path / words[1:5]
        shutil.copytree(tmp_path / "bin", folder / "bin")
        said = _make_env(folder, **environment)
        assert words in said
        assert "make PYTHON=/path/to/python3" in said


def test_a_full_disk_is_told_before_anything_is_made(tmp_path: Path) -> None:
    _python(tmp_path, "python3.12", "3.12.1")
    _program(tmp_path / "bin/df", "echo Avail; echo 1048576")
    said = _make_env(tmp_path)
    assert "takes 2000 MiB, and 1024 MiB are free" in said
    assert "-m venv" not in said


GO = _project()["optional-dependencies"]["go"][0]


@pytest.mark.parametrize(
    ("lock", "pin", "installer"),
    [("tools.lock", r"uv==[\d.]+", "make-env"), ("go.lock", re.escape(GO), "system-packages")],
)
def test_what_installs_the_lock_and_what_builds_are_pinned_by_hash(lock: str, pin: str, installer: str) -> None:
    lines = (ROOT / "lib" / lock).read_text().splitlines()
    assert re.fullmatch(rf"{pin} \\", lines[0])
    assert len(lines) > 1
    assert all("--hash=sha256:" in line for line in lines[1:])
    assert f"--require-hashes -r lib/{lock}" in (ROOT / "scripts" / installer).read_text()
