"""A command line that every login shell hands on unchanged to ``/bin/sh``, and what to check before one is trusted.

SSH carries one string, and the account's login shell reads it: a POSIX shell, csh or fish. They agree only on words in
single quotes that hold no quote, backslash pair, exclamation mark or line break. So the script is written with octal
escapes for those, in pieces that csh takes for words, and ``printf`` of the POSIX shell decodes it. An account that is
not root's may have ``/bin/sh`` started by sudo, which asks nothing and sets the home of root.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from infrabench.core.workloads import script_command

DECODE = 'eval "$(printf %b "$@")"'
SUDO = "sudo -n -H -- "
PIECE = 500  # characters: csh has words of at most 1024
ESCAPED = frozenset("'\\!")
READY, NO_TIMEOUT = "infrabench: ready", "infrabench: no timeout"
CHECK = f"timeout -k 1 5 true >/dev/null 2>&1 && echo '{READY}' || echo '{NO_TIMEOUT}'"


def command_line(script: str, *, sudo: bool = False) -> str:
    """Return the string for SSH that lets ``/bin/sh`` execute `script`, whatever the login shell is.

    `sudo`: as root, by the account's right to that.
    """
    pieces, length = [""], 0
    for sign in script:
        escaped = sign in ESCAPED or not (" " <= sign <= "~")
        coded = "".join(f"\\0{byte:03o}" for byte in sign.encode("utf-8", "surrogateescape")) if escaped else sign
        if length + len(coded) > PIECE:
            pieces.append("")
            length = 0
        pieces[-1] += coded
        length += len(coded)
    return f"exec {SUDO if sudo else ''}/bin/sh -c '{DECODE}' sh " + " ".join(f"'{piece}'" for piece in pieces)


def timed_command(argv: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> str:
    """Return the script that executes `argv` for at most `timeout_s`, with the variables of `environment` added.

    The shell stays, to report a death by signal as a status (128 + signal), which SSH itself does not.
    """
    added = "".join(f"{name}={shlex.join((value,))} " for name, value in environment.items())
    return f"LC_ALL=C {added}{shlex.join(('timeout', '-k', '5', f'{timeout_s:g}', *argv))}; exit $?"


def probe(path: str) -> tuple[str, ...]:
    """Return the command that runs a program of this package on a host, by the host's own python3.

    `path` is written out in full where it is used: by that the code of a trial is known to include the program.
    """
    return script_command(Path(str(resources.files("infrabench"))) / path)


def find_problem(output: bytes, errors: bytes) -> str:
    """Return what is wrong with a host where `CHECK` put this out, and what to do; empty when nothing is."""
    text = output.decode("utf-8", "replace").strip("\r\n")
    if output == f"{READY}\n".encode() and not errors.strip():
        return ""
    if output == f"{NO_TIMEOUT}\n".encode():
        return "it has no `timeout` that knows -k: install GNU coreutils there; it ends commands that take too long"
    for mark in (READY, NO_TIMEOUT):
        if mark in text:
            shown = " ".join(f"{text.replace(mark, ' ')} {errors.decode('utf-8', 'replace')}".split())[:200]
            if shown.startswith("sudo: "):
                return (
                    f"sudo prints {shown!r} with every command, which would be taken for output of the command: mend "
                    "what it complains of (a name that cannot be resolved wants a line in /etc/hosts)"
                )
            return (
                f"its login shell prints {shown!r} with every command, which would be taken for output of the command: "
                "let its start files (.bashrc, .cshrc, config.fish) print nothing where nobody types"
            )
    said = " ".join(f"{text} {errors.decode('utf-8', 'replace')}".split())[:200]
    if "sudo: " in said:
        return (
            f"sudo executes no command there without being asked, it says {said!r}: let the login do so (in "
            "/etc/sudoers.d: LOGIN ALL=(ALL) NOPASSWD: ALL), or log in as root"
        )
    return (
        f"its login shell does not execute /bin/sh, it says {said or 'nothing'!r}: give the account a shell that takes "
        "commands"
    )
