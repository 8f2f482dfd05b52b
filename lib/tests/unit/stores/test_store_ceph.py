"""What a store makes of Ceph's answers: whether a pool is whole, and how scrubs and repairs went."""

from __future__ import annotations

import json
import socket
import struct
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from infrabench_platforms.stores.node import ceph, ceph_cluster
from infrabench_platforms.stores.node.config import GIB, Config, StoreError

CONFIG = Config("ceph", "one", GIB, GIB)
STATS = {
    "num_bytes": 4096, "num_objects": 2, "num_objects_degraded": 0, "num_bytes_recovered": 10, "num_scrub_errors": 0,
    "num_objects_repaired": 0, "num_objects_unfound": 0,
}  # fmt: skip


def group(name: str, state: str = "active+clean", stamp: str = "then", **stats: int) -> dict[str, Any]:
    unknown = stats.keys() - STATS.keys()
    assert not unknown
    stamps = {"last_scrub_stamp": stamp, "last_deep_scrub_stamp": stamp}
    changed = "1970-01-01T00:00:12.500000+0000"
    return {"pgid": name, "state": state, "last_change": changed, "stat_sum": STATS | stats, **stamps}


class Cluster:
    """Answers with one list of placement groups after the other, the last one for ever."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers, self.asked = list(answers), []

    def mon(self, prefix: str, **words: Any) -> Any:
        assert prefix == "osd lspools"
        return [{"poolnum": 1, "poolname": ".mgr"}, {"poolnum": 2, "poolname": "rbd"}]

    def mgr(self, prefix: str, **words: Any) -> Any:
        if prefix != "pg dump":
            self.asked.append((prefix, words["pgid"]))
            return None
        if words["dumpcontents"] == ["pools"]:
            return [{"poolid": 2, "store_stats": {"data_stored": 8192}}]
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceph_cluster, "POLL_S", 0.0)


def speaking(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, listed: dict[str, list[dict[str, Any]]]) -> None:
    monkeypatch.setattr(ceph_cluster, "connect", lambda config: nullcontext(cluster))
    told = lambda argv, **_: json.dumps({"inconsistents": listed[argv[4]]})  # noqa: E731
    monkeypatch.setattr(ceph_cluster.daemons, "run", told)


def damaged(name: str, *bad: int) -> dict[str, Any]:
    shards = [{"osd": osd, "errors": ["read_error"] if osd in bad else []} for osd in (0, 1)]
    return {"object": {"name": name}, "union_shard_errors": ["read_error"], "shards": shards}


def test_when_a_placement_group_has_all_its_copies():
    whole = ["active+clean", "active+clean+scrubbing+deep", "active+clean+inconsistent"]
    others = [
        "active+clean+laggy", "active+clean+wait", "stale+active+clean", "active+undersized+degraded",
        "active+recovery_unfound+degraded", "active+clean+remapped", "peering", "unknown", "",
    ]  # fmt: skip
    assert [*filter(ceph_cluster.is_clean, whole + others)] == whole


def test_when_the_placement_groups_do_without_a_lost_disk():
    alone = [["active+undersized+degraded"], ["active+undersized", "active+undersized+degraded"]]
    others = [
        ["active+undersized", "active+undersized+degraded+wait"], ["active+undersized+laggy"], ["active+clean"],
        ["active+undersized", "active+clean"], ["stale+active+undersized"], ["undersized+degraded+peered"], [],
    ]  # fmt: skip
    assert [*filter(ceph_cluster.serves_alone, alone + others)] == alone


def test_a_lost_osd_is_forgotten_only_when_the_other_has_seen_that_it_is_dead(monkeypatch, tmp_path):
    """An OSD that learns both at once waits for the lease of one that is gone, for hours."""
    states = iter(["active+clean", "peering", "active+undersized+degraded+wait", "active+undersized+degraded"])
    happened: list[str] = []

    class Asked(Cluster):
        def mon(self, prefix: str, **words: Any) -> Any:
            if prefix == "osd dump":
                return {"osds": [{"osd": 0, "up": 0}, {"osd": 1, "up": 1}]}
            happened.append(prefix)
            return None

    def totals(cluster: Cluster) -> dict[str, Any]:
        if happened:
            happened.append(next(states))
        return {"states": {happened[-1]: 16} if happened else {}, "recovered_B": 0}

    monkeypatch.setattr(ceph, "connect", lambda config: nullcontext(Asked([])))
    monkeypatch.setattr(ceph, "totals", totals)
    monkeypatch.setattr(ceph.daemons, "alive", lambda *_: 1)
    monkeypatch.setattr(ceph.daemons, "kill", lambda *_: happened.append("killed") or 0.0)
    monkeypatch.setattr(ceph.daemons, "POLL_S", 0.0)
    monkeypatch.setattr(ceph.disks, "remove", lambda *_: happened.append("removed"))
    config = Config("ceph", "one", GIB, GIB, homes=str(tmp_path))
    for folder in (config.home / "osd.0", config.run):
        folder.mkdir(parents=True)
    assert ceph.fail(config, 0)["failed"] == "osd.0"
    assert happened[0] == "killed"
    assert happened[-3:] == ["active+undersized+degraded", "osd purge-actual", "removed"]


def test_totals_are_of_our_pool_alone():
    rows = [group("1.0", num_objects=99), group("2.0"), group("2.1", "active+undersized", num_objects_degraded=1)]
    assert ceph_cluster.totals(Cluster(rows)) == {
        "states": {"active+clean": 1, "active+undersized": 1}, "objects": 4, "degraded": 1, "left_B": 2048,
        "recovered_B": 20, "stored_B": 8192, "errors": 0, "repaired": 0, "unfound": 0, "changed_s": 12.5,
    }  # fmt: skip


def test_a_release_that_has_other_options_is_refused(monkeypatch):
    said = "ceph version 16.2.15 (618f440892089921c3e944a991122ddc44e60516) pacific (stable)\n"
    monkeypatch.setattr(ceph.daemons, "run", lambda argv, **_: said)
    with pytest.raises(StoreError, match=r"Ceph 18 or newer is needed here, not 16\.2\.15"):
        ceph.create(CONFIG)


class Captured(Cluster):
    """Answers as Ceph 18.2.7 did: of a pool of 106 objects that is whole, damaged on one disk, without one, on both."""

    def __init__(self, name: str) -> None:
        self.told = json.loads((Path(__file__).with_name("ceph_reef") / f"{name}.json").read_text())

    def mon(self, prefix: str, **words: Any) -> Any:
        assert prefix == "osd lspools"
        return self.told["lspools"]

    def mgr(self, prefix: str, **words: Any) -> Any:
        assert prefix == "pg dump"
        (what,) = words["dumpcontents"]
        return self.told[what]


@pytest.mark.parametrize(
    ("name", "states", "degraded", "left", "stored", "errors"),
    [
        ("clean", {"active+clean": 16}, 0, 0, 807206982, 0),
        ("damaged", {"active+clean": 13, "active+clean+inconsistent": 3}, 0, 0, 807206982, 4),
        ("lost", {"active+undersized+degraded": 16}, 106, 403894307, 403603491, 0),
        ("both", {"active+clean": 14, "active+clean+inconsistent+failed_repair": 2}, 0, 0, 807206982, 4),
    ],
)
def test_what_a_real_cluster_says_of_its_pool(name, states, degraded, left, stored, errors):
    found = ceph_cluster.totals(Captured(name))
    assert (found["states"], found["objects"], found["degraded"]) == (states, 106, degraded)
    assert (found["left_B"], found["stored_B"], found["errors"], found["unfound"]) == (left, stored, errors, 0)
    assert all(map(ceph_cluster.is_clean, states)) is (name != "lost")
    assert ceph_cluster.serves_alone(states) is (name == "lost")


def test_what_a_real_cluster_lists_of_damage(monkeypatch):
    counts = {}
    for name in ("clean", "damaged", "both"):
        cluster = Captured(name)
        listed = {group: answer["inconsistents"] for group, answer in cluster.told.get("inconsistent", {}).items()}
        speaking(cluster, monkeypatch, listed)
        found = ceph_cluster._inconsistent(CONFIG, cluster)
        objects = [each for group in found.values() for each in group]
        counts[name] = len(objects), sum(map(ceph_cluster._count_unrecoverable, found.values()))
    assert counts == {"clean": (0, 0), "damaged": (4, 0), "both": (2, 2)}


def test_a_throttle_is_open_when_every_osd_has_its_options(monkeypatch):
    """An OSD takes the numbers only where it was told before that it is to take them; else it forgets them."""
    kept: dict[str, str] = {}
    usual = {"osd_mclock_profile": "balanced", "osd_max_backfills": "1"}
    sent: list[str] = []

    class Monitor:
        def mon(self, prefix: str, who: str, name: str, value: str = "") -> None:
            sent.append(f"{prefix} {name}")
            if prefix == "config set":
                kept[name] = value
            else:
                del kept[name]

    monkeypatch.setattr(ceph, "connect", lambda config: nullcontext(Monitor()))
    monkeypatch.setattr(ceph, "OPTIONS_S", 0.0)
    monkeypatch.setattr(ceph.daemons, "alive", lambda config, name: 7 if name == "osd.0" else None)
    answers = lambda path, prefix, var: {var: kept.get(var, usual.get(var, "0"))}  # noqa: E731
    monkeypatch.setattr(ceph, "daemon", answers)
    ceph.throttle(CONFIG, "open")
    assert sent[0] == "config set osd_mclock_override_recovery_settings"
    ceph.throttle(CONFIG, "default")
    assert sent[-1] == "config rm osd_mclock_override_recovery_settings"
    monkeypatch.setattr(ceph, "daemon", lambda path, prefix, var: {var: usual.get(var, "0")})
    with pytest.raises(StoreError, match="throttle open: not within"):
        ceph.throttle(CONFIG, "open")


def test_a_scrub_has_ended_when_every_placement_group_had_its_own(monkeypatch):
    cluster = Cluster(
        [group("1.0"), group("2.0"), group("2.1")],
        [group("2.0", stamp="now"), group("2.1")],
        [group("2.0", stamp="now"), group("2.1", "active+clean+scrubbing+deep", stamp="now")],
        [group("2.0", stamp="now"), group("2.1", "active+clean+inconsistent", stamp="now", num_scrub_errors=1)],
    )
    speaking(cluster, monkeypatch, {"2.1": [damaged("a", 1)]})
    told = ceph_cluster.scrub(CONFIG, "deep")
    assert cluster.asked == [("pg deep-scrub", "2.0"), ("pg deep-scrub", "2.1")]
    assert (told["errors"], told["unrecoverable"], told["examined_B"]) == (1, 0, 8192)
    assert told["raw"]["inconsistent"]["2.1"][0]["shards"] == {"osd.0": [], "osd.1": ["read_error"]}


def test_objects_that_no_copy_can_give_are_told_as_lost_and_not_waited_for(monkeypatch):
    lost = group("2.1", "active+recovery_unfound+degraded", num_objects_unfound=1)
    bad = group("2.0", "active+clean+inconsistent", stamp="now", num_scrub_errors=2)
    speaking(Cluster([group("2.0"), lost], [bad, lost]), monkeypatch, {"2.0": [damaged("a", 0, 1)]})
    told = ceph_cluster.scrub(CONFIG, "deep")
    assert (told["errors"], told["unrecoverable"]) == (3, 2)


def test_a_repair_that_failed_does_not_forget_what_it_could_not_do(monkeypatch):
    rows = [group("2.0", "active+clean+inconsistent", num_scrub_errors=2), group("2.1")]
    after = [group("2.0", "active+clean+inconsistent+failed_repair", stamp="now", num_scrub_errors=2), group("2.1")]
    cluster = Cluster(rows, rows, rows, after)
    answers = iter([[damaged("a", 0, 1)], []])  # nobody lists it again
    speaking(cluster, monkeypatch, {})
    monkeypatch.setattr(ceph_cluster.daemons, "run", lambda argv, **_: json.dumps({"inconsistents": next(answers)}))
    told = ceph_cluster.repair(CONFIG)
    assert cluster.asked == [("pg repair", "2.0")]
    assert (told["repaired"], told["unrecoverable"]) == (0, 1)


def test_what_every_copy_lost_is_told_also_where_the_manager_does_not_count_it_yet(monkeypatch):
    rows = [group("2.0", "active+clean+inconsistent", num_scrub_errors=4)]
    cluster = Cluster(rows, rows, rows, [group("2.0", "active+recovery_unfound+degraded", stamp="now")])
    speaking(cluster, monkeypatch, {"2.0": [damaged("a", 0, 1), damaged("b", 0, 1), damaged("c", 1)]})
    assert ceph_cluster.repair(CONFIG)["unrecoverable"] == 2


@pytest.mark.parametrize("between", ["active+recovering", "active+clean+repair", "active+recovery_wait+degraded"])
def test_a_repair_has_ended_when_its_recovery_has(monkeypatch, between):
    bad = group("2.0", "active+clean+inconsistent", num_scrub_errors=1)
    mended = group("2.0", stamp="now", num_objects_repaired=1)
    cluster = Cluster(*[[bad]] * 3, *[[group("2.0", between, stamp="now")]] * 3, [mended])
    speaking(cluster, monkeypatch, {"2.0": [damaged("a", 1)]})
    told = ceph_cluster.repair(CONFIG)
    assert (told["repaired"], told["errors"]) == (1, 0)


def test_a_scrub_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(ceph_cluster, "SCRUB_S", 0.05)
    speaking(Cluster([group("2.0")]), monkeypatch, {})
    with pytest.raises(StoreError, match=r"deep-scrub of 2\.0 did not end"):
        ceph_cluster.scrub(CONFIG, "deep")


def test_nothing_of_ours_that_is_frozen_runs_out(monkeypatch):
    text = ceph_cluster.cluster(CONFIG, "f")
    day = str(ceph_cluster.DAY_S)
    for option in ("osd_heartbeat_grace", "mon_osd_report_timeout", "osd_op_thread_suicide_timeout"):
        assert f"{option} = {day}\n" in text
    assert f"bluestore_cache_size = {GIB // 2}\n" in text
    assert "rbd_cache = false" in ceph_cluster.client(CONFIG, "f", "strict")
    assert "rbd_cache = true" in ceph_cluster.client(CONFIG, "f", "default")
    # a trial's cache must not depend on whether one before it has flushed
    assert "rbd_cache_writethrough_until_flush = false" in ceph_cluster.client(CONFIG, "f", "default")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (struct.pack(">I", 13) + b'{"version":1}', {"version": 1}),
        (struct.pack(">I", 5) + b"done\n", "done"),
        (struct.pack(">I", 0), None),
        (struct.pack(">I", 99) + b"{}", StoreError),
        (b"\0\0", StoreError),
        (b"", StoreError),
        (struct.pack(">I", 9) + b"ERROR: -2", StoreError),
    ],
)
def test_what_a_daemon_says_on_its_socket(tmp_path: Path, sent, told):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "a.asok"))
    listening.listen()
    asked = bytearray()

    def serve() -> None:
        link, _ = listening.accept()
        with link:
            while not asked.endswith(b"\0"):
                asked.extend(link.recv(100))
            link.sendall(sent)

    thread = threading.Thread(target=serve)
    thread.start()
    if told is StoreError:
        with pytest.raises(StoreError, match=r"than its length says|refuses 'version': ERROR"):
            ceph_cluster.daemon(tmp_path / "a.asok", "version")
    else:
        assert ceph_cluster.daemon(tmp_path / "a.asok", "version") == told
    thread.join()
    listening.close()
    assert json.loads(asked[:-1])["prefix"] == "version"


class Balanced(Cluster):
    """Two OSDs and four placement groups, whose primaries follow the explicit mappings; OSD 1 has them all at first."""

    def __init__(self, state: str = "active+clean") -> None:
        self.order = {f"2.{number}": [1, 0] for number in range(4)}
        self.state, self.set = state, []

    def mon(self, prefix: str, **words: Any) -> Any:
        if prefix != "osd pg-upmap":
            return super().mon(prefix, **words)
        self.set.append(words["pgid"])
        self.order[words["pgid"]] = words["id"]
        return None

    def mgr(self, prefix: str, **words: Any) -> Any:
        assert words["dumpcontents"] == ["pgs"]
        return [
            {**group(name, self.state), "acting": osds, "acting_primary": osds[0]} for name, osds in self.order.items()
        ]


def test_each_osd_answers_for_half_of_the_placement_groups_of_a_clean_pool():
    cluster, degraded = Balanced(), Balanced("active+undersized+degraded")
    ceph_cluster.spread_primaries(cluster)
    assert sorted(osds[0] for osds in cluster.order.values()) == [0, 0, 1, 1]
    assert all(sorted(osds) == [0, 1] for osds in cluster.order.values())
    cluster.set.clear()
    for other in (cluster, degraded):  # nothing is asked of one that is even, or that lacks copies
        ceph_cluster.spread_primaries(other)
        assert other.set == []
