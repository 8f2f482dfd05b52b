"""What all groups of commands are made of: parsers with an example, completed names, and arguments in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from infrabench import registry
from infrabench.core import PROFILES, DesignError, SiteError, unknown_name
from infrabench.experiment.execution import runs
from infrabench.ledger import catalogue

# A command is a function of the parsed arguments that yields the lines to print.
Command = Callable[[argparse.Namespace], Iterator[str]]
Subparsers = argparse._SubParsersAction  # what commands are added to

SESSION = "name, folder or archive of a session"


class CommandParser(argparse.ArgumentParser):
    """A parser that answers an unknown command with the nearest names."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise argparse.ArgumentError(None, str(unknown_name("command", value, action.choices)))
        super()._check_value(action, value)


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Help with one line for each command; argparse forgets that their names are indented twice."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


def add_commands(parser: CommandParser, dest: str) -> Subparsers:
    """Give a parser commands of its own, one of which has to be named; its name is the argument `dest`."""
    return parser.add_subparsers(dest=dest, required=True, metavar="COMMAND", title="commands")


def add_group(subparsers: Subparsers, name: str, text: str, example: str, dest: str = "action") -> Subparsers:
    """Add a group of commands and return what its commands are added to; `example` as of `add_command`."""
    return add_commands(_add(subparsers, name, text, example), dest)


def add_command(subparsers: Subparsers, name: str, command: Command, text: str, example: str = "") -> CommandParser:
    """Add a command and return its parser, which has no arguments yet; `example`: words that may follow its name."""
    parser = _add(subparsers, name, text, example)
    parser.set_defaults(command=command)
    return parser


def _add(subparsers: Subparsers, name: str, text: str, example: str) -> CommandParser:
    about = f"{text[0].upper()}{text[1:]}."
    parser = subparsers.add_parser(name, help=text, description=about, formatter_class=CommandHelp)
    parser.epilog = f"Example:\n  {parser.prog} {example}".rstrip()
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def complete(action: argparse.Action, kind: str) -> None:
    """Let a shell complete an argument: sessions, profiles, or plug-ins of a kind. It lists files, and imports none."""

    def names(**_: object) -> Iterable[str]:
        if kind == "sessions":  # a shell goes on with files where none of them fits
            return sorted(catalogue.sessions())
        return PROFILES if kind == "profiles" else registry.names(kind)

    action.completer = names  # argcomplete looks for this attribute


# ------------------------------------------------------------------------------------------------ arguments in common


def add_session(parser: CommandParser, dest: str = "session", text: str = SESSION, **more: Any) -> None:
    """Add an argument that names a session."""
    complete(parser.add_argument(dest, metavar=more.pop("metavar", "SESSION"), help=text, **more), "sessions")


def add_sessions(parser: CommandParser, text: str = "name, folder or archive (default: all)", nargs: str = "*") -> None:
    """Add an argument that names sessions."""
    add_session(parser, "sessions", text, nargs=nargs)


def add_names(parser: CommandParser, kind: str, text: str) -> None:
    """Add an option that names plug-ins of a kind: ``--systems``, ``--workloads``."""
    complete(parser.add_argument(f"--{kind}", nargs="+", metavar="NAME", help=text), kind)


def split(names: list[str] | None) -> list[str] | None:
    """Return the names that were given, apart where they were joined by commas; None where none was."""
    return None if names is None else [part for name in names for part in name.split(",") if part]


def existing_site(spec: str) -> str:
    """Return the site that is meant; `DesignError` when there is none: it does not exist, like an unknown study."""
    try:
        site = runs.resolved(spec)
        runs.site_name(site)
    except SiteError as error:
        raise DesignError(str(error)) from error
    return site


def agreed(question: str) -> bool:
    """Ask on the terminal and return whether the answer is yes."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
