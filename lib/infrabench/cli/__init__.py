"""The command line: one file a group of commands. Arguments in, lines out; what they do is done by the rooms below."""

from __future__ import annotations

from infrabench.cli.parser import NOT_RUN, main, make_parser

__all__ = ["NOT_RUN", "main", "make_parser"]
