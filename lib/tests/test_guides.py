"""Every command in README, CONTRIBUTING and docs/ is one that exists; those that take seconds are run as they stand."""

from __future__ import annotations

import fcntl
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

from infrabench import cli, commands, facade, inventory
from infrabench.inventory import validated
from infrabench.registry import names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
VARIABLES = {
    "STUDY", "PROFILE", "RUNS", "SYSTEMS", "WORKLOADS", "SEED", "SITE", "SESSION", "DEPLOYMENTS", "ORDER", "PRECISION",
    "MOST", "HOURS", "TESTS", "PYTHON", "FILE", "EXECUTOR", "DRY",
}  # fmt: skip
# Programs of the machine that guides may speak of, besides make and infrabench.
OTHERS = {
    "git", "cd", "chmod", "ssh-keyscan", "ssh-keygen", "ip", "findmnt", "ls", "losetup", "conda", "papermill", "go",
    "terraform", "systemctl",
}  # fmt: skip
OPENING = re.compile(r"^```(\w*)(?: (\w+))?$")
FIRST = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:make|(?:\.venv/bin/)?infrabench|papermill|conda) ")


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


def test_every_guide_has_its_line_in_the_list_and_every_link_leads_somewhere() -> None:
    listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_there_is_something_to_check() -> None:
    assert sum(command.runs for command in EVERY) >= 7
    assert len(EVERY) > 80
    assert {each.page for each in EVERY if each.runs} >= {"add-a-workload.md", "add-a-system.md", "verdicts.md"}


@pytest.mark.parametrize("command", EVERY, ids=lambda command: f"{command.page}: {command.line[:60]}")
def test_a_command_is_one_that_exists(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in command.environment.items():
        assert name.startswith("INFRABENCH_"), name
        assert any(name in path.read_text() for path in (ROOT / "lib/infrabench").rglob("*.py")), name
        if name == "INFRABENCH_PLUGINS":
            monkeypatch.setenv(name, str(ROOT / value))
    program, *words = command.argv
    if program == "make":
        _check_make(words, command.environment)
    elif Path(program).name == "infrabench":
        _check_infrabench(words)
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
    numbers = {key: int(given[key]) for key in ("RUNS", "SEED", "DEPLOYMENTS", "MOST") if key in given}
    shares = {key: float(given[key]) for key in ("PRECISION", "HOURS") if key in given}
    for study in given.get("STUDY", "containers").split():
        facade.request(
            study, profile=given.get("PROFILE", "smoke"), runs=numbers.get("RUNS"), systems=given.get("SYSTEMS"),
            workloads=given.get("WORKLOADS"), seed=numbers.get("SEED"), deployments=numbers.get("DEPLOYMENTS"),
            order=given.get("ORDER", "random"), precision=shares.get("PRECISION"), most=numbers.get("MOST"),
            hours=shares.get("HOURS"),
        )  # fmt: skip


PLACEHOLDERS = {"CHECK", "SESSION", "NAME", "PART", "FOLDER"}


def _check_infrabench(words: list[str]) -> None:
    if words in ([], ["--help"]):
        return
    if len(words) == 1 and words[0] in {"run", "analyze", "pack", "reparse", "diff", "lab", "plan"}:
        return  # a sentence that names the command itself
    parsed = cli._parser().parse_args(words)
    if parsed.verb in ("plan", "run") and parsed.study is not None and not PLACEHOLDERS & set(words):
        commands._wanted(parsed)


@pytest.mark.parametrize("words", [["run", "containers", "--sistems", "x"], ["lab", "upp"], ["plan", "containerz"]])
def test_a_command_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((SystemExit, cli.DesignError)):
        _check_infrabench(words)


@pytest.mark.parametrize("words", [["runn"], ["run", "STUDYS=cnis"], ["run", "PROFILE=quik"], ["run", "SYSTEMS=x"]])
def test_a_target_or_variable_that_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((AssertionError, cli.DesignError)):
        _check_make(words, {})


def test_inventories_in_the_guides_are_valid() -> None:
    page = (ROOT / "docs/own-hosts.md").read_text()
    first, *more = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = validated(Path("hosts.yml"), yaml.safe_load(first + "".join(more)))
    assert set(inventory.private(found).values()) >= {"server", "client", "bastion", "flannel-worker2"}


# ------------------------------------------------------------------------------------------- commands that are run


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh clone with what is not committed yet, and this environment in it; one at a time on this machine."""
    folder = tmp_path_factory.mktemp("guides") / "infrabench"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, folder], check=True, timeout=120)
    for part in ("docs", "lib/infrabench"):
        shutil.copytree(ROOT / part, folder / part, dirs_exist_ok=True)
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
    for command in (each for each in EVERY if each.runs and each.page == page):
        argv = [*_apart(), "bash", "-euc", command.line]
        done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{command.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert done.stdout.strip(), command.line


def test_the_examples_are_used_by_a_guide() -> None:
    examples = list((ROOT / "docs/examples").rglob("*.py"))
    text = "".join(page.read_text() for page in PAGES)
    assert examples
    assert all(path.relative_to(ROOT / "docs").as_posix() in text for path in examples)
    assert not {path.stem.replace("_", "-") for path in examples} & {*names("workloads"), *names("systems")}
