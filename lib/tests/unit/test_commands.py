"""All commands: each helps with an example that parses, and every command that a text or a call names exists."""

from __future__ import annotations

import ast
import io
import re
import shlex
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import DesignError
from tests.support.checks import check_each
from tests.support.command_lines import check_words, children, parsers, unknown_word
from tests.support.places import ROOT, files_of_packages

BIN = Path(sys.executable).parent
TOP = [
    "plan", "run", "session", "campaign", "dataset", "notebook", "report", "paper", "artifact", "hosts", "lab",
    "selfcheck",
]  # fmt: skip
LEAVES = [path for path, parser in parsers().items() if not children(parser)]
# What stands in backquotes or quotes, after a colon, or begins with the path of the environment.
QUOTED = re.compile(r"[`'](?:\.venv/bin/)?infrabench\s+([^`']+)[`']")
COLON = re.compile(r": infrabench +([^`'\n]+)")
TYPED = re.compile(r"(?:\.venv|\$\(?BIN\)?|bin)(?:/bin)?/infrabench +([^`'\"|&;#\n]+)")


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main([*words, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_twelve_commands_are_listed_in_their_order_with_a_line_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = helped(capsys).split("  COMMAND\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == TOP
    assert all(len(line.split()) > 3 for line in lines)


def command(path: tuple[str, ...]) -> str:
    return " ".join(("infrabench", *path))


def test_every_command_says_what_it_does_with_an_example_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    def check(path: tuple[str, ...]) -> None:
        shown = helped(capsys, *path)
        assert shown.startswith(f"usage: {command(path)} ")
        parser = parsers()[path]
        assert len((parser.description or "").split()) > 3
        assert parser.description in shown
        (example,) = (parser.epilog or "").split("Example:\n")[1:]
        assert f"  {example.strip()}\n" in shown
        program, *words = shlex.split(example)
        assert program == "infrabench"
        assert tuple(words[: len(path)]) == path
        assert callable(parsers()[()].parse_args(words).command)

    assert len(parsers()) > 40
    check_each(check, parsers(), command)


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["sesion"], "session"), (["campain", "run"], "campaign"), (["session", "lst"], "list"),
        (["selfcheck", "statistic"], "statistics"), (["hosts", "inventory", "teraform"], "terraform"),
        (["lab", "upp"], "up"), (["status"], ""), (["verify"], ""), (["prepare"], ""), (["tidy"], ""),
    ],
)  # fmt: skip
def test_an_unknown_command_is_answered_with_the_nearest_if_any(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = next(word for word in words if word not in TOP and word != "inventory")
    assert f"unknown command '{wrong}'" + (nearest and f": did you mean {nearest}") in refused(capsys, *words)


def test_a_group_alone_asks_for_one_of_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    def check(path: tuple[str, ...]) -> None:
        assert "the following arguments are required: COMMAND" in refused(capsys, *path)

    check_each(check, [path for path in parsers() if path not in LEAVES], command)


@pytest.mark.parametrize(
    "words",
    [
        ["lab", "down", "--hosts", "rack-a"], ["lab", "status", "--kubernetes", "cilium"],
        ["lab", "up", "--only", "guest"], ["campaign", "status", "c.yml", "--without", "a"],
        ["campaign", "plan", "c.yml", "--engine-profile", "f"], ["hosts", "inventory", "slurm", "--sensitive"],
    ],
)  # fmt: skip
def test_an_option_belongs_to_its_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "unrecognized arguments" in refused(capsys, *words)


def texts(path: Path) -> Iterator[str]:
    """Yield what a file says: strings, with a name for each value in them, and comments; other files as they are."""
    source = path.read_text(errors="replace")
    if path.suffix != ".py":
        yield source
        return
    if not re.search(r"infrabench\s", source):  # most files need no parser
        return
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "NAME" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def mentions(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command of infrabench that a file names."""
    for text in texts(path):
        for found in (*QUOTED.findall(text), *COLON.findall(text), *TYPED.findall(text)):
            yield shlex.split(found.replace("\\n", " ").rstrip("\\ "))


def calls(path: Path) -> Iterator[list[str]]:
    """Yield the first words of each call of the command line in a file of Python, up to the first that is computed."""
    source = path.read_text()
    if "cli.main(" not in source and "infrabench.cli" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cli.main" and isinstance(node.args[0], ast.List):
            parts = node.args[0].elts
        elif isinstance(node, ast.List | ast.Tuple):
            names = [part.value if isinstance(part, ast.Constant) else None for part in node.elts]
            at = next((at for at, name in enumerate(names) if str(name).startswith("infrabench.cli")), None)
            parts = [] if at is None else node.elts[at + 1 :]
        words = []
        for part in parts:
            if not isinstance(part, ast.Constant) or not isinstance(part.value, str) or part.value.startswith("-"):
                break
            words.append(part.value)
        if words:
            yield words


LIBRARY = [path for path in files_of_packages("*") if path.suffix in (".py", ".md", "")]
OTHERS = [
    *sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "docs/examples").rglob("*.*")),
    *(ROOT / "scripts" / name for name in ("audit", "kick", "reproduce")),
    ROOT / "Makefile", ROOT / ".binder/postBuild",
]  # fmt: skip


def test_a_command_that_the_library_names_is_one_that_exists() -> None:
    found = [(path, words) for path in LIBRARY if path.is_file() for words in mentions(path)]
    assert len(found) > 25
    for path, words in found:
        try:
            check_words(words)
        except (SystemExit, DesignError):
            pytest.fail(f"{path.relative_to(ROOT)}: infrabench {shlex.join(words)}")


def test_a_command_that_a_script_or_a_notebook_names_is_one_that_exists() -> None:
    found = [(path, words) for path in OTHERS if path.is_file() for words in mentions(path)]
    assert {path.name for path, _ in found} >= {"Makefile", "kick", "reproduce", "dataset.ipynb"}
    for path, words in found:  # a shell computes the rest
        plain = [word for word in words if "$" not in word]
        assert unknown_word(plain[: 1 + (plain[0] not in ("plan", "run"))]) is None, f"{path.name}: {words}"


def test_a_command_that_code_or_a_test_starts_is_one_that_exists() -> None:
    found = [(path, words) for path in sorted((ROOT / "lib").rglob("*.py")) for words in calls(path)]
    assert len(found) > 40
    assert {"lab_pages.py", "test_lab_campaigns.py", "test_preparation_real.py", "job.py"} <= {
        path.name for path, _ in found
    }
    for path, words in found:
        assert unknown_word(words) is None, f"{path.relative_to(ROOT)}: {words}"


# What bash does when Tab is pressed, for each argument.
COMPLETE = r"""
eval "$1"
shift
for COMP_LINE in "$@"; do
  COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
  _python_argcomplete "${COMP_LINE%% *}" "" ""
  printf '%s ' "${COMPREPLY[@]}"
  echo
done
"""


def test_names_are_completed_as_the_guide_says() -> None:
    guide = (ROOT / "docs/command-line.md").read_text()
    (switch,) = re.findall(r"^    (eval .*)$", guide, re.MULTILINE)
    typed = ("session sh", "session show lab-quick-2026-11-kno", "plan cnis --systems bri")
    lines = [f"{BIN}/infrabench {each}" for each in typed]
    argv = ["bash", "-euc", COMPLETE, "bash", switch.replace(".venv/bin", str(BIN)), *lines]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["show"], ["lab-quick-2026-11-known"], ["bridge"]
    ]  # fmt: skip
