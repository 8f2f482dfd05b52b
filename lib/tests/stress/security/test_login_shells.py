"""A login shell reads what SSH carries: every one hands it on unchanged, or the host is refused with the reason."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench.machines.hosts.remote_shell import PIECE, command_line, timed_command
from tests.support.ssh_server import serving
from tests.support.storm import SEED, size

# Those that are here; csh and fish read quotes, dollars, exclamation marks and line breaks in ways of their own.
SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "tcsh", "csh", "fish") if shutil.which(name)]
SIGNS = "'\"\\!$`~*?#;&|<>()[]{}%^= \n\t\x01\x7fé€ab0-"
WORDS = ("it's", "a\\", "\\\\n", "!x", "$?", "$HOME", "`id`", "-n", "", "\n", "x" * 3 * PIECE, "'" * PIECE)


def draw_words(rng: random.Random) -> tuple[str, ...]:
    drawn = ["".join(rng.choice(SIGNS) for _ in range(rng.randrange(12))) for _ in range(rng.randrange(1, 6))]
    return (*drawn, rng.choice(WORDS))


@pytest.mark.parametrize("shell", SHELLS)
def test_every_word_reaches_its_program_through_every_login_shell(shell: str) -> None:
    rng = random.Random(SEED)
    for words in [WORDS, *(draw_words(rng) for _ in range(size(5, 200)))]:
        line = command_line(timed_command(("printf", "%s\\0", *words), 20, {}))
        done = subprocess.run((shell, "-c", line), capture_output=True, timeout=60)
        assert done.stdout.decode().split("\0")[:-1] == list(words)
        assert done.returncode == 0


def test_the_line_holds_only_what_all_shells_read_alike() -> None:
    """Between single quotes: no quote, no exclamation mark, no line break, no backslash but one before a 0."""
    rng = random.Random(SEED)
    for _ in range(size(50, 2000)):
        line = command_line(timed_command(("printf", *draw_words(rng)), 1, {}))
        quoted, plain = line.split("'")[1::2], line.split("'")[0::2]
        assert "".join(plain).split() == ["exec", "/bin/sh", "-c", "sh"]
        for piece in quoted:
            assert piece.isascii()
            assert piece.isprintable()
            assert "!" not in piece
            assert piece.count("\\") == piece.count("\\0")
            assert len(piece) <= PIECE


@pytest.mark.parametrize(
    ("into", "named"),
    [
        (("sh", "-c", 'echo "Welcome to db1"; exec "$@"', "sh"), r"its login shell prints 'Welcome to db1'"),
        (("sh", "-c", '"$@"; echo bye', "sh"), r"its login shell prints 'bye'"),
        (("sh", "-c", 'echo "No mail." >&2; exec "$@"', "sh"), r"its login shell prints 'No mail.'"),
        (("sh", "-c", 'PATH=/nowhere exec /bin/sh "$2" "$3"', "sh"), "it has no `timeout`"),
        (("sh", "-c", "echo This account is not available; exit 1", "sh"), "This account is not available"),
        (("sh", "-c", "exit 3", "sh"), "it says 'nothing'"),
    ],
    ids=["greets", "says goodbye", "complains", "no timeout", "no login", "silent"],
)
def test_a_host_whose_commands_put_out_something_else_is_refused(
    tmp_path: Path, into: Sequence[str], named: str
) -> None:
    with serving(tmp_path, into=into) as login:
        host = login.host("far")
        try:
            for use in (lambda: host.run(("true",), timeout_s=5), lambda: host.stream(("cat",)).__enter__()):
                with pytest.raises(SiteError, match=named):
                    use()
        finally:
            host.close()
