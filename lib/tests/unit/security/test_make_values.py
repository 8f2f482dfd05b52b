"""Values that are given to make are read as code neither by make nor by a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.places import ROOT

TIERS = ("test", "test-lab", "test-browser", "test-stress")
# Target -> the values that it takes, and the program that gets them; one that is not named here takes none.
TAKES = {
    "run": (
        "STUDY", "PROFILE", "RUNS", "SYSTEMS", "WORKLOADS", "SITE", "SEED", "SESSION", "DEPLOYMENTS", "ORDER", "ROUNDS",
        "PRECISION", "MOST", "MINUTES", "MIXTURE",
    ),
    "kick": ("STUDY", "PROFILE", "SITE"), "campaign": ("FILE", "EXECUTOR"), "claims": ("MEASURE",),
    "archive": ("ARCHIVE",), "system": ("NEEDS",), "env": ("PYTHON",), **dict.fromkeys(TIERS, ("TESTS",)),
    "test-lab": ("STUDY", "TESTS"),
}  # fmt: skip
HOSTILE = (  # to a shell, to make, and what either takes for a variable
    "x'\n; touch planted; '\"$(touch planted)`touch planted`\"&|a$(shell touch planted)$(file >planted)b"
    "a${HOME}$(info planted)$HOME\\\\#"
)
RECORDER = '#!/bin/sh\n{ printf \'%s\\0\' "$0" "$@" "TESTS=$PYTEST_ADDOPTS" "PYTHON=$PYTHON"; } >>"$RECORD"\n'


def _recorded(target: str, folder: Path, words: Sequence[str], **environment: str) -> list[str]:
    """Return what the programs of a target are called with, when make runs it in a copy where all only record that."""
    (folder / "Makefile").symlink_to(ROOT / "Makefile")
    (folder / "lib").symlink_to(ROOT / "lib")
    names = (".venv/bin/infrabench", ".venv/bin/pytest", "scripts/system-packages", "scripts/make-env")
    for path in (folder / name for name in names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RECORDER)
        path.chmod(0o755)
    (folder / "scripts/kick").symlink_to(ROOT / "scripts/kick")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTEST"))}
    done = subprocess.run(
        ["make", *words, target], cwd=folder, capture_output=True, text=True, check=False,
        env={**kept, **environment, "RECORD": str(folder / "record")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "planted" not in {path.name for path in folder.iterdir()}
    return (folder / "record").read_text().split("\0")


@pytest.mark.parametrize("place", ["command line", "environment"])
@pytest.mark.parametrize("target", TAKES)
def test_a_value_of_make_is_read_as_code_by_neither_make_nor_a_shell(target: str, place: str, tmp_path: Path) -> None:
    value = HOSTILE
    every = dict.fromkeys(TAKES[target], value) | ({"FILE": "c.yml"} if target == "run" else {})
    words = [f"{name}={each}" for name, each in every.items()] if place == "command line" else []
    said = _recorded(target, tmp_path, words, **({} if words else every))
    if target in ("env", *TIERS):
        name = "PYTHON=" if target == "env" else "TESTS="
        assert any(word.startswith(name) and word.endswith(value) for word in said)
    elif target in ("archive", "claims", "campaign"):
        assert value in said  # whole, as one word
    elif target == "system":
        assert [word for word in said[1:] if "=" not in word][: len(value.split())] == value.split()
    elif target == "kick":
        assert value.split(" ")[0] in said  # of several studies the first
        assert value in said
    else:
        assert said.count(value) == (len(every) - 2) * said.count("notebook")  # all but the study, for each study
        assert f"notebooks/{value.split()[0]}.ipynb" in said


@pytest.mark.parametrize("target", ["lint", "audit", "lock", "validate", "figures", "published", "build", "lab-down"])
def test_targets_that_take_no_value_have_none_in_their_commands(target: str, tmp_path: Path) -> None:
    every = {name: HOSTILE for names in TAKES.values() for name in names}
    done = subprocess.run(
        ["make", "-B", "-n", "-f", ROOT / "Makefile", "-C", ROOT, target, *(f"{n}={v}" for n, v in every.items())],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "planted" not in done.stdout
    assert not (ROOT / "planted").exists()
