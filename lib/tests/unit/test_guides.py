"""Every command, link and front-page sentence of README, CONTRIBUTING and docs/ is of what there is.

`tests/stress/test_guides.py` runs those commands that take seconds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from infrabench.machines.sites import inventory
from infrabench.machines.sites.inventory import parse_inventory
from infrabench.notebook import api
from infrabench.registry import names
from infrabench.stats import verdicts
from tests.support.checks import check_each
from tests.support.command_lines import check_words
from tests.support.guides import EVERY, PAGES, Command, anchors_of, links_of
from tests.support.places import ROOT, files_of_packages

VARIABLES = {
    "STUDY", "PROFILE", "RUNS", "SYSTEMS", "WORKLOADS", "SEED", "SITE", "SESSION", "DEPLOYMENTS", "ORDER", "ROUNDS",
    "PRECISION", "MOST", "MINUTES", "MIXTURE", "TESTS", "PYTHON", "FILE", "EXECUTOR", "DRY", "SET",
}  # fmt: skip
# Programs of the machine that guides may speak of, besides make and infrabench.
OTHERS = {
    "git", "cd", "chmod", "ssh-keyscan", "ssh-keygen", "ip", "findmnt", "ls", "losetup", "conda", "papermill",
    ".venv/bin/papermill", "go", "terraform", "systemctl", "diff",
}  # fmt: skip


def test_every_guide_has_one_line_in_the_list_and_says_who_needs_it() -> None:
    rows = re.findall(r"^\| \[([\w.-]+\.md)\]\(\1\) \| (.+) \|$", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted({page.name for page in PAGES[2:]} - {"README.md"})
    assert all(len(needed.split()) >= 4 for _, needed in rows)
    assert ("docs/README.md", "") in links_of(ROOT / "README.md")


def test_every_link_and_anchor_leads_somewhere() -> None:
    def check(page: Path) -> None:
        for path, anchor in links_of(page):
            target = page.parent / path if path else page
            assert target.exists(), path
            assert target.resolve().is_relative_to(ROOT), path
            assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"

    check_each(check, PAGES, lambda page: page.relative_to(ROOT).as_posix())


def test_the_front_page_is_short_and_shows_a_recorded_figure() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 1000
    shown = re.findall(r"!\[([^\]]+)\]\((figures/[^)]+)\)", text)
    assert len(shown) == 1
    assert len(shown[0][0].split()) >= 5


def test_the_front_page_says_each_verdict_as_the_analysis_does() -> None:
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## How to read a verdict") : text.index("## What it does not do")]
    assert [word for word in verdicts.VERDICTS if f"**{word}**" not in section] == [verdicts.NOT_COMPARABLE]
    assert f"*{verdicts.NOT_COMPARABLE}*" in section


def test_there_is_something_to_check() -> None:
    assert sum(command.runs for command in EVERY) >= 7
    assert len(EVERY) > 80
    assert {each.page for each in EVERY if each.runs} >= {"add-a-workload.md", "add-a-system.md", "verdicts.md"}


def test_a_command_is_one_that_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readers = "".join(path.read_text() for path in [*files_of_packages(), ROOT / "lib/tests/support/storm.py"])

    def check(command: Command) -> None:
        with monkeypatch.context() as patch:
            for name, value in command.environment.items():
                assert name.startswith("INFRABENCH_"), name
                assert name in readers, name
                if name == "INFRABENCH_PLUGINS":
                    patch.setenv(name, str(ROOT / value))
            patch.chdir(tmp_path)
            _check(command)

    # A profile that a page has its reader write.
    page = (ROOT / "docs/run-a-study.md").read_text()
    (profile,) = re.findall(r"^```yaml\n(study: .*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "mine.yml").write_text(profile)
    check_each(check, EVERY, lambda command: f"{command.page}: {command.line[:60]}")


def _check(command: Command) -> None:
    program, *words = command.argv
    if program == "make":
        _check_make(words, command.environment)
    elif Path(program).name == "infrabench":
        check_words(words)
    elif Path(program).name == "python" and words[0] == "-c":
        compile(words[1], command.page, "exec")
    elif Path(program).name == "python":
        assert (ROOT / words[0]).is_file()
    elif program.startswith("scripts/"):
        assert os.access(ROOT / program, os.X_OK), program
    else:
        assert program in OTHERS, f"{program}: is it meant to be run by a reader?"


def _check_make(words: list[str], environment: dict[str, str]) -> None:
    given = {word.split("=", 1)[0]: word.split("=", 1)[1] for word in words if "=" in word}
    targets = [word for word in words if "=" not in word]
    for name in given:
        assert name in VARIABLES or name.startswith("INFRABENCH_"), name
    rule = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{re.escape(target)}:", rule, re.MULTILINE) for target in targets), targets
    done = subprocess.run(
        ["make", "-n", "-o", "env", "-o", "system", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    if "run" in targets:
        _request(given)


def _request(given: dict[str, str]) -> None:
    """Make the design that the variables of ``make run`` ask for: names and numbers have to be right."""
    numbers = {key: int(given[key]) for key in ("RUNS", "SEED", "DEPLOYMENTS", "ROUNDS", "MOST") if key in given}
    shares = {key: float(given[key]) for key in ("PRECISION", "MINUTES") if key in given}
    named = given.get("STUDY", "containers")
    for study in ("containers", "cnis", "runtimes", "storage") if named == "all" else named.split():
        api.request(
            study, profile=given.get("PROFILE", "quick"), runs=numbers.get("RUNS"), systems=given.get("SYSTEMS"),
            workloads=given.get("WORKLOADS"), seed=numbers.get("SEED"), deployments=numbers.get("DEPLOYMENTS"),
            order=given.get("ORDER"), rounds=numbers.get("ROUNDS"), precision=shares.get("PRECISION"),
            most=numbers.get("MOST"), minutes=shares.get("MINUTES"), mixture=json.loads(given.get("MIXTURE", "false")),
        )  # fmt: skip


def test_inventories_in_the_guides_are_valid() -> None:
    page = (ROOT / "docs/own-hosts.md").read_text()
    first, *more = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = parse_inventory(Path("hosts.yml"), yaml.safe_load(first + "".join(more)))
    assert set(inventory.private(found).values()) >= {"server", "client", "bastion", "flannel-worker2"}


def test_the_examples_are_used_by_a_guide() -> None:
    examples = list((ROOT / "docs/examples").rglob("*.py"))
    text = "".join(page.read_text() for page in PAGES)
    assert examples
    assert all(path.relative_to(ROOT / "docs").as_posix() in text for path in examples)
    assert not {path.stem.replace("_", "-") for path in examples} & {*names("workloads"), *names("systems")}
