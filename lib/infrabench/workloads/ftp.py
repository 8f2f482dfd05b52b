"""ftp: the client downloads one file of ``size_bytes`` from vsftpd with curl.

Metrics: ``total_s`` (from the start of curl's work, log-in included, to the last byte), ``first_byte_s`` (to the
first byte of the file) and ``transfer_B_per_s`` (bytes / total time). The file is made once in a target and is then
the same; reading it for its SHA-256 before each download leaves it in the page cache, so storage is warm in every
trial. The client keeps what it got in memory (``client_directory``) and its SHA-256 is compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, Measurement, ParseError, Step, Target
from infrabench.workloads._reading import (
    MIB,
    SHA256,
    at,
    at_least,
    equal,
    json_object,
    missing,
    one,
    positive,
    text,
    tool_version,
    value,
)

DEFAULTS: Mapping[str, Any] = {"size_bytes": 64 * MIB, "port": 18021, "client_directory": "/dev/shm"}
TOOL = "curl"
FOLDER = "/srv/infrabench/ftp"
COPY = "infrabench-ftp.bin"
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang
MAKE = 'ib-data "$1" "$2" && sha256sum "$1"'
COMPARE = 'sha256sum "$1"; status=$?; rm -f "$1"; exit $status'


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return making the file, start, readiness (the client gets the directory), download, comparison and stop."""
    size = params["size_bytes"]
    at_least("size_bytes", size, 1)
    url = f"ftp://{roles['server'].address}:{params['port']}/"
    copy = f"{params['client_directory']}/{COPY}"
    patience_s = 60.0 + size / SLOWEST_B_PER_S
    curl = ("curl", "--silent", "--show-error", "--ipv4")
    source = f"{FOLDER}/{size}.bin"
    download = (*curl, "--output", copy, "--write-out", "%{json}", f"{url}{size}.bin")
    return (
        Step("file", "server", ("sh", "-c", MAKE, "sh", source, str(size)), timeout_s=patience_s, phase="prepare"),
        Step("start", "server", ("ib-service", "start", "ftp"), phase="prepare"),
        Step(
            "ready", "client", (*curl, "--max-time", "2", "--list-only", "--output", "/dev/null", url),
            timeout_s=5.0, phase="prepare", until_ok_s=20.0,
        ),
        Step("download", "client", download, timeout_s=patience_s),
        Step("compare", "client", ("sh", "-c", COMPARE, "sh", copy), timeout_s=patience_s, phase="cleanup"),
        Step("stop", "server", ("ib-service", "stop", "ftp"), phase="cleanup"),
    )  # fmt: skip


def version(target: Target) -> str:
    """Return curl's version; the FTP server's is that of the image."""
    return tool_version(target, TOOL, r"^curl (\S+) ", TOOL, "--version")


def supported(deployment: Deployment) -> str | None:
    """Return None, or which part of the FTP server is missing."""
    return missing(deployment, "vsftpd", "ib-service", "ib-data")


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return total time, time to the first byte and transfer rate; `ParseError` when the copy is not the file."""
    report = json_object(TOOL, text(capture["download"]))
    equal(TOOL, "exitcode", at(TOOL, report, "exitcode"), 0)
    size = value(TOOL, report, "size_download")
    equal(TOOL, "size_download", size, float(capture.params["size_bytes"]))
    pattern = rf"\A({SHA256})  \S+\n\Z"
    sent = one("sha256sum", "the hash of the file", pattern, text(capture["file"]))[1]
    received = one("sha256sum", "the hash of the copy", pattern, text(capture["compare"]))[1]
    equal("sha256sum", "the hash of the copy", received, sent)
    total_s = positive(TOOL, "time_total", value(TOOL, report, "time_total"))
    first_s = positive(TOOL, "time_starttransfer", value(TOOL, report, "time_starttransfer"))
    if first_s > total_s:
        raise ParseError(TOOL, f"the first byte came after {first_s:g} s of {total_s:g} s", text(capture["download"]))
    return (
        Measurement("total_s", total_s, "s", "lower"),
        Measurement("first_byte_s", first_s, "s", "lower"),
        Measurement("transfer_B_per_s", size / total_s, "B/s", "higher"),
    )
