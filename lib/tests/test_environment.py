"""The conda environment, the project's pins and the lock say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

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
