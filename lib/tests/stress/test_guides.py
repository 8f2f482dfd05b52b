"""Every command in README, CONTRIBUTING and docs/ is one that exists; those that take seconds are run as they stand."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from infrabench.core import DesignError
from infrabench.machines.sites import inventory
from infrabench.machines.sites.inventory import parse_inventory
from infrabench.notebook import api
from infrabench.registry import names
from infrabench.stats import verdicts
from tests.support.command_lines import check_words
from tests.support.places import PACKAGES, ROOT, files_of_packages

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
VARIABLES = {
    "STUDY", "PROFILE", "RUNS", "SYSTEMS", "WORKLOADS", "SEED", "SITE", "SESSION", "DEPLOYMENTS", "ORDER", "ROUNDS",
    "PRECISION", "MOST", "MINUTES", "MIXTURE", "TESTS", "PYTHON", "FILE", "EXECUTOR", "DRY",
}  # fmt: skip
# Programs of the machine that guides may speak of, besides make and infrabench.
OTHERS = {
    "git", "cd", "chmod", "ssh-keyscan", "ssh-keygen", "ip", "findmnt", "ls", "losetup", "conda", "papermill", "go",
    "terraform", "systemctl", "diff",
}  # fmt: skip
OPENING = re.compile(r"^```(\w*)(?: (\w+))?$")
FIRST = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make|(?:\.venv/bin/)?(?:infrabench|python)|papermill|conda) ")


@dataclass(frozen=True)
class Command:
    """A command line of a page; `runs`: it is to be run, and not only looked at."""

    page: str
    line: str
    runs: bool

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)

    @property
    def environment(self) -> dict[str, str]:
        given = self.words[: next(i for i, word in enumerate(self.words) if not re.match(r"[A-Z_]+=", word))]
        return dict(word.split("=", 1) for word in given)

    @property
    def argv(self) -> list[str]:
        return self.words[len(self.environment) :]


def commands_of(page: Path) -> list[Command]:
    """Return the lines of blocks marked sh, the indented ones that are commands, and what stands in backticks."""
    text = page.read_text()
    found, kind, runs = [], None, False
    for line in text.splitlines():
        if line.startswith("```"):
            opened = OPENING.match(line)
            assert opened, line
            kind, runs = (opened[1] or "text", opened[2] == "run") if kind is None else (None, False)
        elif kind == "sh" and line.strip():
            found.append(Command(page.name, line.strip(), runs))
        elif kind is None and line.startswith("    ") and FIRST.match(line.strip()):
            found.append(Command(page.name, line.strip(), False))
    assert kind is None, f"a block of {page.name} is not closed"
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        if FIRST.match(f"{quoted} "):
            found.append(Command(page.name, quoted, False))
    return found


EVERY = [command for page in PAGES for command in commands_of(page)]


def links_of(page: Path) -> list[tuple[str, str]]:
    """Return the (target, anchor) of every link and picture of a page that leads into this repository."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(<?([^)\s>]*)", re.sub(r"`[^`\n]+`", "", prose))
    return [(path, anchor) for path, _, anchor in (each.partition("#") for each in targets if "://" not in each)]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that a page's headings have where it is shown: lower case, dashes for spaces."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_guide_has_one_line_in_the_list_and_says_who_needs_it() -> None:
    rows = re.findall(r"^\| \[([\w.-]+\.md)\]\(\1\) \| (.+) \|$", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted({page.name for page in PAGES[2:]} - {"README.md"})
    assert all(len(needed.split()) >= 4 for _, needed in rows)
    assert ("docs/README.md", "") in links_of(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    for path, anchor in links_of(page):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        assert target.resolve().is_relative_to(ROOT), f"{page.name}: {path}"
        assert not anchor or anchor in anchors_of(target), f"{page.name}: {path}#{anchor}"


def test_a_link_or_an_anchor_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# What it *is*, and why\n[a](gone.md#x) ![b](#what-it-is-and-why) `[c](code)`\n```sh\n# no\n```\n")
    assert links_of(page) == [("gone.md", "x"), ("", "what-it-is-and-why")]
    assert anchors_of(page) == {"what-it-is-and-why"}


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


@pytest.mark.parametrize("command", EVERY, ids=lambda command: f"{command.page}: {command.line[:60]}")
def test_a_command_is_one_that_exists(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in command.environment.items():
        assert name.startswith("INFRABENCH_"), name
        readers = [*files_of_packages(), ROOT / "lib/tests/support/storm.py"]
        assert any(name in path.read_text() for path in readers), name
        if name == "INFRABENCH_PLUGINS":
            monkeypatch.setenv(name, str(ROOT / value))
    program, *words = command.argv
    if program == "make":
        _check_make(words, command.environment)
    elif Path(program).name == "infrabench":
        check_words(words)
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


@pytest.mark.parametrize("words", [["run", "containers", "--sistems", "x"], ["lab", "upp"], ["plan", "containerz"]])
def test_a_command_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((SystemExit, DesignError)):
        check_words(words)


@pytest.mark.parametrize("words", [["runn"], ["run", "STUDYS=cnis"], ["run", "PROFILE=quik"], ["run", "SYSTEMS=x"]])
def test_a_target_or_variable_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((AssertionError, DesignError)):
        _check_make(words, {})


def test_inventories_in_the_guides_are_valid() -> None:
    page = (ROOT / "docs/own-hosts.md").read_text()
    first, *more = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = parse_inventory(Path("hosts.yml"), yaml.safe_load(first + "".join(more)))
    assert set(inventory.private(found).values()) >= {"server", "client", "bastion", "flannel-worker2"}


# ------------------------------------------------------------------------------------------- commands that are run


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh clone with what is not committed yet, and this environment in it; one at a time on this machine."""
    folder = tmp_path_factory.mktemp("guides") / "infrabench"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, folder], check=True, timeout=120)
    for part in (ROOT / "docs", *PACKAGES):
        shutil.copytree(part, folder / part.relative_to(ROOT), dirs_exist_ok=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    with open(tmp_path_factory.getbasetemp().parent / "guides.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


APART = """
mount -t tmpfs tmpfs /run
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --rbind /run/cgroup /sys/fs/cgroup
ip link set lo up
exec "$@"
"""


def _apart() -> list[str]:
    """Return a prefix for a network and mounts of one's own: what root makes on this machine must not meet a lab."""
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--net", "--mount", "sh", "-ec", APART, "sh"]
    return prefix if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0 else []


@pytest.mark.parametrize("page", sorted({command.page for command in EVERY if command.runs}))
def test_commands_run_as_they_stand_on_the_page(page: str, checkout: Path, tmp_path: Path) -> None:
    # Without mmdebstrap: no image is made for it.
    (tmp_path / "bin").mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = tmp_path / "bin" / program.name
            if program.name != "mmdebstrap" and not link.is_symlink():
                link.symlink_to(program)
    env = {
        key: value for key, value in os.environ.items() if not key.startswith("INFRABENCH_") or key == "INFRABENCH_KATA"
    } | {"PATH": str(tmp_path / "bin"), "INFRABENCH_STATE": str(tmp_path / "state")}  # fmt: skip
    printed: list[str] = []
    for command in (each for each in EVERY if each.runs and each.page == page):
        argv = [*_apart(), "bash", "-euc", command.line]
        done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{command.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.stdout.strip(), command.line
        printed += done.stdout.splitlines()
    text = (ROOT / "docs" / page).read_text()
    assert set(re.findall(r"^> (.+)$", text, re.MULTILINE)) <= set(printed)
    drawn = [checkout / line for line in printed if line.endswith(".svg")]
    for picture in re.findall(r"^!\[.+\]\(([\w-]+\.svg)\)$", text, re.MULTILINE):
        # else: copy what the command has drawn to docs/, and look at it
        assert any(_are_alike(each.read_text(), (ROOT / "docs" / picture).read_text()) for each in drawn), picture


NUMBER = re.compile(r"-?\d+\.\d+")


def _are_alike(one: str, two: str) -> bool:
    """Return whether two SVG files draw the same; two machines may round a last digit differently."""
    one, two = (re.sub(r'(id="|#)\w+', "", each) for each in (one, two))
    numbers = [[*map(float, NUMBER.findall(each))] for each in (one, two)]
    return NUMBER.sub("", one) == NUMBER.sub("", two) and numbers[0] == pytest.approx(numbers[1], abs=1e-3)


def test_pictures_differ_by_more_than_a_last_digit() -> None:
    picture = '<use xlink:href="#m1a" x="1.25" y="3.000001"/>'
    assert _are_alike(picture, picture.replace("1a", "2b").replace("3.000001", "3.000002"))
    assert not _are_alike(picture, picture.replace("1.25", "1.27"))
    assert not _are_alike(picture, picture.replace("use", "text"))


def test_the_examples_are_used_by_a_guide() -> None:
    examples = list((ROOT / "docs/examples").rglob("*.py"))
    text = "".join(page.read_text() for page in PAGES)
    assert examples
    assert all(path.relative_to(ROOT / "docs").as_posix() in text for path in examples)
    assert not {path.stem.replace("_", "-") for path in examples} & {*names("workloads"), *names("systems")}
