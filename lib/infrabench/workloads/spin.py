"""spin: `chunks` of fixed work (SHA-256 of 1 MiB each) on one core, slowed by a known share where the target says so.

A calibration of the whole chain from trial to verdict: the environment variable ``INFRABENCH_BUSY_SHARE`` of the target
adds a busy-wait of that share to every chunk, so the true ratio of rates is 1 / (1 + share). Nothing is learnt about a
system from it. Metrics: ``chunks_per_s`` (chunks / time) and ``total_s``. The digest proves that the work was done.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from infrabench.core import Capture, Measurements, Param, Params, Roles, Step, Steps
from infrabench.core.workloads import script_command
from infrabench.workloads._parse import at, equal, higher, json_object, lower, positive, text, value

PARAMS = {"chunks": Param(1000, least=1, meaning="chunks of 1 MiB that are hashed", work=True)}
PROGRAMS = {"server": {"python3": "python3"}}
VERSION = ("python3", "--version"), r"^Python (\S+)$"
TOOL = "spin probe"
PROBE = Path(__file__).with_name("_spin_probe.py")
BLOCK = bytes(range(256)) * 4096
SLOWEST_CHUNK_S = 0.5
METRICS = {"chunks_per_s": "fixed-work rate", "total_s": "total time"}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the one run."""
    argv = (*script_command(PROBE), str(params["chunks"]))
    return (Step("spin", "server", argv, timeout_s=30.0 + params["chunks"] * SLOWEST_CHUNK_S),)


def parse(capture: Capture) -> Measurements:
    """Return rate and time; `ParseError` unless all chunks were hashed."""
    report = json_object(TOOL, text(capture["spin"]))
    chunks = int(capture.params["chunks"])
    equal(TOOL, "chunks", value(TOOL, report, "chunks"), float(chunks))
    equal(TOOL, "the digest of all chunks", at(TOOL, report, "sha256"), _digest(chunks))
    total_s = positive(TOOL, "seconds", value(TOOL, report, "seconds"))
    return (*higher("1/s", chunks_per_s=chunks / total_s), *lower("s", total_s=total_s))


@cache
def _digest(chunks: int) -> str:
    digest = hashlib.sha256(BLOCK)
    for _ in range(chunks):
        digest.update(BLOCK)
    return digest.hexdigest()
