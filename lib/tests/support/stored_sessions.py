"""A small sound session on disk, and the change of a file of it that no sum shows."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from infrabench.core import Measurement, Trial, TrialRecord, digest, trial_id
from infrabench.ledger.session_folder import SessionFolder

PARAMETERS = {"study": "containers", "seed": 1}
WHAT = {
    "study": "containers", "title": "Containers", "profile": "quick", "seed": 1, "blocks": 3, "systems": ["native"],
    "baseline": "native", "workloads": ["null"], "site": {"name": "lab", "kind": "lab"}, "not_run": {}, "left_out": {},
    "margins": {"": 0.05}, "primary": [], "created_utc": "2026-01-01T00:00:00Z", "format": 1,
}  # fmt: skip


def write_session(folder: Path, **more: Any) -> Path:
    """Write a sound session of three trials; `more`: fields of its ``session.json``."""
    parameters = more.pop("parameters", PARAMETERS)
    plan = [Trial("", number, number, "native", "null", "default", {}, None, None, 1.0) for number in range(3)]
    plan = [replace(trial, id=trial_id("containers", 1, trial)) for trial in plan]
    about = {**WHAT, "parameters": parameters, "parameters_sha256": digest(parameters, 64), **more}
    with SessionFolder(folder).opened(about, plan) as stored:
        for trial in plan:
            step = {"name": "tool", "argv": ["true"], "status": 0, "duration_s": 1.0, "started_s": 0.0}
            step |= {"timed_out": False, "phase": "measure", "role": "server"}
            record = TrialRecord(
                trial, "ok", "", "2026-01-01T00:00:00.000Z", 1.0, 0.5, (step,),
                (Measurement("wall_s", 0.5, "s", "lower"),), {},
            )  # fmt: skip
            stored.append_trial(record, {"tool.stdout": b"out"})
        stored.append_file("provenance/server.json", b"{}")
        stored.append_file("provenance/deployments.json", json.dumps({"native": {"facts": {}, "tools": {}}}).encode())
    return folder


def reseal(folder: Path, name: str, data: bytes) -> None:
    """Replace a file of a session, and the lines of sums that speak of it."""
    old = sha256((folder / name).read_bytes()).hexdigest()
    (folder / name).write_bytes(data)
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(old, sha256(data).hexdigest()))
    with suppress(FileNotFoundError):
        own = (folder / name).parent / "SHA256SUMS"
        if own != sums:
            before = own.read_bytes()
            own.write_text(own.read_text().replace(old, sha256(data).hexdigest()))
            after = own.read_bytes()
            sums.write_text(sums.read_text().replace(sha256(before).hexdigest(), sha256(after).hexdigest()))
