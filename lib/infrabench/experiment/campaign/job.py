"""One job of a campaign, as its engine starts it: ``python -m infrabench.experiment.campaign.job JOBS ID``.

It runs the study's notebook in a process of its own, and succeeds when the ledger says that the session is complete,
whatever files there are. While it runs it holds its site; and it ends with the engine that started it, however that
ends, so that nobody measures on behalf of a campaign that is gone. What it was asked for stands in the file `JOBS`.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError, locks
from infrabench.core.locks import hold_lock, wait_until_free
from infrabench.experiment.campaign import plan
from infrabench.ledger import catalogue
from infrabench.ledger.ledger import replace_file
from infrabench.machines.hosts.interrupts import raise_once

# Jobs of an engine that was killed take so long, at most, to take down what they started.
SITE_S = 180.0
GRACE_S = 90.0
LOOK_S = 0.2
TAIL_BYTES = 8192
ERROR = "infrabench: "  # what the command line begins an error with

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Do one job and return its exit status: 0 when its session is complete."""
    started = json.loads(Path(argv[0]).read_text())
    spec = next(each for each in started["jobs"] if each["id"] == argv[1])
    os.environ[catalogue.VARIABLE] = started["home"]
    with raise_once(log.info):  # a second interrupt cuts nothing short of what the first one takes down
        return _carry_out(started, spec)


def _carry_out(started: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    lifeline = Path(started["lifeline"]) if started["lifeline"] else None
    if lifeline is not None and not locks.is_locked(lifeline):
        return 1  # the next start does it
    write(spec, "begun", None)
    try:
        with hold_lock(Path(spec["lock"]), "its site is being measured by another campaign", SITE_S) as descriptor:
            why = _run_notebook(started, spec, lifeline, descriptor)
        ledger = plan.read_stand(plan.rebuild_job(spec))
    except InfrabenchError as error:
        write(spec, "failed", plan.one_line(error))
        return 1
    if ledger.state != "complete":
        write(spec, "failed", why or "the notebook ended before its session was complete")
        return 1
    # A notebook that fails after it has measured is no reason to stop measuring its site.
    write(spec, "failed" if why else "finished", why)
    Path(spec["made"]).touch()
    return 0


def read(state: Path) -> dict[str, Any]:
    """Return what a job last said of itself, if it did: ``event`` (begun, failed, finished), ``reason`` and ``utc``."""
    try:
        return json.loads(state.read_text())
    except (FileNotFoundError, ValueError):  # a job that was killed while it wrote has said nothing
        return {}


def write(spec: Mapping[str, Any], event: str, reason: str | None) -> None:
    """Let a job say of itself what happened, and why."""
    utc = datetime.now(UTC).isoformat(timespec="seconds")
    replace_file(Path(spec["state"]), json.dumps({"event": event, "reason": reason, "utc": utc}).encode())


def _run_notebook(
    started: Mapping[str, Any], spec: Mapping[str, Any], lifeline: Path | None, descriptor: int
) -> str | None:
    """Execute the notebook and return None, or in words why it failed."""
    log = Path(spec["log"])
    log.parent.mkdir(parents=True, exist_ok=True)
    given = [word for name, value in spec["notebook_parameters"].items() for word in ("-p", name, json.dumps(value))]
    notebook = ("-m", "infrabench.cli", "notebook", "run", spec["notebook"], spec["out"], *given)
    with log.open("ab") as output:
        begin = output.tell()
        child = subprocess.Popen(
            ("setpriv", "--pdeathsig", "TERM", "--", started["python"], *notebook), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
            pass_fds=(descriptor,),  # should this process be killed, the site is held until the notebook has ended
        )  # fmt: skip
    ended_by_engine = threading.Event()

    def end_with_engine(lifeline: Path) -> None:
        wait_until_free(lifeline)
        ended_by_engine.set()
        _end(child)

    if lifeline is not None:
        threading.Thread(target=end_with_engine, args=(lifeline,), daemon=True).start()
    try:
        while child.poll() is None:  # not wait(): a signal that arrives just before it is handled only after it
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        _end(child)
        return "it was stopped"
    if ended_by_engine.is_set():
        return "the campaign was stopped"
    return None if child.returncode == 0 else _reason(log, begin, child.returncode)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a notebook politely, so that it takes down what it made; then not."""
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)


def _reason(log: Path, begin: int, status: int) -> str:
    """Return what the notebook's command said last, of what it wrote from `begin` on."""
    with log.open("rb") as file:
        file.seek(max(begin, log.stat().st_size - TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    return errors[-1] if errors else f"its notebook ended with status {status}; see {log}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
