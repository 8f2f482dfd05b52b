"""Drawn variants of what once was lost, mixed or touched, where no other part of the storm draws any.

Which part draws which kind stands in a table in ``docs/testing.md``.
"""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import random
import signal
import stat
import string
import subprocess
import sys
import threading
import time
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from infrabench import registry
from infrabench.core import LedgerError, SiteError
from infrabench.experiment.provenance import code
from infrabench.ledger import ledger
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.sites import redaction
from infrabench.stats import contrasts
from infrabench_platforms import lab
from infrabench_platforms.lab import go_tools, images, shell
from tests.support.analysis_fixtures import table_of
from tests.support.storm import SEED, Note, size
from tests.unit import test_code, test_state_folder
from tests.unit.security import test_host_cache

# Fixtures of the modules of the gate that have the fixed cases.
begun, state = test_code.begun, test_state_folder.folder
cache, source = test_host_cache.cache, test_host_cache.source


def test_no_edit_of_what_makes_values_goes_on_with_a_session(begun: Path, note: Note) -> None:
    """1. A literal of a plug-in is another one: in the workload, its parser, or a system of the session."""
    rng = random.Random(SEED)
    paths = [
        begun / "plugins" / name for name in ("workloads/fake.py", "systems/fake_base.py", "systems/fake_other.py")
    ]
    for number in range(size(25, 1000)):
        path = rng.choice(paths)
        text = path.read_text()
        tree = ast.parse(text)
        words = [each for each in ast.walk(tree) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)]
        documentation = {id(each.value) for each in words}
        literals = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in documentation]
        chosen = rng.choice([each for each in literals if type(each.value) in (str, int, float)])
        before = chosen.value
        chosen.value = f"{before}x" if isinstance(before, str) else before + rng.choice((1, 0.5, -3))
        about = f"seed {SEED}, {number}: {path.name}:{chosen.lineno}: {before!r} is {chosen.value!r} now"
        try:
            test_code.edit(path, text, ast.unparse(tree) + "\n")
            with suppress(LedgerError):
                code.check_code(SessionFolder(begun / "s"), registry.study("fakes"), test_code.wanted())
                pytest.fail(about)
        finally:
            test_code.edit(path, path.read_text(), text)
    note("edits of code", number + 1, "each was refused")


def test_nothing_of_a_folder_that_is_not_ours_goes(state: Path, monkeypatch: pytest.MonkeyPatch, note: Note) -> None:
    """2. Whatever it holds, names of ours too, and whatever a marker of somebody else's says."""
    monkeypatch.setattr(lab, "require", lambda: None)
    rng = random.Random(SEED)
    names = ["lab", "images", "data", "go", "nodes", "lock", ".cache", "a b", "thesis.tex", "infrabench", "pods.lock"]
    uses = (lab.down, lab.purge, lab.up, go_tools.forget_caches, go_tools.purge, images.purge, shell.open_state_dir)
    for number in range(size(40, 2000)):
        folder = state.with_name(f"state{number}")
        monkeypatch.setenv("INFRABENCH_STATE", str(folder))
        for name in rng.sample(names, rng.randrange(1, 5)):
            path = folder / name if rng.random() < 0.5 else folder / name / rng.choice(names)
            with suppress(FileExistsError, NotADirectoryError):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to("/etc") if rng.random() < 0.2 else path.write_text(name)
        before = sorted((path, path.lstat().st_mode) for path in folder.rglob("*"))
        use = rng.choice(uses)
        with pytest.raises(SiteError, match="has other things in it"):
            use()
        assert sorted((path, path.lstat().st_mode) for path in folder.rglob("*")) == before, f"{number}: {use}"
    note("folders of others", number + 1, "each was refused and left as it was")


@pytest.mark.parametrize("file_system", ["local", "NFS"])
def test_a_session_never_has_two_runs(
    tmp_path: Path, file_system: str, monkeypatch: pytest.MonkeyPatch, note: Note
) -> None:
    """5, 16. Some come, some end, some wait, and the session begins or is removed meanwhile."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if file_system == "NFS" and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return  # known to one machine alone
        if (
            file_system == "NFS"
            and operation & fcntl.LOCK_EX
            and not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_RDWR
        ):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder, inside, most, runs = tmp_path / "study" / "s", [0], [0], [0]
    until = time.monotonic() + size(4, 60)

    def contend(rng: random.Random) -> None:
        while time.monotonic() < until:
            with suppress(LedgerError), ledger.claimed(folder):
                inside[0] += 1
                most[0], runs[0] = max(most[0], inside[0]), runs[0] + 1
                time.sleep(rng.random() / 100)
                if not folder.exists() and rng.random() < 0.7:
                    os.rename(folder.with_name(ledger.TMP + folder.name), folder)
                time.sleep(rng.random() / 100)
                inside[0] -= 1
            time.sleep(rng.random() / 100)

    threads = [threading.Thread(target=contend, args=(random.Random(SEED + each),)) for each in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most == [1]
    assert not ledger.is_being_written(folder)
    note(f"claims of a session, {file_system}", runs[0], "one at a time")


def test_equal_systems_of_which_one_loses_its_slowest_are_not_called_different(note: Note) -> None:
    """7. A rate or a time, few or many blocks, and whatever ended the slowest trials."""
    rng, drawn = np.random.default_rng(SEED), size(60, 2000)
    wrong = 0
    for _ in range(drawn):
        blocks, better = int(rng.integers(12, 60)), str(rng.choice(["higher", "lower"]))
        share, spread = rng.uniform(0.1, 0.5), rng.uniform(0.005, 0.2)
        values = {name: list(100 * np.exp(spread * rng.normal(size=blocks))) for name in ("native", "docker")}
        order = np.argsort(values["docker"])[:: 1 if better == "higher" else -1]
        lost = set(order[: max(3, round(share * blocks))].tolist())
        kept = [None if each in lost else value for each, value in enumerate(values["docker"])]
        table = table_of(values | {"docker": kept}, better=better)
        state = str(rng.choice(["timeout", "failed", "unparsable"]))
        table.loc[table["state"] == "failed", "state"] = state
        wrong += contrasts(table, "native", {"": 0.02}).iloc[0]["verdict"].startswith("different")
    assert wrong <= max(3, 0.06 * drawn), f"seed {SEED}: {wrong} of {drawn}"  # 5 % are, without any loss
    note("slowest trials lost", drawn, f"{wrong} called different")


def test_what_lies_in_a_cache_is_what_would_be_copied(cache: Path, source: Path, note: Note) -> None:
    """11. Some bytes, the length, the mode or the kind of what is there are others."""
    rng = random.Random(SEED)
    image = rng.randbytes(5000)
    source.write_bytes(image)
    path = cache / test_host_cache.NAME
    for number in range(size(25, 500)):
        test_host_cache._upload(source)
        data = bytearray(image)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        change = rng.choice(("bytes", "short", "long", "open", "link", "folder"))
        if change == "link":
            path.rename(path.with_name("other"))
            path.symlink_to("other")
        elif change == "folder":
            path.unlink()
            path.mkdir()
        elif change == "open":
            path.chmod(rng.choice((0o666, 0o664, 0o646)))
        else:
            path.write_bytes({"bytes": data, "short": image[: rng.randrange(5000)], "long": image + b"\0"}[change])
        assert test_host_cache._upload(source) == ["Copying the guest image to server"], (SEED, number, change)
        assert path.read_bytes() == image
        assert stat.S_IMODE(path.lstat().st_mode) & 0o022 == 0
    note("changed caches", number + 1, "each was copied anew")


def forms(address: IPv4Address | IPv6Address, rng: random.Random) -> str:
    """Return a way in which a program may write an address."""
    if isinstance(address, IPv6Address):
        dotted = f"{address.exploded[:29]}:{IPv4Address(address.packed[12:])}"
        form = rng.choice((str(address), address.exploded, dotted, address.reverse_pointer, address.packed.hex()))
        return rng.choice((form, form.upper(), f"[{form}]"))
    parts = str(address).split(".")
    padded, sign = [each.zfill(3) for each in parts], rng.choice("-_")
    mapped, hexed = IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed), address.packed.hex()
    return rng.choice((
        str(address), f"::ffff:{address}", str(mapped), mapped.exploded, f"ip-{sign.join(parts)}.x",
        sign.join(parts[::-1]), ".".join(padded), f"h{sign.join(padded)}", address.reverse_pointer,
        f"64:ff9b::{hexed[:4]}:{hexed[4:]}", f"{hexed}:1F90",
    ))  # fmt: skip


def test_no_form_of_an_address_and_no_password_is_kept(note: Note) -> None:
    """13. Among numbers and texts that stay as they are, byte for byte."""
    rng = random.Random(SEED)
    for number in range(size(1000, 100_000)):
        every = [ip_address(rng.randbytes(4 if rng.random() < 0.6 else 16)) for _ in range(rng.randrange(1, 41))]
        private = {str(each): "server" for each in every}
        chosen = rng.choice(every)
        signs = string.ascii_letters + string.digits + "!$%^&*()-_=+[]{};:|~.,<>/?#" * 2
        password = f"Z{''.join(rng.choice(signs) for _ in range(rng.randrange(1, 300)))}qZ"
        user = rng.choice(("me", "me@x.org", "", "o'brien"))
        password = password.replace("://", ":/")  # with a blank, as docs/security.md says, a part of it may stay
        password = rng.choice((password, quote(password, safe=""), f"{password} {password}"))
        host = rng.choice(("h", "h.org", "[2001:db8::1]"))
        url = rng.choice(("%s", '"%s"', "Get %s: refused")) % f"redis://{user}:{password}@{host}:80/x"
        before, after = (f"{rng.random()} MB/s {rng.randrange(256)}.{rng.random()}, at 12:34:56 " for _ in range(2))
        said = f"{before}{forms(chosen, rng)} {after}\n{url} {after}"
        kept = redaction.text(said, private)
        about = f"seed {SEED}, {number}: {said!r} became {kept!r}"
        assert "server" in kept, about
        assert "qZ" not in kept, about
        assert kept.startswith(before), about
        assert after in kept, about
        assert kept.endswith(after), about
    note("addresses and passwords", number + 1, "none was kept")


CHILD = """
import pathlib, sys, time
from infrabench.machines.hosts.interrupts import raise_once
try:
    with raise_once(lambda line: None):
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            for _ in range(10):
                time.sleep(0.03)
            pathlib.Path(sys.argv[1]).write_text("taken down")
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_no_signals_cut_a_take_down_short(tmp_path: Path, note: Note) -> None:
    """14. Which come, how many, and when."""
    rng, sent = random.Random(SEED), 0
    for number in range(size(5, 100)):
        end = tmp_path / str(number)
        argv = ["env", "--default-signal", sys.executable, "-c", CHILD, str(end)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            for _ in range(rng.randrange(1, 8)):
                child.send_signal(rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
                sent += 1
                time.sleep(rng.random() / 15)
            assert child.wait(30) == 130, f"seed {SEED}, {number}"
        assert end.read_text() == "taken down"
    note("signals in a take-down", sent, "all was taken down")
