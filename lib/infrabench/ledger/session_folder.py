"""The folder of one session: right at every moment, also when its writer is killed; each file is read at most once.

A trial is written to ``trials/.tmp-ID`` with its own ``SHA256SUMS``, synced and renamed: it is there whole or not at
all. One line in the session's ``SHA256SUMS`` follows. So after a kill there can be, and only be: a temporary folder
(never counted, removed by the next writer), a whole trial that is not listed yet (proved by its own sums, then
listed), and a last line without its newline (dropped). Everything else that does not fit is damage: `LedgerError`
names the file and nothing is repaired by guessing.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError, Trial, TrialRecord, canonical, digest
from infrabench.ledger import ledger, records
from infrabench.ledger.files import SUMS, TMP, line, read_file, read_sums
from infrabench.ledger.records import BLOCKS, PLAN, Contents

log = logging.getLogger(__name__)


class SessionFolder:
    """A session's folder with its plan and records in memory, as they are read or appended.

    Nothing is read before it is asked for. What was read once is kept: a record is never changed on disk, and while
    the folder is `claimed` nobody else adds one. An object that was read before the claim reads again when another
    process has written to the folder meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        for name in ("session", "plan", "discarded", "records"):
            self.__dict__.pop(name, None)
        self._entries: object = None  # of the folder when it was read, if it was
        self._plan_sha256 = ""
        self._notes: dict[str, list[dict[str, Any]]] = {}
        self._is_verified = False
        self._is_begun = False

    # -------------------------------------------------------------------------------------------------- reading

    def exists(self) -> bool:
        """Tell whether there is such a session."""
        return self.path.exists()

    @cached_property
    def session(self) -> dict[str, Any]:
        """The content of ``session.json``."""
        return records.read_session(self.path)

    @cached_property
    def plan(self) -> list[Trial]:
        """The planned trials in order, those of added blocks too."""
        return list(records.read_plan(self.path))

    @property
    def awaited(self) -> tuple[Trial, ...]:
        """The planned trials in order without those of blocks that were discarded."""
        discarded = self.discarded
        return tuple(trial for trial in self.plan if trial.block not in discarded)

    @cached_property
    def discarded(self) -> Mapping[int, str]:
        """The blocks that were discarded whole, with the reason."""
        return {each["block"]: each["reason"] for each in self.notes(records.DISCARDED)}

    def notes(self, what: str) -> list[dict[str, Any]]:
        """Return what the session says about its blocks of one kind (`records.NOTES`), by block and time."""
        if what not in self._notes:
            self._notes[what] = records.read_blocks(self.path, what)
        return self._notes[what]

    @cached_property
    def records(self) -> dict[str, TrialRecord]:
        """The records of finished trials by id, those of discarded blocks too; see `records.read_records`."""
        return {record.trial.id: record for record in records.read_records(self.path, self.plan)}

    def recorded(self) -> frozenset[str]:
        """Return the ids of the finished trials, without reading their records."""
        return frozenset(self.records) if "records" in self.__dict__ else records.recorded(self.path)

    def verify(self) -> list[str]:
        """Read every file and return what is wrong (see `records.verify`); a folder found sound is not read again."""
        lines, found = self._examine()
        return [*lines, *found]

    def _examine(self) -> tuple[list[str], list[str]]:
        """Return what is wrong with lines of ``SHA256SUMS`` alone, and with anything else, as `verify` does."""
        if self._is_verified:
            return [], []
        self._forget()
        entries = self._list_entries()
        contents, found = records.read_contents(self.path)
        others = [problem for problem in found if problem not in contents.damaged_sums]
        if not others:
            self._keep(contents)
            self._is_verified = not found
            self._entries = entries
        return contents.damaged_sums, others

    def _keep(self, contents: Contents) -> None:
        self.session, self.plan, self.records = contents.session, contents.plan, contents.records
        self._plan_sha256, self._notes = contents.plan_sha256, contents.notes
        self._is_verified = True

    def _list_entries(self) -> object:
        """Return what differs once another process has written to the folder, or has put another in its place."""
        try:
            about = self.path.stat()
            names = (frozenset(os.listdir(self.path / each)) for each in ("trials", BLOCKS))
            return about.st_dev, about.st_ino, *names
        except OSError:
            return None

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Return when the session has these parameters; else `LedgerError` naming the ones that differ."""
        stored = self.session["parameters"]
        wanted = json.loads(canonical(parameters))
        differing = sorted(key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key))
        if differing:
            shown = "; ".join(f"{key}: recorded {stored.get(key)!r}, asked {wanted.get(key)!r}" for key in differing)
            raise LedgerError(
                f"{self.path} was made with other parameters ({shown}); name another session or use these"
            )

    # -------------------------------------------------------------------------------------------------- writing

    @contextmanager
    def opened(self, session: Mapping[str, Any], trials: Sequence[Trial]) -> Iterator[SessionFolder]:
        """Claim the session and begin it, or go on with it. See `claimed` and `begin`."""
        with self.claimed():
            self.begin(session, trials)
            yield self

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the only run of the session, which need not be there yet. See `ledger.claimed`."""
        with ledger.claimed(self.path):
            if self._entries != self._list_entries():
                self._forget()
            self._is_begun = False
            yield

    def begin(self, session: Mapping[str, Any], trials: Sequence[Trial]) -> None:
        """Create the claimed session, or go on with it.

        Raises `LedgerError` for a damaged file, other parameters or another plan, or a folder that cannot be written.
        """
        plan = _plan_bytes(trials)
        if not self.exists():
            session = {**session, "parameters_sha256": digest(session["parameters"], 64)}
            with ledger.locked_parent(self.path):
                _create(self.path, session, trials)
            self._keep(Contents(json.loads(json.dumps(session)), list(trials), sha256(plan).hexdigest()))
            self._is_begun = True
        self.check_parameters(session["parameters"])
        if (self._plan_sha256 or sha256(read_file(self.path, PLAN)).hexdigest()) != sha256(plan).hexdigest():
            why = "is not the plan that the same parameters give now; use a new session"
            raise LedgerError(f"{self.path / PLAN} {why}")
        if not self._is_begun:
            self.recover()
            self._is_begun = True

    def append_trial(self, record: TrialRecord, blobs: Mapping[str, bytes]) -> None:
        """Store a finished trial and its raw files, on disk and whole when this returns.

        Raises `LedgerError` when it cannot be written (a full disk, mostly); nothing half-written counts then.
        """
        files = dict(blobs) | {records.RECORD: canonical(record.as_json()).encode() + b"\n"}
        final = self.path / "trials" / record.trial.id
        if final.exists():
            raise LedgerError(f"{final} is already recorded; a session never writes a trial twice")
        try:
            sums = ledger.write_whole_folder(final, files)
            if "records" in self.__dict__:
                self.records[record.trial.id] = record  # it is there, whether its line can still be written or not
            ledger.append_sum(self.path, sums, f"trials/{final.name}/{SUMS}")
        except OSError as error:
            raise ledger.unwritable(final, error) from error

    def append_file(self, name: str, data: bytes) -> None:
        """Add a file such as ``provenance/HOST.json`` to the session; a name is written once and never again."""
        path = self.path / name
        if path.exists():
            raise LedgerError(f"{path} is already recorded; a session only grows")
        ledger.replace_file(path, data)
        try:
            ledger.append_sum(self.path, data, name)
        except OSError as error:
            raise ledger.unwritable(path, error) from error

    def append_block(self, trials: Sequence[Trial]) -> None:
        """Add a block to the plan: one more look was due, or another block was discarded."""
        self.append_file(records.block_file(trials[0].block, records.EXTRA), _plan_bytes(trials))
        if "plan" in self.__dict__:
            self.plan.extend(trials)

    def append_block_note(self, block: int, what: str, data: Mapping[str, Any]) -> None:
        """Store what there is to say about a block (`records.DISCARDED`, ``LOOK``, ``PROBE``); earlier words stay."""
        notes = self.notes(what)
        note = {"block": block, **data}
        text = json.dumps(note, sort_keys=True) + "\n"
        number = sum(each["block"] == block for each in notes)
        self.append_file(records.block_file(block, what, number), text.encode())
        notes.append(json.loads(text))
        self.__dict__.pop("discarded", None)

    def recover(self) -> None:
        """Remove what a killed writer left, and list what it did not list, or what damaged lines of the sums named.

        Trials have sums of their own, and the holder of the claim has compared parameters and plan with what it asks
        for. Only that holder may call it. Raises `LedgerError` naming every damaged file first.
        """
        lines, found = self._examine()
        if found:
            faults = "; ".join(found[:5])
            raise LedgerError(f"{self.path} is damaged and is not continued: {faults}. Restore it from a copy")
        try:
            for part in ("trials", "provenance", BLOCKS):
                for leftover in list(self.path.glob(f"{part}/{TMP}*")):
                    _remove(leftover)
            listed, torn = read_sums(self.path / SUMS, [])
            for problem in lines:
                log.warning("%s; it is written anew from the files that are there", problem)
            if torn or lines:
                whole = "".join(line(value, name) for name, value in listed.items()).encode()
                ledger.replace_file(self.path / SUMS, whole)
            for name in records.unlisted(self.path, listed):
                ledger.append_sum(self.path, read_file(self.path, name), name)
        except OSError as error:
            raise ledger.unwritable(self.path, error) from error

    def finalize(self) -> None:
        """List what the writer of a session that is complete did not list, being killed just before it would have.

        A folder that cannot be written, or that another has, stays as it is: it is sound in any case.
        """
        lines = list[str]()
        listed, torn = read_sums(self.path / SUMS, lines)
        if torn or lines or records.unlisted(self.path, listed):
            with suppress(LedgerError, OSError), self.claimed():
                self.recover()


def _create(folder: Path, session: Mapping[str, Any], trials: Sequence[Trial]) -> None:
    temporary = folder.with_name(TMP + folder.name)
    try:
        for left in temporary.iterdir():  # its maker was killed
            if left.name != ledger.LOCK:  # that of the claim
                _remove(left)
        about = (json.dumps(session, indent=1, sort_keys=True) + "\n").encode()
        files = {records.SESSION: about, PLAN: _plan_bytes(trials)}
        sums = "".join(line(sha256(data).hexdigest(), name) for name, data in sorted(files.items()))
        ledger.write_folder(temporary, {**files, SUMS: sums.encode()}, folders=("trials", "provenance", BLOCKS))
        os.rename(temporary, folder)
        ledger.sync(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ledger.unwritable(folder, error) from error


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _plan_bytes(trials: Sequence[Trial]) -> bytes:
    return "".join(canonical(trial.as_json()) + "\n" for trial in trials).encode()
