# PYTHON_ARGCOMPLETE_OK
"""The command line. Exit status: 0 done, 1 it went wrong, 2 it was asked for something that does not exist."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from infrabench import registry
from infrabench.cli import campaign as campaigns
from infrabench.cli import commands, dataset, hosts, lab, selfcheck, session
from infrabench.cli.subcommands import CommandHelp, CommandParser, add_commands
from infrabench.core import DesignError, InfrabenchError, NotRunnable
from infrabench.core.names import terminal_text
from infrabench.machines.hosts.interrupts import raise_once

NOT_RUN = 3  # exit status: nothing failed, but this site cannot run what was asked for
COMPLETION = "_ARGCOMPLETE"  # a shell that asks for completions sets it
EXAMPLE = """\
A study is planned, run, and analysed; a run that was interrupted goes on with the same command.

Example:
  infrabench run containers --systems native docker --workloads sysbench-cpu --runs 10"""


class _TerminalFormatter(logging.Formatter):
    """What hosts, tools and sessions say is others' text."""

    def format(self, record: logging.LogRecord) -> str:
        return terminal_text(super().format(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = make_parser()
    if COMPLETION in os.environ:
        import argcomplete  # no other command waits for it

        argcomplete.autocomplete(parser)
    arguments = parser.parse_args(argv)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_TerminalFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in (*registry.PACKAGES, "infrabench_selfcheck"):
        logging.getLogger(name).setLevel(logging.DEBUG if arguments.debug else logging.INFO)
    # Not of the work alone: what a command takes down when it is interrupted is not cut short by a second interrupt.
    with raise_once(lambda line: print(f"infrabench: {line}", file=sys.stderr)):
        return _carry_out(arguments)


def _carry_out(arguments: Namespace) -> int:
    """Print what a command yields, and return its exit status."""
    try:
        for line in arguments.command(arguments):
            print(terminal_text(line), flush=True)
    except InfrabenchError as error:
        if arguments.debug:
            raise
        print(f"infrabench: {terminal_text(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, DesignError) else NOT_RUN if isinstance(error, NotRunnable) else 1
    except KeyboardInterrupt:
        print("infrabench: interrupted. What is recorded is safe; the same command goes on.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if arguments.debug or not str(error.name).startswith("infrabench_"):
            raise
        print(f"infrabench: this command needs the package {error.name}, which is not installed here", file=sys.stderr)
        return NOT_RUN
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        return 1
    except OSError as error:
        if arguments.debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        hint = "Is there space, and may this user write there? --debug shows where it happened."
        print(f"infrabench: {terminal_text(where)}{error.strerror or error}. {hint}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> CommandParser:
    """Return the parser of all commands; each group adds its own, in the order of ``infrabench --help``."""
    parser = CommandParser(
        prog="infrabench", description="Reproducible studies that compare infrastructure.", epilog=EXAMPLE,
        formatter_class=CommandHelp,
    )  # fmt: skip
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error, and more log")
    subparsers = add_commands(parser, "verb")
    for add_parsers in (
        commands.add_study_parsers,
        session.add_parsers,
        campaigns.add_parsers,
        dataset.add_parsers,
        commands.add_notebook_parsers,
        commands.add_publication_parsers,
        hosts.add_parsers,
        lab.add_parsers,
        selfcheck.add_parsers,
    ):
        add_parsers(subparsers)
    return parser
