"""Nights of one study on disk: small sessions with a planted change, and provenance that may change too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.analysis_fixtures import CASES, write_session

SYSTEMS = ("native", "docker", "lxc")
FEW = tuple(case for case in CASES if case[:2] in (("sysbench-cpu", "threads=1"), ("web", "users=1000")))
NIGHT_SD = 0.003  # of a system's speed, from night to night
HOST: dict[str, Any] = {
    "hostname": "server", "cpu": {"model_name": "Made-up 9"}, "kernel": {"release": "6.12.1"},
    "memory": {"total_bytes": 1 << 34},
}  # fmt: skip


def write_nights(
    root: Path, count: int, *, change: Mapping[tuple[int, str], float], kernel: Mapping[int, str] | None = None,
    docker: Mapping[int, str] | None = None, blocks: int = 6, seed: int = 3,
) -> list[Path]:  # fmt: skip
    """Write so many sessions of containers below a home and return their folders, oldest first.

    `change`: from the night of this number on, this system has so many times its speed; `kernel` and `docker`: the
    version from this night on.
    """
    rng = np.random.default_rng(seed)
    releases, versions = {0: "6.12.1"} | dict(kernel or {}), {0: "26.1.5"} | dict(docker or {})
    speed, folders = dict.fromkeys(SYSTEMS, 1.0), []
    for night in range(count):
        for (begin, system), factor in change.items():
            speed[system] *= factor if begin == night else 1.0
        effect = {name: value * float(np.exp(rng.normal(0, NIGHT_SD))) for name, value in speed.items()}
        when = datetime(2026, 1, 5, 2, tzinfo=UTC) + timedelta(days=night)
        folder = root / f"data/runs/containers/nightly-{when:%Y-%m-%d}"
        write_session(folder, blocks=blocks, systems=SYSTEMS, not_run={}, seed=seed + night, faults=False, cases=FEW,
                      effect=effect)  # fmt: skip
        path = folder / "session.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"created_utc": f"{when:%Y-%m-%dT%H:%M:%S}.000Z"}))
        host = HOST | {"kernel": {"release": _latest(releases, night)}}
        facts = {"docker": {"facts": {"version": _latest(versions, night)}, "tools": {"web": "2.3"}}}
        (folder / "provenance").mkdir()
        (folder / "provenance/server.json").write_text(json.dumps(host))
        (folder / "provenance/deployments.json").write_text(json.dumps(facts))
        folders.append(folder)
    return folders


def _latest(steps: Mapping[int, str], night: int) -> str:
    return steps[max(each for each in steps if each <= night)]
