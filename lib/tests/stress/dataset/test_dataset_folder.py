"""A data set is brought up to date and never half: what is unchanged is not read, what is foreign is named."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path

from infrabench.analysis.dataset import folder, part
from infrabench.ledger.files import TMP
from tests.support import dataset_sessions as sessions
from tests.unit.dataset import test_dataset_folder
from tests.unit.dataset.test_dataset_folder import updated

two = test_dataset_folder.two  # the fixture of the module beside it in the gate

KILLS = 12


def _write_again_and_again(names: list[Path], root: Path) -> None:
    while True:
        for each in folder.update(names, root):
            part.write(names[0] if each.part.session == "s1" else names[1], each.part.folder)


def test_a_writer_that_is_killed_leaves_whole_parts_only(two: list[Path], tmp_path: Path) -> None:
    root, rng = tmp_path / "d", random.Random(20200315)
    begin = time.monotonic()
    updated(two, tmp_path / "right")
    latest_s = 2 * (time.monotonic() - begin)  # a busy machine writes slowly
    moments = [latest_s * (kill + rng.random()) / KILLS for kill in range(KILLS)]
    rng.shuffle(moments)
    right = sessions.contents(tmp_path / "right")
    context, seen = multiprocessing.get_context("fork"), set()
    for kill in range(KILLS):
        if kill % 3 == 0:
            shutil.rmtree(root, ignore_errors=True)
        child = context.Process(target=_write_again_and_again, args=(two, root))
        child.start()
        time.sleep(moments[kill])
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join(30)
        assert child.exitcode == -signal.SIGKILL
        found, left_out = folder.parts(root) if folder.is_one(root) else ([], [])
        assert left_out == []
        for each in found:
            part.verify(each)
            own = {name: data for name, data in right.items() if f"/{each.session}/" in name}
            assert {f"containers/lab/{each.session}/{name}": data
                    for name, data in sessions.contents(each.folder).items()} == own  # fmt: skip
        seen.add(len(found))
        if kill % 3 == 2:
            updated(two, root)
            written = sessions.contents(root).items()
            assert {name: data for name, data in written if TMP not in name} == right
    assert len(seen) > 1  # some were killed early, some late
