"""iozone: sequential write, rewrite, read and reread of one file in small records, by IOzone.

The file lies in ``directory`` of the target, so on the system's own root storage, and is removed by the tool. Times
of writing include fsync and close. Reading finds what the page cache kept of the file: with a file smaller than the
memory limit that is all of it (a warm cache, the same for every system), unless ``direct`` opens it with O_DIRECT.
Metrics ``write_``, ``rewrite_``, ``read_`` and ``reread_B_per_s``; IOzone's kB are 1024 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads._parse import KIB, MIB, at_least, equal, higher, one, positive, quantity, text

PARAMS = {
    "size_bytes": Param(64 * MIB, least=KIB, unit="B", meaning="size of the file"),
    "record_bytes": Param(4 * KIB, least=KIB, unit="B", meaning="size of a record"),
    "directory": Param("/var/tmp", meaning="folder of the file in the target"),
    "direct": Param(False, meaning="open the file with O_DIRECT, past the page cache"),
}
PROGRAMS = {"server": {"iozone": "iozone3"}}
VERSION = ("iozone", "-v"), r"Version \$Revision: (\S+) \$$"
TOOL = "iozone"
READS = ("3.489", "3.507")
FILE = "infrabench-iozone.bin"
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang
ROW = (
    r"^ +random +random +bkwd +record +stride *\n"
    r"( +kB +reclen +write +rewrite +read +reread"
    r" +read +write +read +rewrite +read +fwrite +frewrite +fread +freread)\n"
    r"([ 0-9]+)\n\niozone test complete\.\n\Z"
)
COLUMNS = ("kB", "reclen", "write", "rewrite", "read", "reread")
OFF = 1  # a number ends where the name of its column does, or a place beside it; those of other tests are blank
METRICS = {f"{name}_B_per_s": "fixed-work rate" for name in COLUMNS[2:]}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the run, and the removal of the file that a killed run leaves."""
    at_least("size_bytes", params["size_bytes"], params["record_bytes"])
    if params["size_bytes"] % params["record_bytes"] or params["record_bytes"] % KIB:
        raise DesignError("iozone: size_bytes must be whole records, and record_bytes whole KiB")
    timeout_s = 60.0 + 4 * params["size_bytes"] / SLOWEST_B_PER_S
    return (
        Step("iozone", "server", _command(params), timeout_s=timeout_s),
        Step("remove", "server", ("rm", "-f", _file(params)), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return four rates in bytes per second; `ParseError` when the output is of another command, or lacks a column."""
    output, params = text(capture["iozone"]), capture.params
    one(TOOL, "its unit", r"^\tOutput is in kBytes/sec$", output)
    command = one(TOOL, "its command", r"^\tCommand line used: (.+?) *$", output)[1]
    equal(TOOL, "its command", command, " ".join(_command(params)))
    for words in ("Include fsync in write timing", "Include close in write timing"):
        one(TOOL, words, rf"^\t{words}$", output)
    direct = re.search(r"^\tO_DIRECT feature enabled$", output, re.MULTILINE) is not None
    equal(TOOL, "O_DIRECT", direct, bool(params["direct"]))
    row = _columns(*one(TOOL, "one complete row of results", ROW, output).groups())
    equal(TOOL, "file size in KiB", row["kB"], float(params["size_bytes"] // KIB))
    equal(TOOL, "record size in KiB", row["reclen"], float(params["record_bytes"] // KIB))
    return higher("B/s", **{f"{name}_B_per_s": positive(TOOL, name, row[name]) * KIB for name in COLUMNS[2:]})


def _command(params: Params) -> tuple[str, ...]:
    return (
        TOOL, "-i", "0", "-i", "1", "-r", f"{params['record_bytes'] // KIB}k", "-s", f"{params['size_bytes'] // KIB}k",
        "-e", "-c", *(("-I",) if params["direct"] else ()), "-f", _file(params),
    )  # fmt: skip


def _file(params: Params) -> str:
    return f"{params['directory']}/{FILE}"


def _columns(header: str, row: str) -> Mapping[str, float]:
    """Return the numbers of a row by the columns under which they stand; versions differ in how wide those are."""
    ends = [name.end() for name in re.finditer(r"\S+", header)][: len(COLUMNS)]
    cells = list(re.finditer(r"\d+", row))
    if len(cells) != len(ends) or any(abs(cell.end() - end) > OFF for cell, end in zip(cells, ends, strict=True)):
        raise ParseError(TOOL, f"expected a number under each of {', '.join(COLUMNS)}", f"{header}\n{row}")
    return {name: quantity(TOOL, name, cell[0]) for name, cell in zip(COLUMNS, cells, strict=True)}
