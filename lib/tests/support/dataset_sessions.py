"""Sessions to tidy: synthetic ledgers with what a recorded one has that the analysis' fixtures leave out."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from infrabench.ledger.files import SUMS, line
from tests.support.analysis_fixtures import write_session


def ledger(folder: Path, *, site: str = "lab", emulated: bool = False, **how: Any) -> Path:
    """Write a session with sums and the provenance of one host; `emulated`: lxc says so of itself."""
    made = write_session(folder, **how)
    path = made / "session.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"site": {"name": site, "kind": "inventory"}}))
    (made / "provenance").mkdir()
    (made / "provenance" / "server.json").write_text(json.dumps({"cpu": {"model_name": "a processor"}}))
    facts = {"native": {}, "docker": {}, "lxc": {"emulated": True} if emulated else {}}
    told = {name: {"facts": each, "tools": {}} for name, each in facts.items()}
    (made / "provenance" / "deployments.json").write_text(json.dumps(told))
    return sealed(made)


def sealed(session: Path) -> Path:
    """Write the sums of a session anew: every file outside its trials is named, trials are still to be listed."""
    paths = [path for path in sorted(session.rglob("*")) if path.is_file() and "trials" not in path.parts]
    named = [(path.relative_to(session).as_posix(), path.read_bytes()) for path in paths if path.name != SUMS]
    (session / SUMS).write_text("".join(line(sha256(data).hexdigest(), name) for name, data in named))
    return session


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
