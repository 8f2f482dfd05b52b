"""Files that lie beside the pages: figures and tables of a notebook, and the data of the sessions that it shows.

A trial's file is text: what was run, how it ended, the values that the parser found, and below them every output.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pandas as pd

from infrabench.analysis.export import PACKAGE, export
from infrabench.analysis.session_data import Session, open_session
from infrabench.analysis.spreadsheets import write_csv
from infrabench.analysis.tables import notation
from infrabench.core import InfrabenchError, LedgerError
from infrabench.core.names import file_name
from infrabench.experiment.provenance import labels
from infrabench.ledger import archive, catalogue
from infrabench.ledger.files import SUMS, list_files, read_file
from infrabench.ledger.records import RECORD, recorded
from infrabench.ledger.session_folder import SessionFolder
from infrabench.publish.report.answers import make_anchor
from infrabench.publish.report.executed import Executed, Hide

log = logging.getLogger(__name__)

FIGURE_KINDS = (".pdf", ".svg", ".png", ".json")
TABLE_KINDS = (".csv", ".parquet", ".md", ".tex")
TITLES = {".pdf": "PDF", ".svg": "SVG", ".png": "PNG", ".json": "JSON", ".csv": "CSV", ".md": "Markdown",
          ".tex": "LaTeX", ".parquet": "Parquet", ".ipynb": "notebook", ".xz": "archive", ".jpg": "JPEG",
          ".gif": "GIF"}  # fmt: skip
PLAN_COLUMNS = ("position", "block", "deployment", "system", "workload", "scenario", "seconds", "id")
PACKED = 20e6  # bytes of a session's raw output up to which it is packed unasked: some seconds of work
PACKED_ALL = 200e6  # the same of all sessions of a report
CSV_ROWS = 100_000  # of all sessions of a report, up to which they are there as CSV too: ten times as large as parquet
SLACK = 2  # seconds by which clocks of a file system and of a kernel may differ
MONITOR = "monitor-"  # begins the name of what was sampled beside a trial
LONGEST = 100_000  # bytes of one output that are shown
RULE = "=" * 78


@dataclass(frozen=True)
class Picture:
    """A picture of a cell's output: its bytes, and what it shows in words."""

    data: bytes
    suffix: str
    alt: str

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes."""
        return sha256(self.data).hexdigest()


@dataclass(frozen=True)
class FileLink:
    """A file of the site: its address relative to the pages, what it is called, how large it is (bytes)."""

    href: str
    title: str
    size: int

    @property
    def title_and_size(self) -> str:
        """Title and size, as ``CSV, 1.2 MB``."""
        size = f"{self.size / 1e6:.1f} MB" if self.size >= 1e5 else f"{self.size / 1e3:.0f} kB"
        return f"{self.title}, {size}"


@dataclass(frozen=True)
class Figure:
    """A figure that a notebook shows: the address of its picture, its words, and the files it is in.

    `area` is the folder that it was saved in, empty where it was not; `width` is how wide it is shown where there is
    room (CSS pixels), 0 where it does not say how wide it is in print.
    """

    src: str
    alt: str
    area: str
    links: tuple[FileLink, ...]
    width: int

    @property
    def closer(self) -> str:
        """The address of the file for a closer look: lines where there are any, else the picture."""
        return next((link.href for link in self.links if link.title == TITLES[".svg"]), self.src)


class TrialValue(NamedTuple):
    """A trial in a table: its value as text, or its state; its id; the address of its raw output, empty without."""

    text: str
    trial: str
    href: str


@dataclass(frozen=True)
class BlockTable:
    """The values of one metric of one case: a row for each block, a list of trials for each system."""

    anchor: str
    title: str
    systems: tuple[str, ...]
    rows: tuple[tuple[int, tuple[tuple[TrialValue, ...], ...]], ...]


@dataclass(frozen=True)
class Data:
    """The data of one session: its files, and what there is to say where something is not among them; its trials.

    `folder`: where the session lies on the machine of the report.
    """

    session: str
    links: tuple[FileLink, ...]
    note: str
    blocks: tuple[BlockTable, ...] = ()
    folder: str = ""  # relative to the checkout


# Of a picture in lines: what names standards, and what may make a browser fetch something when it is opened.
STANDARDS = re.compile(rb"<!DOCTYPE[^>]*>|<metadata>.*?</metadata>|\bxmlns(?::\w+)?=\"[^\"]*\"", re.DOTALL)
ADDRESSES = re.compile(rb"[a-z]+:[/\\\\]|[/\\\\]{2}|&#|<script|<\?xml-stylesheet", re.IGNORECASE)


class Shelf:
    """The files of a site below `folder`, copied once each.

    `figures`, `tables`: folders with saved ones, as written by `figures.save` and `tables.save`; `raw`: pack every raw
    output of a session, however large; `hide`: what a note is put through.
    """

    def __init__(
        self, folder: Path, figures: Iterable[Path] = (), tables: Iterable[Path] = (), *, raw: bool = False,
        hide: Hide = str,
    ) -> None:  # fmt: skip
        self._folder, self._raw, self._hide = folder, raw, hide
        self._tables, places = (
            [Path(each) for each in dict.fromkeys(map(os.path.realpath, given)) if Path(each).is_dir()]
            for given in (tables, figures)
        )
        self._saved = {
            sha256(path.read_bytes()).hexdigest(): (path, place)
            for place in places
            for path in sorted(place.rglob("*.png"))
        }
        self._known: dict[str, Data] = {}
        self._rows = self._bytes = self._outputs = 0  # rows, bytes, and bytes that tools wrote, of the sessions so far

    def place(self, picture: Picture) -> Figure:
        """Keep a picture, with the files of the figure that it is where there are any; they are known by content."""
        saved, place = self._saved.get(picture.digest, (None, None))
        if saved is None or place is None:
            link = self._keep(f"files/pictures/{picture.digest[:16]}{picture.suffix}", picture.data)
            return Figure(link.href, picture.alt, "", (link,), 0)
        links = tuple(
            self._keep(f"files/figures/{path.relative_to(place).as_posix()}", path)
            for path in map(saved.with_suffix, FIGURE_KINDS)
            if path.is_file()
            and not (path.suffix == ".svg" and ADDRESSES.search(STANDARDS.sub(b"", path.read_bytes())))
        )
        src = next(link.href for link in links if link.title == TITLES[".png"])
        return Figure(src, picture.alt, saved.parent.name, links, _width(saved.with_suffix(".json")))

    def tables(self, executed: Executed, areas: Iterable[str]) -> dict[str, tuple[FileLink, ...]]:
        """Keep the tables that a notebook wrote, by name: those of its own folders and `areas`, as old as its run."""
        names = {*areas, *(told["name"] for told in executed.abstracts), executed.name, executed.study}
        patterns = [f"{glob.escape(name)}/*.md" for name in sorted(names) if name and file_name(name)]
        found = {}
        for folder in self._tables:
            for first in sorted(path for pattern in patterns for path in folder.glob(pattern)):
                if _written_by(executed, first):
                    kinds = [path for path in map(first.with_suffix, TABLE_KINDS) if path.is_file()]
                    found[first.relative_to(folder).with_suffix("").as_posix()] = tuple(
                        self._keep(f"files/tables/{path.relative_to(folder).as_posix()}", path) for path in kinds
                    )
        return found

    def notebook(self, name: str, text: str) -> FileLink:
        """Keep an executed notebook."""
        return self._keep(f"files/notebooks/{name}.ipynb", text.encode())

    def data(self, session: str) -> Data:
        """Keep the data of a session that is on this machine: tidy table, plan, and its archive.

        What was packed already is copied, what is small is packed. A report of many sessions stays small: beyond
        `CSV_ROWS` its tables are parquet alone, beyond `PACKED_ALL` raw output stays where it is.
        """
        if session not in self._known:
            self._known[session] = self._find_data(session)
        return self._known[session]

    def _find_data(self, session: str) -> Data:
        known = catalogue.sessions()
        if session not in map(catalogue.session_name, known.values()):
            return Data(session, (), "not on this machine, so its data are not here")
        try:
            folder = catalogue.find(None, session)
            if foreign := list_files(folder)[1]:  # a stranger's may have a link to a file of this user's in it
                raise LedgerError(foreign[0])
            log.info("data of %s", session)
            opened = open_session(folder)
            links = self._numbers(session, opened)
            archived, note = self._archive(session, folder, known.get(session, folder))
            blocks = tuple(make_tables(session, opened, self._keep_trials(session, folder)))
            return Data(session, (*links, *archived), self._hide(note), blocks, self._hide(str(folder)))
        except InfrabenchError as error:
            return Data(session, (), self._hide(f"cannot be read: {error}"))

    def _numbers(self, session: str, opened: Session) -> list[FileLink]:
        folder = opened.folder
        self._rows += len(opened.table)
        kinds = (".csv", ".parquet") if self._rows <= CSV_ROWS else (".parquet",)
        for suffix in kinds:
            export(opened, suffix[1:], self._folder / f"files/data/{session}{suffix}")
        names = labels.of(folder)
        trials = [trial.as_json() for trial in SessionFolder(folder).awaited]
        plan = pd.DataFrame(trials, columns=list(PLAN_COLUMNS), dtype="object")
        write_csv(plan.assign(system=plan["system"].replace(names)), self._folder / f"files/data/{session}-plan.csv")
        links = [self._link(f"files/data/{session}{suffix}") for suffix in kinds]
        others = ((f".parquet{PACKAGE}", "columns (JSON)"), ("-plan.csv", "plan (CSV)"))
        links += [replace(self._link(f"files/data/{session}{name}"), title=title) for name, title in others]
        return links

    def _archive(self, session: str, folder: Path, source: Path) -> tuple[list[FileLink], str]:
        """Keep the archive of a session; without one, say why."""
        name = f"files/data/{session}{catalogue.ARCHIVE}"
        size = sum((folder / each).lstat().st_size for each in list_files(folder)[0])
        self._bytes += size
        few = self._raw or self._bytes <= PACKED_ALL
        if source.is_file() and few:
            return [self._keep(name, source)], ""
        if not self._raw and (size > PACKED or not few):
            note = f"every raw output, {size / 1e6:.0f} MB unpacked, is not here: `infrabench report --raw` packs it"
            return [], note
        try:
            archive.pack(folder, self._folder / name)
        except LedgerError as error:
            return [], f"its raw output is not here: {error}"
        return [self._link(name)], ""

    def _keep_trials(self, session: str, folder: Path) -> dict[str, str]:
        """Keep the raw output of a session's trials where it is small or asked for; return its address by trial."""
        trials = [folder / "trials" / name for name in sorted(recorded(folder)) if not name.startswith(".")]
        size = sum(output.lstat().st_size for path in trials for output in list_outputs(path))
        self._outputs += size
        if not self._raw and self._outputs > PACKED:
            return {}
        return {
            path.name: self._keep(
                f"files/raw/{session}/{path.name}.txt", self._hide(render_trial(session, path)).encode()
            ).href
            for path in trials
        }

    def _keep(self, name: str, content: bytes | Path) -> FileLink:
        """Keep bytes, or a copy of a file, as `name`, and return a link to it."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            shutil.copyfile(content, path)
        return self._link(name)

    def _link(self, name: str) -> FileLink:
        path = self._folder / name
        return FileLink(quote(name), TITLES.get(path.suffix, path.suffix[1:]), path.stat().st_size)


def _width(car: Path) -> int:
    """Return how wide a figure is shown, from its side-car: somewhat larger than in print; 0 without one."""
    try:
        sidecar = json.loads(car.read_text(encoding="utf-8"))
        return notation.on_screen(sidecar["size_mm"][0])
    except (OSError, ValueError, LookupError, TypeError):  # some other picture of that content
        return 0


def _written_by(executed: Executed, path: Path) -> bool:
    """Tell whether a file was written while the notebook ran; where it does not say when, all are its own."""
    if executed.began is None:
        return True
    when = path.stat().st_mtime
    return executed.began - SLACK <= when and (executed.ended is None or when <= executed.ended + SLACK)


def list_outputs(trial: Path) -> list[Path]:
    """Return the files in a trial's folder that a tool wrote."""
    return [
        path
        for path in sorted(trial.iterdir())
        if path.name not in (SUMS, RECORD) and not path.name.startswith(MONITOR)
    ]


def make_tables(session: str, opened: Session, outputs: Mapping[str, str]) -> Iterator[BlockTable]:
    """Yield the values of every case of a session, by block: of its primary metrics, or of its first one without any.

    `outputs`: the address of a trial's raw output, by its id, of those that are here.
    """
    primary = {tuple(each) for each in opened.data["primary"]}
    for (workload, scenario), case in opened.table.groupby(["workload", "scenario"], sort=False, observed=True):
        metrics = list(dict.fromkeys(case["metric"].dropna()))
        chosen = [name for name in metrics if (workload, name) in primary] or metrics[:1]
        words = f"{workload}{'' if scenario == 'default' else f', {scenario}'}"
        for metric in chosen or [""]:
            of_metric = case[case["metric"] == metric]
            # a trial without a value has no metric, but a state
            rows = pd.concat([of_metric, case[~case["trial"].isin(of_metric["trial"])].drop_duplicates("trial")])
            scale = notation.scale(of_metric["value"], str(of_metric["unit"].iloc[0]) if len(of_metric) else "")
            cells: dict[int, dict[str, list[TrialValue]]] = {}
            for row in rows.sort_values(["block", "attempt"], kind="stable").itertuples(index=False):
                has_value = row.metric == metric and not pd.isna(row.value)
                text = notation.number(row.value / scale.factor) if has_value else row.state
                value = TrialValue(text, row.trial, outputs.get(row.trial, ""))
                cells.setdefault(int(row.block), {}).setdefault(row.system, []).append(value)
            shown = [name for name in opened.data["systems"] if any(name in block for block in cells.values())]
            yield BlockTable(
                make_anchor(session, str(workload), str(scenario)),
                f"{words}: {notation.metric_title(metric)}{scale.label}" if metric else words, tuple(shown),
                tuple((block, tuple(tuple(of.get(name, ())) for name in shown)) for block, of in sorted(cells.items())),
            )  # fmt: skip


def render_trial(session: str, trial: Path) -> str:
    """Return a trial as text: what was run, how it ended, its measurements, and what the tool wrote."""
    record = json.loads(read_file(trial.parent, f"{trial.name}/{RECORD}"))
    of = record["trial"]
    lines = [
        f"Trial {of['id']} of session {session}",
        f"{of['system']}, {of['workload']}, {of['scenario']}; block {of['block']}, position {of['position']}",
        f"{record['state']}{': ' + record['reason'] if record['reason'] else ''}; started {record['started_utc']}",
        "",
        *(f"{each['metric']} = {each['value']!r} {each['unit']}" for each in record["measurements"]),
    ]
    for step in record.get("steps", []):
        try:
            end = "timed out" if step["timed_out"] else f"status {step['status']}, {step['duration_s']:.3f} s"
            lines += [RULE, f"step {step['name']}, {step['phase']}, at {step['role']}: {end}"]
            lines.append(" ".join(map(json.dumps, step["argv"])))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{trial / RECORD} does not have the fields of a step: {error}") from error
    for path in list_outputs(trial):
        data = read_file(trial.parent, f"{trial.name}/{path.name}")
        more = f", the first {LONGEST} of them" if len(data) > LONGEST else ""
        lines += [RULE, f"{path.name}: {len(data)} bytes{more}", data[:LONGEST].decode("utf-8", "replace")]
    return "\n".join(lines) + "\n"
