"""A store with a client on another node: the link between them, what both are told, and what the client does."""

from __future__ import annotations

import base64
import json
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from infrabench.core import DeploySpec, Limits, Machines, NotRunnable, wait
from infrabench.experiment.execution import session
from infrabench.experiment.execution.deployments import deployed
from infrabench.machines.sites.site import OpenSite
from infrabench.studies.storage import STUDY
from infrabench_platforms.stores import link, on_host, upload
from infrabench_platforms.stores.node import ceph, ceph_cluster, client, daemons, disks, main, nbd
from infrabench_platforms.stores.node.config import GIB, Config, StoreError, client_name, load
from infrabench_platforms.systems import block_storage
from tests.support.cluster_fakes import Scripted, answers

WAY = link.ClientLink("192.0.2.1", {"store": "eth0", "client": "eth1"}, "as it is")


def ends(
    *, embedded: bool, way: str = "192.0.2.1 eth1\n", found: str = "eth0\n", shaped: int = 0, speed: str = ""
) -> Machines:
    refused = "Error: Specified qdisc kind is unknown."
    store = Scripted(answers(tc=(shaped, refused if shaped else ""), addr=found), "store", "a-name")
    known = {"getent": (0 if way else 1, way), "speed": (0 if speed else 1, speed)}
    return Machines({"store": store, "client": Scripted(answers(known), "client")}, {}, {}, embedded)


def test_nodes_of_the_lab_have_a_link_of_one_gigabit_either_way() -> None:
    machines = ends(embedded=True)
    found = link.find_link(machines)
    assert found == link.ClientLink("192.0.2.1", WAY.devices, "1gbit each way (a token bucket on either end)")
    for role, device in WAY.devices.items():
        argv = machines.hosts[role].asked[-1]  # type: ignore[attr-defined]
        assert argv[:8] == ("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate")


def test_a_kernel_that_cannot_shape_is_named_and_hosts_of_ones_own_are_left_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = link.find_link(ends(embedded=True, shaped=2))
    assert found is not None
    assert found.speed == "not shaped: Error: Specified qdisc kind is unknown."
    assert "is not shaped" in caplog.text
    for speed, said in (("10000\n", "10000 Mbit/s by its driver"), ("-1\n", "its driver does not tell its speed")):
        machines = ends(embedded=False, speed=speed)
        found = link.find_link(machines)
        assert found is not None
        assert found.speed == f"not shaped: the hosts' own, {said}"
        assert not any(argv[0] == "tc" for host in machines.hosts.values() for argv in host.asked)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("way", "found", "said"),
    [
        ("127.0.0.1 lo\n", "lo\n", "client and store are one host"),
        ("192.0.2.1 eth1\n", "", "store: 0 devices have the address by which client knows it"),
        ("", "", "client has no way to store"),
    ],
)
def test_ends_that_are_no_two_hosts_or_do_not_reach_each_other_are_refused(way: str, found: str, said: str) -> None:
    with pytest.raises(NotRunnable, match=said):
        link.find_link(ends(embedded=False, way=way, found=found))


def test_without_a_client_there_is_no_link_and_nothing_changes() -> None:
    config = upload.config("zfs", "zfs", 0, GIB, {})
    assert link.find_link(Machines({"store": Scripted()}, {}, {}, embedded=True)) is None
    assert link.place(config, None) == (config, config, None)


def test_a_volume_is_served_at_an_address_only_where_its_client_is_apart(tmp_path: Path) -> None:
    store, listener, far = link.place(upload.config("zfs", "zfs", 0, GIB, {"plugin": "x"}), WAY)
    assert store.uri == f"nbd+unix:///?socket={store.socket}"
    assert nbd.listen_options(store, "-i", "-U") == ("-U", str(store.socket))
    assert (listener.uri, listener.endpoint) == ("nbd://192.0.2.1:10809", ("192.0.2.1", 10809))
    assert nbd.listen_options(listener, "-i", "-U") == ("-i", "192.0.2.1", "-p", "10809")
    assert replace(listener, listens=False) == store
    assert far is not None
    assert (far.engine, far.name, far.uri, far.disk_bytes, far.options) == ("client", "zfs-c", listener.uri, 0, {})
    assert len({upload.path(each) for each in (store, listener, far)}) == 3
    (tmp_path / "c.json").write_text(json.dumps({"engine": "zfs", "name": "a", "disk_bytes": 1, "memory_bytes": 1,
                                                 "listens": True}))  # fmt: skip
    with pytest.raises(StoreError, match="what listens needs an address"):
        load(str(tmp_path / "c.json"))


def test_a_cluster_answers_at_an_address_only_where_its_client_is_apart() -> None:
    config = upload.config("ceph", "ceph", 0, GIB, {"krbd": "yes"})
    store, listener, far = link.place(config, WAY)
    assert store == listener
    assert far is not None
    assert far.options == {name: store.options[name] for name in ("fsid", "key")}
    assert not far.listens
    assert "mon_host = [v2:192.0.2.1:13300,v1:192.0.2.1:13301]" in ceph_cluster.client(far, "id", "strict")
    assert "public_network = 192.0.2.1/32" in ceph_cluster.cluster(store, "id")
    alone = ceph_cluster.cluster(config, "id")
    assert "mon_host = [v2:127.0.0.1:13300,v1:127.0.0.1:13301]" in alone
    assert "public_network = 127.0.0.0/8" in alone


def test_a_key_is_as_ceph_makes_them() -> None:
    made = base64.b64decode(link.make_key())
    kind, _, _, length = struct.unpack("<HIIH", made[:12])
    assert (kind, length, len(made)) == (1, 16, 28)
    assert link.make_key() != link.make_key()


@pytest.mark.parametrize("name", ["zfs", "ceph", "raw"])
def test_the_kernel_keeps_the_whole_name_of_a_clients_file(name: str) -> None:
    assert len(str(Config("client", client_name(name), 0, 1).shown)) <= disks.NAME_LENGTH


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands of daemons, which are written down and not started."""
    found: list[str] = []
    monkeypatch.setattr(daemons, "start", lambda _, __, argv: found.append(" ".join(map(str, argv))))
    monkeypatch.setattr(daemons, "alive", lambda *_: found or None)
    monkeypatch.setattr(daemons, "stop", lambda *_: found.clear())
    return found


def told(tmp_path: Path, **options: str) -> Config:
    config = Config(
        "client", "x", 0, GIB, options=options, homes=str(tmp_path), address="192.0.2.1", listens=not options
    )
    config.run.mkdir(parents=True)
    return config


def test_of_ceph_the_client_has_librbd_and_of_others_nothing(tmp_path: Path, begun: list[str]) -> None:
    config = told(tmp_path, fsid="the-id", key="the-key")
    client.create(config)
    assert "fsid = the-id" in (config.home / "client-strict.conf").read_text()
    assert (config.home / "keyring").read_text() == "[client.admin]\n\tkey = the-key\n"
    assert (config.home / "keyring").stat().st_mode & 0o077 == 0
    client.serve(config, "strict")
    client.serve(config, "strict")
    assert len(begun) == 1
    assert begun[0].startswith(f"qemu-nbd -t -e 16 -f raw -k {config.socket} --cache=none")
    client.serve(config, "default")
    assert "client-default.conf" in begun[0]
    assert begun[0].count("--cache=writeback") == len(begun) == 1
    other = told(tmp_path / "other")
    begun.clear()
    client.create(other)
    client.serve(other, "strict")
    assert not begun
    assert not (other.home / "keyring").exists()


@pytest.mark.parametrize(
    "verb", ["fail", "replace", "corrupt", "scrub", "repair", "state", "used", "throttle", "facts"]
)
def test_what_is_the_stores_own_affair_is_refused(verb: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="ask the store's own node"):
        getattr(client, verb)(told(tmp_path))


def test_a_command_goes_on_while_the_store_answers_and_keeps_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(client, "NBD_PORT", server.getsockname()[1])
        config = replace(told(tmp_path), address="127.0.0.1")
        assert client.watch(config, ("sh", "-c", "exit 7")) == 7
        assert client.watch(config, ("sh", "-c", "kill -9 $$")) == 128 + 9
    assert not client._reaches(config)


def test_a_command_is_ended_when_the_store_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seconds in (("PAUSE_S", 0.01), ("GONE_S", 0.05)):
        monkeypatch.setattr(client, name, seconds)
    file, pid = tmp_path / "c.json", tmp_path / "pid"
    asked = {"engine": "client", "name": "x", "disk_bytes": 0, "memory_bytes": 1, "homes": str(tmp_path)}
    file.write_text(json.dumps({**asked, "address": "127.0.0.1", "listens": True}))
    # The store falls silent once the command has a process of its own, as fio has for each job.
    program = f"""
import os, time
job = os.fork()
if job:
    with open({str(file)!r} + ".new", "w") as out:
        out.write(f"{{os.getpid()}} {{job}}")
    os.rename({str(file)!r} + ".new", {str(pid)!r})
time.sleep(60)
"""
    monkeypatch.setattr(client, "_reaches", lambda _: not pid.exists())
    assert main.main([str(file), "watch", sys.executable, "-c", program]) == 1
    assert "the network between client and store is gone, or the store" in capsys.readouterr().err
    ended = wait.until(lambda: not any(map(is_alive, pid.read_text().split())), 30, 0.01)  # a signal takes a moment
    assert ended


def is_alive(pid: str) -> bool:
    try:  # a zombie is one for which nobody has waited yet
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_client_has_no_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "group", lambda _: None)
    monkeypatch.setattr(disks, "make", lambda *_: pytest.fail("a disk was made"))
    main.create(replace(told(tmp_path), name="y"), client)
    assert (tmp_path / "y/label.json").exists()
    assert ceph.FSID == "fsid"


def made_ready(spec: DeploySpec, hosts: dict[str, Scripted], asked: list[bool]):
    @contextmanager
    def storer(name: str, need: int, with_client: bool) -> Iterator[Machines]:
        asked.append(with_client)
        yield Machines(hosts if with_client else {"store": hosts["store"]}, {}, {}, embedded=False)

    site = OpenSite("x", "inventory", {}, storer=storer)
    return block_storage.StorageSystem("zfs", lambda *_: block_storage.Engine("zfs"), {}).deploy(site, spec)


def test_a_client_is_made_where_a_case_asks_for_it_and_left_as_it_was_found() -> None:
    facts = {"engine": "zfs", "version": "2", "pool": {}, "disk_bytes": 1, "cache_bytes": 1, "clean": True}
    store = Scripted(answers(addr="eth0\n", main=facts), "store")
    far = Scripted(answers(getent="192.0.2.1 eth1\n", main={}), "client")
    hosts, asked = {"store": store, "client": far}, list[bool]()
    with made_ready(DeploySpec("s", Limits(), ""), hosts, asked) as made:
        assert set(made.targets) == {"server"}
        assert "client" not in made.facts
        assert "store-listens" not in made.targets["server"].lifecycle
    assert not far.asked
    with made_ready(DeploySpec("s", Limits(), "", two_nodes=True), hosts, asked) as made:
        assert made.facts["client"]["link"].startswith("not shaped: the hosts' own")
        assert made.targets["client"].lifecycle["uri"] == ("nbd://192.0.2.1:10809",)
        assert made.targets["client"].devices == {"uplink": "eth1"}
        order: list[str] = []
        for host in hosts.values():
            host.answer = lambda argv, _, name=host.name, old=host.answer: (order.append(name), old(argv, b""))[1]
        made.pause()
        assert order == ["client", "store", "client", "store"]
    assert asked == [False, True]
    assert [argv[3] for argv in far.asked if argv[0] == "python3"] == ["create", "unmount", "pause", "destroy"]
    assert far.asked[-1][-1] == upload.path(Config("client", "zfs-c", 0, 1, address="x", listens=True))


@pytest.mark.parametrize(("profile", "wanted"), [("quick", False), ("network", True)])
def test_the_cases_of_a_session_say_whether_there_is_a_client(profile: str, wanted: bool) -> None:
    asked: list[bool] = []

    def storer(name: str, need: int, with_client: bool) -> NoReturn:
        asked.append(with_client)
        raise NotRunnable("no more is asked here")

    design = session.request(STUDY, profile=profile)
    site = OpenSite("x", "inventory", {}, storer=storer)
    with pytest.raises(NotRunnable, match="no more is asked"), deployed(STUDY, design, site, label="s"):
        pass
    assert asked == [wanted]


def test_the_client_host_needs_no_daemons_of_the_store_and_is_refused_with_what_it_lacks() -> None:
    good = Scripted(answers(df=f"free={GIB * 99}\n"), "server")
    bare = Scripted(answers(df=f"qemu-nbd=qemu-utils\nfree={GIB}\n"), "client")
    with pytest.raises(NotRunnable, match=r"^client: programs are missing: apt-get install qemu-utils"):
        on_host.store(good, bare, "ceph", GIB, True).__enter__()
    assert not any("ceph-osd" in word for word in bare.asked[0])
    with on_host.store(good, None, "ceph", GIB, True) as machines:
        assert set(machines.hosts) == {"store"}
