"""Exceptions: each says what went wrong, where, and what to try."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infrabench.core.hosts import Result

LONGEST_NAME = 200  # characters of anything that people name


class InfrabenchError(Exception):
    """Base of every error this package raises on purpose: says what, where, and what to try."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows below the cell: the sentence alone. IPython asks for it by this name."""
        return [f"{type(self).__name__}: {self}"]


class DesignError(InfrabenchError):
    """A study, parameter, profile or plan that cannot be carried out as asked."""


class SiteError(InfrabenchError):
    """A site or host that cannot be reached or used."""


class ProvisionError(InfrabenchError):
    """A lab, node, image or system that could not be made ready."""


class NotRunnable(InfrabenchError):
    """A system that cannot run on this site; the message is the reason shown as ``not run: reason``.

    `evidence` is what there is to say beyond the reason (logs, mostly): text that is kept with the session.
    """

    def __init__(self, reason: str, evidence: str = "") -> None:
        super().__init__(reason)
        self.evidence = evidence


class NotAsClaimed(InfrabenchError):
    """A trial whose own evidence says that it did not measure what it claims (traffic took another path): invalid."""


class LedgerError(InfrabenchError):
    """A session folder that is damaged or does not belong to the plan; never repaired by guessing."""


class LockError(InfrabenchError):
    """A folder whose file system has no locks, so that nothing keeps two runs apart in it."""


class Interrupted(InfrabenchError):
    """A run that its user stopped in a notebook: what is recorded is safe, and the same cell goes on."""


class SchemaError(InfrabenchError):
    """A table whose columns, types or values are not those that the analysis expects."""


class CommandFailed(InfrabenchError):
    """A command that had to succeed did not. Carries the `Result`."""

    def __init__(self, result: Result, where: str = "") -> None:
        self.result = result
        self.where = where
        tail = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-800:]
        at = f" on {where}" if where else ""
        command = _shorten_words(" ".join(_shorten_words(arg, 60) for arg in result.argv[:12]), 120)
        super().__init__(f"{command}{at} {result.ending} after {result.duration_s:.1f} s: {tail or 'no output'}")


def _shorten_words(text: str, most: int) -> str:
    """Return the words that fit, each of them whole: in a part of one, what is private would not be recognised."""
    return textwrap.shorten(text, most, placeholder="...", break_long_words=False, break_on_hyphens=False)


class ParseError(InfrabenchError):
    """A tool's output that does not say what it should. `excerpt` is the text that was looked at."""

    def __init__(self, tool: str, what: str, excerpt: str | bytes = "") -> None:
        if isinstance(excerpt, bytes):
            excerpt = excerpt.decode("utf-8", "replace")
        self.tool, self.what, self.excerpt = tool, what, excerpt.strip()[:400]
        super().__init__(f"{tool}: {what}" + (f" in: {self.excerpt!r}" if self.excerpt else " in empty output"))


def unknown_name(kind: str, name: object, known: Iterable[str]) -> DesignError:
    """Return the error for a name that nobody knows: it says the nearest known ones, then all."""
    names, text = sorted(known), str(name)
    near = difflib.get_close_matches(text, names, n=3, cutoff=0.5) if len(text) <= LONGEST_NAME else []
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    shown = repr(name) if len(text) <= LONGEST_NAME else f"{text[:20]!r}... of {len(text)} characters"
    return DesignError(f"unknown {kind} {shown}: {hint}known are: {', '.join(names) or 'none'}")


def check_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise the error of `unknown_name` for the first of `names` that is not among the `known` ones."""
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


def shorten(value: object) -> str:
    """Return a value as a message shows it, of whatever length or kind it is."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return shown if len(shown) <= LONGEST_NAME else f"{shown[:20]}... of {len(shown)} characters"
