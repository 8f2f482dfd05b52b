"""What is done to the OpenZFS engine on a store node: python3 zvol_course.py CONFIG COURSE; prints one JSON object.

Standard library only, and the store's own program in /opt/infrabench/store. Blocks are 4 KiB and tell by their content
where they belong and which writing of that place they are, so that an old one is not taken for the newest.
"""

import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, "/opt/infrabench/store")

from node import daemons, disks, zfs
from node.config import StoreError, load
from node.damage import _overwrite as overwrite
from node.nbd import Client

BLOCK = 4096
MIB = 2**20
AREA = 128 * MIB
SMALL = 32 * MIB


def verb(*words):
    """Run a verb of the store as the harness does."""
    argv = [sys.executable, "/opt/infrabench/store/main.py", sys.argv[1], *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise StoreError(done.stderr)
    return json.loads(done.stdout)


def content(number, writing):
    """Return the block that the writing of a place leaves there."""
    seed = hashlib.sha256(struct.pack(">QQ", number, writing)).digest()
    return seed * (BLOCK // len(seed))


def server():
    return daemons.alive(CONFIG, zfs.SERVER)


def crashed():
    """Kill the server with SIGKILL and start it again; return what its log says of that start."""
    at = (CONFIG.log / "nbdkit.log").stat().st_size
    daemons.kill(CONFIG, zfs.SERVER)
    verb("serve", "default")
    return (CONFIG.log / "nbdkit.log").read_text()[at:]


def different(written):
    """Return how many of the places do not hold what was written there last."""
    with Client(CONFIG.socket) as client:
        return sum(client.read(number * BLOCK, BLOCK) != content(number, last) for number, last in written.items())


def scattered(count, flush_each, mode="default"):
    """Write random places, some more than once; flush after every so many (0: never); return the last writings."""
    verb("serve", mode)
    places, written = random.Random(4), {}
    zfs.ask(CONFIG, "commit")
    with Client(CONFIG.socket) as client:
        for writing in range(count):
            number = places.randrange(AREA // BLOCK)
            client.write(number * BLOCK, content(number, writing))
            written[number] = writing
            if flush_each and writing % flush_each == flush_each - 1:
                client.flush()
    return written


def crash():
    """Thousands of flushed random writes, SIGKILL, again: everything is there."""
    written = scattered(4000, 40)
    said = crashed()
    return {"written": len(written), "different": different(written), "said": said}


def always():
    """Without any flush: in the strict mode nothing is lost; in the default mode the last writes are."""
    written = scattered(300, 0, "strict")
    crashed()
    strict = different(written)
    ask = zfs.ask(CONFIG, "status")["volume"]["sync"]
    written = {number: last + 1000 for number, last in scattered(300, 0).items()}
    zfs.ask(CONFIG, "commit")
    with Client(CONFIG.socket) as client:
        for number, last in written.items():
            client.write(number * BLOCK, content(number, last))
    crashed()
    return {"strict": strict, "default": different(written), "after": ask}


def freed_in_log():
    """A trim and a write after it, both flushed, then SIGKILL: the log does them in their order."""
    verb("serve", "default")
    with Client(CONFIG.socket) as client:
        client.write(0, content(0, 1) * (MIB // BLOCK))
        client.flush()
        zfs.ask(CONFIG, "commit")
        client.trim(0, MIB)
        client.write(0, content(0, 2))
        client.flush()
    said = crashed()
    with Client(CONFIG.socket) as client:
        first, rest = client.read(0, BLOCK), client.read(BLOCK, MIB - BLOCK)
    return {"written": first == content(0, 2), "zeros": not any(rest), "said": said}


def fio(*more):
    """Return what fio says of random writes of all sizes at all places, with checksums in them."""
    argv = (
        "fio", "--name=v", "--ioengine=nbd", f"--uri={CONFIG.uri}", "--rw=randwrite", "--bsrange=512-128k",
        "--blockalign=512", f"--size={AREA}", "--verify=crc32c", "--verify_fatal=1", "--iodepth=16", "--end_fsync=1",
        "--output-format=json", *more,
    )  # fmt: skip
    said = daemons.run(argv, timeout_s=120)
    return json.loads(said[said.index("{") :])["jobs"][0]  # the NBD engine says something before


def verify():
    """What fio wrote is read back by it, at once and from an exported and imported pool."""
    verb("serve", "default")
    now = fio()
    verb("unmount")
    verb("serve", "strict")
    later = fio("--verify_only=1")
    return {"errors": [now["error"], later["error"]], "bytes": [now["write"]["io_bytes"], now["read"]["io_bytes"]]}


def filled(size=SMALL):
    """Fill the beginning of the volume with random bytes and return their hash, with everything on the disks."""
    verb("serve", "default")
    whole = hashlib.sha256()
    with Client(CONFIG.socket) as client:
        for start in range(0, size, MIB):
            data = os.urandom(MIB)
            client.write(start, data)
            whole.update(data)
        client.flush()
    verb("drop")
    return whole.hexdigest()


def hashed(size=SMALL):
    """Return the hash of the beginning of the volume, read cold; None when it cannot be read."""
    verb("drop")
    whole = hashlib.sha256()
    try:
        with Client(CONFIG.socket) as client:
            for start in range(0, size, MIB):
                whole.update(client.read(start, MIB))
    except StoreError as error:
        return str(error)
    return whole.hexdigest()


def ruined(disk):
    """Overwrite nearly all that a disk holds with garbage: everything but the labels at both its ends."""
    path, places = disks.file(CONFIG, disk), []
    with open(path, "rb") as backing:
        position, end = 4 * MIB, CONFIG.disk_bytes - MIB
        while position < end:
            try:
                start = os.lseek(backing.fileno(), position, os.SEEK_DATA)
            except OSError:
                break
            position = os.lseek(backing.fileno(), start, os.SEEK_HOLE)
            places += range(start // BLOCK * BLOCK, min(position, end), BLOCK)
    overwrite(disks.device(CONFIG, disk), places)
    return len(places) * BLOCK


def garbage():
    """Garbage all over one disk: a scrub finds it and mends it, so that the other disk can go."""
    before = filled()
    garbage_bytes = ruined(1)
    zfs.ask(CONFIG, "drop")
    first, second = verb("scrub", "deep"), verb("scrub", "deep")
    verb("fail", 0)
    after = hashed()
    verb("replace", 0)
    told = {name: each[name] for each in (first,) for name in ("errors", "unrecoverable", "repaired", "repaired_B")}
    return {"same": before == after, "garbage_B": garbage_bytes, **told, "again": second["errors"], **settled()}


def both():
    """The same file damaged on both disks: it cannot be read, and the scrub says so."""
    verb("mount", "default", 256 * MIB)
    hashes = {}
    for name in ("a", "b", "c", "d"):
        data = os.urandom(8 * MIB)
        with open(CONFIG.mount / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hashes[name] = hashlib.sha256(data).hexdigest()
    verb("drop")
    hit = verb("corrupt", "both")
    verb("drop")
    found = {}
    for name in hashes:
        try:
            found[name] = hashlib.sha256((CONFIG.mount / name).read_bytes()).hexdigest()
        except OSError as error:
            found[name] = error.strerror
    scrub = verb("scrub", "deep")
    told = {key: scrub[key] for key in ("errors", "unrecoverable", "repaired")}
    pool = scrub["raw"]["errors"]
    verb("unmount")
    return {"hit": hit["files"], "written": hashes, "read": found, "pool_errors": pool, **told}


def settled():
    """Wait until the pool is clean; return all states on the way and the end state."""
    states, deadline = [], time.monotonic() + 100
    while time.monotonic() < deadline:
        states.append(zfs.state(CONFIG))
        if states[-1]["clean"]:
            break
        time.sleep(0.05)
    end = states[-1]
    copied = [state["copied_B"] for state in states if state["copied_B"] is not None]
    return {"clean": end["clean"], "copied": copied, "left_B": end["left_B"], "disks": end["detail"]["disks"]}


def resilver():
    """A disk is lost, read without it, replaced: progress, end, and everything is on the new disk alone."""
    before = filled(AREA)
    lost = verb("fail", 1)
    state, degraded = verb("state"), hashed(AREA)
    verb("replace", 1)
    progress = settled()
    verb("fail", 0)
    alone = hashed(AREA)
    verb("replace", 0)
    ended = settled()["clean"]
    return {
        "same": [before == degraded, before == alone, before == hashed(AREA)], "noticed_s": lost["noticed_s"],
        "degraded": state, "ended": ended, **progress,
    }  # fmt: skip


def throttle():
    """Scrubs as the engine does by itself and with an open throttle: how many of their reads made no way for others."""
    filled(AREA)
    counts = []
    for level in ("default", "open", "default"):
        verb("throttle", level)
        before = zfs.ask(CONFIG, "status")["let_through"]
        scrub = verb("scrub", "deep")
        counts.append(scrub["raw"]["let_through"] - before)
    return {"counts": counts, "scrubbed_B": scrub["examined_B"], "block_B": scrub["raw"]["volume"]["block_B"]}


def resilver_killed():
    """SIGKILL in the middle of a resilver: it goes on and comes to its end."""
    before = filled(AREA)
    verb("fail", 0)
    verb("replace", 0)
    unclean = not zfs.state(CONFIG)["clean"]
    crashed()
    progress = settled()
    return {"same": before == hashed(AREA), "unclean": unclean, **progress}


def dropped():
    """What was read is in memory, and after `drop` is not: it is read from the disks again."""

    def read():
        before = zfs.ask(CONFIG, "status")["vdevs"]["read_B"]
        with Client(CONFIG.socket) as client:
            for start in range(0, SMALL, MIB):
                client.read(start, MIB)
        return zfs.ask(CONFIG, "status")["vdevs"]["read_B"] - before

    filled()
    cold, warm = read(), read()
    held = zfs.ask(CONFIG, "status")["cache"]["held_B"]
    verb("drop")
    after = zfs.ask(CONFIG, "status")["cache"]
    return {
        "cold_B": cold, "warm_B": warm, "held_B": held, "dropped_B": after["held_B"], "data_B": after["data_B"],
        "again_B": read(), "area_B": SMALL,
    }  # fmt: skip


def label():
    """What the stock tool reads, while the pool is open and after it was exported."""
    device = str(disks.device(CONFIG, 0))
    verb("serve", "default")
    zfs.ask(CONFIG, "commit")
    opened = daemons.run(("zdb", "-l", device))
    verb("unmount")
    return {"open": opened, "exported": daemons.run(("zdb", "-l", device)), "running": server()}


def trim():
    """Space that is given back leaves the files below."""
    verb("remake")
    empty = disks.allocated_bytes(CONFIG)
    filled(AREA)
    full = disks.allocated_bytes(CONFIG)
    with Client(CONFIG.socket) as client:
        client.trim(0, AREA)
        client.flush()
    verb("unmount")
    return {"empty_B": empty, "full_B": full, "trimmed_B": disks.allocated_bytes(CONFIG), "wanted_B": 2 * AREA}


def frozen(seconds="5"):
    """The server stands still for a while in the middle of writing, and goes on."""
    verb("serve", "default")
    written, stop = {}, threading.Event()

    def write():
        with Client(CONFIG.socket, timeout_s=float(seconds) + 60) as client:
            for writing in range(100_000):
                number = writing % (SMALL // BLOCK)
                client.write(number * BLOCK, content(number, writing))
                written[number] = writing
                if stop.is_set():
                    client.flush()
                    return

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    os.kill(server(), signal.SIGSTOP)
    time.sleep(0.2)
    before = len(written), max(written.values())
    time.sleep(float(seconds))
    still = (len(written), max(written.values())) == before
    os.kill(server(), signal.SIGCONT)
    time.sleep(1)
    went_on = max(written.values()) > before[1]
    stop.set()
    writer.join()
    state = zfs.state(CONFIG)
    return {"still": still, "went_on": went_on, "different": different(written), "clean": state["clean"]}


def told(line):
    """Return what the control socket answers to raw bytes; None when it only closes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(CONFIG.run / "control.sock"))
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return json.loads(answer) if answer else None


def refused():
    """Everything that is no command, and what the pool cannot do."""
    verb("serve", "default")
    pid = server()
    guid = str(zfs.leaves(zfs.ask(CONFIG, "status"))[0]["guid"])
    lines = [
        "", " ", "status ", " status", "status status", "Status", "sync", "sync sometimes", "sync always always",
        "offline", "offline /dev/loop0", "offline 0", "offline -1", "offline 1e3", "offline 99999999999999999999999",
        "offline 12345", f"offline 0{guid}", f"offline {guid} {guid}", f"replace {guid}", f"replace {guid} relative",
        f"replace {guid} /dev/no\tsuch", f"replace {guid} /dev/nosuch", f"replace {guid} /etc/passwd",
        f"replace {guid} /" + "x" * 300, "scrub", "scrub stop", "drop caches", "x" * 5000, "status\nstatus",
        "status\0", "throttle", "export", "\u00fc",
    ]  # fmt: skip
    answers = [told(line.encode() + b"\n") for line in lines]
    answers += [told(b"status"), told(b""), told(bytes(range(1, 10)) * 200)]
    verb("fail", 0)
    last = zfs.leaves(zfs.ask(CONFIG, "status"))[1]["guid"]
    answers.append(told(f"offline {last}\n".encode()))  # the only copy that is left
    verb("replace", 0)
    return {
        "answers": answers, "same_process": pid == server(), "fine": told(b"status\n")["ok"], **settled()
    }  # fmt: skip


def connections():
    """Many at once: NBD clients that work, some that come and say nothing, and the same for commands."""
    verb("serve", "default")
    pid, wrong = server(), []

    def work(number):
        try:
            with Client(CONFIG.socket, timeout_s=100) as client:
                for writing in range(20):
                    place = number * 20 + writing
                    client.write(place * BLOCK, content(place, writing))
                    client.flush()
                    if client.read(place * BLOCK, BLOCK) != content(place, writing):
                        wrong.append(place)
        except (OSError, StoreError) as error:
            wrong.append(str(error))

    silent = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for number, each in enumerate(silent):
        each.connect(str(CONFIG.run / "control.sock" if number % 2 else CONFIG.socket))
    workers = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for worker in workers:
        worker.start()
    answers = []
    for worker in workers:
        worker.join()
        answers.append(told(b"status\n"))
    for each in silent:
        each.close()
    time.sleep(6)
    fine = [told(b"status\n")["ok"] for _ in range(50)]
    return {
        "wrong": wrong,
        "same_process": pid == server(),
        "fine": all(fine),
        "busy": sum(not a["ok"] for a in answers),
    }


def others():
    """Disks without our pool are refused with a reason, and so are parameters that make no sense."""
    verb("unmount")
    path = CONFIG.home / "other.img"
    with open(path, "wb") as file:
        file.truncate(256 * MIB)
    begin = ["nbdkit", "-f", "-U", str(CONFIG.run / "other.sock"), zfs.PLUGIN, f"control={CONFIG.run}/other-control"]
    asked = [
        ["pool=store", f"disk={path}"], ["pool=Other", f"disk={path}"], ["pool=other"], ["pool=other", "disk=/nosuch"],
        ["pool=other", f"disk={path}", "create=yes"], ["pool=other", f"disk={path}", "arc=1"],
        ["pool=other", f"disk={path}", "create=yes", "size=1G", "block=1M"],
        ["pool=other", f"disk={path}", "create=yes", "size=1G", "block=12k"],
        ["pool=other", f"disk={path}", "sync=never"], ["pool=other", f"disk={path}", "unheard=of"],
    ]  # fmt: skip
    found = []
    for words in asked:
        (CONFIG.run / "other.sock").unlink(missing_ok=True)
        done = subprocess.run([*begin, *words], capture_output=True, text=True, timeout=30)
        found.append([done.returncode, done.stderr])
    path.unlink()
    return {"found": found}


def made():
    """How long the pool takes to be made, and to be served; what it says it is."""
    begun = time.monotonic()
    verb("remake")
    created_s = time.monotonic() - begun
    verb("unmount")
    begun = time.monotonic()
    verb("serve", "default")
    return {
        "created_s": created_s,
        "served_s": time.monotonic() - begun,
        "facts": verb("facts"),
        "usage": verb("usage"),
    }


COURSES = (
    crash, always, freed_in_log, verify, garbage, both, resilver, throttle, resilver_killed, dropped, label, trim,
    frozen, refused, connections, others, made,
)  # fmt: skip

if __name__ == "__main__":
    CONFIG = load(sys.argv[1])
    course = {each.__name__: each for each in COURSES}[sys.argv[2]]
    sys.stdout.write(json.dumps(course(*sys.argv[3:])) + "\n")
