"""Licences of everything that the lock names, as the installed packages state them."""

from __future__ import annotations

import contextlib
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pandas as pd
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

RUN, DEVELOP = "run time", "development"
PINNED = re.compile(r"^[A-Za-z0-9._-]+==[^\\\n]+", re.MULTILINE)
FILE = re.compile(r"\.dist-info/(licenses/)?LICEN[CS]E(\.\w+)?$")
CLASSIFIER = "License :: "
LONG = 80  # some packages put the whole text of a licence where its name belongs


def table(lib: Path) -> pd.DataFrame:
    """Return one row per locked package: package, version, licence, and whether running needs it or only development.

    `lib`: the folder of ``pyproject.toml`` and ``requirements.lock``. A package that is not installed here says so.
    """
    needed = at_run_time(lib)
    rows = [
        {"package": name, "version": version, "licence": licence(name), "for": RUN if name in needed else DEVELOP}
        for name, version in sorted(locked(lib).items())
    ]
    return pd.DataFrame(rows, dtype="str")


def locked(lib: Path) -> dict[str, str]:
    """Return the locked version of every package that this Python and system need, by its canonical name."""
    text = (lib / "requirements.lock").read_text(encoding="utf-8")
    pins = [Requirement(pin) for pin in PINNED.findall(text)]
    needed = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    return {str(canonicalize_name(pin.name)): str(pin.specifier).removeprefix("==") for pin in needed}


def at_run_time(lib: Path) -> frozenset[str]:
    """Return the packages that running needs: the direct dependencies, and what they need, without extras of ours."""
    project = tomllib.loads((lib / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [Requirement(each) for each in project["dependencies"]]
    found: dict[str, set[str]] = {}
    while waiting:
        needed = waiting.pop()
        name, extras = str(canonicalize_name(needed.name)), {"", *needed.extras}
        fresh = extras - found.get(name, set())
        if fresh:
            found.setdefault(name, set()).update(fresh)
            with contextlib.suppress(metadata.PackageNotFoundError):
                waiting += [
                    each
                    for each in map(Requirement, metadata.requires(name) or [])
                    if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in fresh)
                ]
    return frozenset(found)


def licence(name: str) -> str:
    """Return the licence that an installed package states: expression, classifiers, short text, or its licence file."""
    try:
        stated = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed here"
    classified = [each for each in stated.get_all("Classifier", []) if each.startswith(CLASSIFIER)]
    named = [name for each in classified if (name := each.rpartition(" :: ")[2]) != "OSI Approved"]
    text = (stated.get("License") or "").strip()
    short = text.splitlines()[0][:LONG] if text else ""
    if told := stated.get("License-Expression") or "; ".join(named) or short:
        return told
    texts = [each.read_text() for each in metadata.files(name) or [] if FILE.search(each.as_posix())]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return lines[0][:LONG] if lines else "not stated"
