"""Inventories from Terraform's outputs: what Terraform itself printed, and whatever else could stand there."""

from __future__ import annotations

import copy
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli
from infrabench.core import SiteError
from infrabench.machines.sites import import_hosts
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.site import read_file
from tests.support.places import TESTS

DATA = TESTS / "data/sources"
PRINTED = DATA / "terraform.json"  # by Terraform 1.11 of main.tf, which stands beside it
HOST = {"address": "192.0.2.1", "role": "server"}


def _outputs(*hosts: Any, **of: Any) -> bytes:
    return json.dumps({"infrabench_hosts": {"sensitive": False, "type": "x", "value": list(hosts), **of}}).encode()


def _refused(text: bytes, told: str, **how: Any) -> str:
    with pytest.raises(SiteError, match=told) as error:
        import_hosts.inventories(import_hosts.read_terraform(text, **how), "it")
    assert len(str(error.value)) < 5000
    assert str(error.value).isprintable()
    return str(error.value)


def test_what_terraform_printed_becomes_an_inventory_for_each_site(tmp_path: Path, capsys: Any) -> None:
    assert cli.main(["hosts", "inventory", "terraform", str(PRINTED), "--out", str(tmp_path)]) == 0
    paths = capsys.readouterr().out.split()
    assert paths == [str(tmp_path / "rack-a.yml"), str(tmp_path / "rack-b.yml")]
    first, second = (read_file(path) for path in paths)
    assert isinstance(first, Inventory)
    assert isinstance(second, Inventory)
    assert {role: host.address for role, host in first.hosts.items()} == {
        "server": "192.0.2.10", "client": "192.0.2.11",
    }  # fmt: skip
    assert first.hosts["server"].user == "admin"
    assert str(first.hosts["server"].key) == "~/.ssh/bench"
    assert set(first.clusters) == {"flannel", "cilium"}
    assert first.clusters["cilium"].worker2.address == "192.0.2.32"  # type: ignore[union-attr]
    assert first.clusters["flannel"].control.user == "root"
    assert first.gateways == {}
    assert second.hosts["client"].gateway == "bastion"
    assert second.gateways["bastion"].user == "me"
    assert "never-to-be-seen" not in "".join(Path(path).read_text() for path in paths)


def test_written_again_is_the_same_and_never_over_another(tmp_path: Path, capsys: Any) -> None:
    argv = ["hosts", "inventory", "terraform", str(PRINTED), "--out", str(tmp_path)]
    assert cli.main(argv) == cli.main(argv) == 0
    (tmp_path / "rack-b.yml").write_text("mine")
    assert cli.main(argv) == 1
    assert "rack-b.yml is there and says something else" in capsys.readouterr().err
    assert (tmp_path / "rack-b.yml").read_text() == "mine"


def test_one_site_is_printed_and_read_from_a_pipe(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "infrabench.cli", "hosts", "inventory", "terraform", "-", "--site", "rack-b",
            "--known-hosts", "~/known"]  # fmt: skip
    done = subprocess.run(argv, input=PRINTED.read_bytes(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (tmp_path / "b.yml").write_bytes(done.stdout)
    found = read_file(tmp_path / "b.yml")
    assert isinstance(found, Inventory)
    assert (found.name, str(found.known_hosts)) == ("rack-b", "~/known")


def test_several_sites_are_not_printed_as_one(capsys: Any) -> None:
    assert cli.main(["hosts", "inventory", "terraform", str(PRINTED)]) == 2
    assert "there are 2 sites (rack-a, rack-b): take --out FOLDER, or --site NAME" in capsys.readouterr().err
    assert cli.main(["hosts", "inventory", "terraform", str(PRINTED), "--site", "rack-c"]) == 2
    assert "there is no site 'rack-c'; there are rack-a, rack-b" in capsys.readouterr().err


def test_what_is_sensitive_stays_so_unless_it_is_meant(tmp_path: Path, capsys: Any) -> None:
    argv = ["hosts", "inventory", "terraform", str(PRINTED), "--output", "secret_hosts"]
    assert cli.main(argv) == 1
    assert cli.main([*argv, "--sensitive"]) == 2
    told = capsys.readouterr()
    assert "Terraform holds the output secret_hosts to be sensitive" in told.err
    assert "is not printed" in told.err
    assert "203.0.113.9" not in told.out + told.err
    assert cli.main([*argv, "--sensitive", "--out", str(tmp_path)]) == 0
    file = tmp_path / "terraform.yml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "203.0.113.9" in file.read_text()


def test_an_output_that_does_not_say_whether_it_is_sensitive_is(tmp_path: Path) -> None:
    text = json.dumps({"infrabench_hosts": {"value": [HOST]}}).encode()
    _refused(text, "to be sensitive")
    assert import_hosts.read_terraform(text, sensitive=True)


def test_a_map_of_hosts_gives_them_their_names() -> None:
    text = _outputs(value={"web": HOST, "load": {"address": "192.0.2.2", "role": "client"}})
    assert [host.called for host in import_hosts.read_terraform(text)] == ["web", "load"]


@pytest.mark.parametrize(
    ("told", "hosts"),
    [
        ("host 1 has no address", [{"role": "server"}]),
        ("host 2 has no address", [HOST, {"role": "client", "address": ""}]),
        ("host 1 has no role", [{"address": "192.0.2.1"}]),
        ("unknown fields: password. Known are name, role, roles, site", [{**HOST, "password": "p4ssw0rd"}]),
        ("role and roles", [{**HOST, "roles": ["client"]}]),
        ("unknown role 'master'. Known are server, client, gateway", [{**HOST, "role": "master"}]),
        ("no host has the role server", [{**HOST, "role": "client"}]),
        ("gateways that are not described: bastion", [{**HOST, "gateway": "bastion"}]),
        ("site", [HOST, {**HOST, "role": "flannel-control", "site": ""}]),
        ("web and twin have the same address", [{**HOST, "name": "web"}, {**HOST, "name": "twin", "role": "client"}]),
        ("in the sites a and b", [{**HOST, "name": "web", "site": "a"}, {**HOST, "name": "twin", "site": "b"}]),
        ("has server twice", [HOST, {**HOST, "address": "192.0.2.2"}]),
        ("no list of hosts", []),
    ],
)
def test_what_is_wrong_with_a_host_is_named(told: str, hosts: list[dict[str, Any]]) -> None:
    assert "p4ssw0rd" not in _refused(_outputs(*hosts), told)


def test_a_gateway_without_a_site_serves_every_site() -> None:
    sites = [{**HOST, "address": f"10.0.0.{n}", "site": name, "gateway": "door"} for n, name in enumerate("ab", 1)]
    door = {"name": "door", "address": "192.0.2.9", "role": "gateway"}
    found = import_hosts.inventories(import_hosts.read_terraform(_outputs(*sites, door)), "it")
    assert list(found) == ["a", "b"]
    assert all("door" in text for text in found.values())


LONG = "x" * 10_000_000
HOSTILE = [
    "; touch canary", "$(touch canary)", "-oProxyCommand=touch canary", "../../../../tmp/storm", "/etc/passwd", "..",
    ".", "~root", "a\nhosts: {}", "a\x00b", "\x1b[2J", "", " ", "%n", "${HOME}", "\u202egnp", "x" * 300, LONG, -1, 0,
    2**63, 10**400, 1.5, True, [], {}, [None], {"a": 1}, "*alias", "&anchor x", "!!python/object/apply:os.system [x]",
    "\u2028", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("field", [*import_hosts.KNOWN, "password"])
def test_hostile_values_are_refused_or_stay_text(field: str, tmp_path: Path) -> None:
    for bad in HOSTILE:
        text, told = _outputs({**HOST, field: bad}), ""
        try:
            found = import_hosts.inventories(import_hosts.read_terraform(text), "it")
        except SiteError as error:
            told = str(error)
            continue
        finally:
            assert len(told) < 5000
        for name, written in found.items():
            assert name.isprintable()
            assert "/" not in name
            assert not name.startswith((".", "-"))
            file = tmp_path / "hosts.yml"
            file.write_text(written)
            read = read_file(file)
            assert isinstance(read, Inventory)
            assert field in ("name", "key", "port", "site", "role") or read.hosts["server"].address == "192.0.2.1"
            assert field != "key" or str(read.hosts["server"].key) == str(Path(bad))
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ("no output infrabench_hosts; there are: other", [b'{"other": {"value": 1, "sensitive": false}}']),
        ("no output of Terraform", [b'{"infrabench_hosts": 5}']),
        ("not Terraform's outputs but a value", [b"[]", b"NaN", b"null", b'"' + b"x" * 10_000_000 + b'"']),
        ("not JSON", [b"", _outputs(HOST)[:-2], b"\x00\xff" * 1000, b"[" * 200_000, b'{"a":' * 200_000,
                      b"9" * 10_000_000]),
        ("a key is there twice", [b'{"a": 1, "a": 2}']),
        ("more than .* bytes", [b" " * (import_hosts.LARGEST + 1)]),
        ("5000 hosts; 1000 are the most", [_outputs(*[HOST] * 5000)]),
        ("host 1 is no object", [_outputs([[[]]]), _outputs(None)]),
        ("no list of hosts", [_outputs(value="a"), _outputs(value=5)]),
    ],
)  # fmt: skip
def test_every_other_kind_of_file_is_refused(told: str, texts: list[bytes]) -> None:
    for text in texts:
        _refused(text, told)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "none", tmp_path, f"{tmp_path}/a\0b"):
        assert cli.main(["hosts", "inventory", "terraform", str(path)]) == 1
        assert "cannot be read" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    assert cli.main(["hosts", "inventory", "terraform", "-"]) == 1
    assert "standard input: there is no output infrabench_hosts; there are: none" in capsys.readouterr().err


def test_files_are_written_whole_or_not_at_all(tmp_path: Path, capsys: Any) -> None:
    data = json.loads(PRINTED.read_text())
    bad = copy.deepcopy(data)
    bad["infrabench_hosts"]["value"][0]["address"] = "two words"
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    argv = ["hosts", "inventory", "terraform", str(tmp_path / "bad.json"), "--out", str(tmp_path / "out")]
    assert cli.main(argv) == 1
    assert "address" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "out")
