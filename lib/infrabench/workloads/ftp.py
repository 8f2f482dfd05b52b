"""ftp: the client downloads one file of ``size_bytes`` from vsftpd with `ib-ftp` (lab/guest/), into memory.

Metrics: ``total_s`` (from opening the connection, log-in included, to the last byte), ``first_byte_s`` (to the first
byte of the file) and ``transfer_B_per_s`` (bytes / total time). The file is made once in a target and is then the
same; reading it for its SHA-256 before each download leaves it in the page cache, so storage is warm in every trial.
The client reports the SHA-256 of what it got, which must be that of the file.
"""

from __future__ import annotations

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads._parse import MIB, at, equal, higher, json_object, lower, one, positive, text, value

PARAMS = {
    "size_bytes": Param(64 * MIB, least=1, unit="B", meaning="size of the file"),
    "port": Param(18021, least=1, most=65535, meaning="port of the server"),
}
PROGRAMS = {"server": {"vsftpd": "vsftpd", "ib-service": "", "ib-data": ""}, "client": {"ib-ftp": ""}}
VERSION = ("ib-ftp", "--version"), r"^ib-ftp (.+)$"
TOOL = "ib-ftp"
FOLDER = "/srv/infrabench/ftp"
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang
MAKE = 'ib-data "$1" "$2" && sha256sum "$1"'
METRICS = {"total_s": "time", "first_byte_s": "time", "transfer_B_per_s": "fixed-work rate"}


def plan(params: Params, roles: Roles) -> Steps:
    """Return making the file, start, readiness (the client can log in), download and stop."""
    size = params["size_bytes"]
    server = ("--address", roles["server"].address, "--port", str(params["port"]))
    patience_s = 60.0 + size / SLOWEST_B_PER_S
    make = ("sh", "-c", MAKE, "sh", _file(size), str(size))
    get = (TOOL, "get", *server, "--file", f"{size}.bin", "--bytes", str(size))
    return (
        Step("file", "server", make, timeout_s=patience_s, phase="prepare"),
        Step("start", "server", ("ib-service", "start", "ftp"), phase="prepare"),
        Step("ready", "client", (TOOL, "ready", *server), timeout_s=5.0, phase="prepare", until_ok_s=20.0),
        Step("download", "client", get, timeout_s=patience_s),
        Step("stop", "server", ("ib-service", "stop", "ftp"), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return total time, time to the first byte and transfer rate; `ParseError` when the copy is not the file."""
    report = json_object(TOOL, text(capture["download"]))
    size = value(TOOL, report, "bytes")
    equal(TOOL, "bytes", size, float(capture.params["size_bytes"]))
    sent = one("sha256sum", "the hash of the file", r"\A([0-9a-f]{64})  (\S+)\n\Z", text(capture["file"]))
    equal("sha256sum", "the file", sent[2], _file(capture.params["size_bytes"]))
    equal(TOOL, "the hash of the copy", at(TOOL, report, "sha256"), sent[1])
    total_s, first_s, login_s = (
        positive(TOOL, name, value(TOOL, report, name)) for name in ("total_s", "first_byte_s", "login_s")
    )
    if not login_s <= first_s <= total_s:
        spoken = f"logged in after {login_s:g} s, the first byte came after {first_s:g} s of {total_s:g} s"
        raise ParseError(TOOL, spoken, text(capture["download"]))
    return (*lower("s", total_s=total_s, first_byte_s=first_s), *higher("B/s", transfer_B_per_s=size / total_s))


def _file(size_bytes: int) -> str:
    return f"{FOLDER}/{size_bytes}.bin"
