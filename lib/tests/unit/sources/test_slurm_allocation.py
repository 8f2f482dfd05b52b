"""Inventories from a Slurm allocation: its environment, its own writing out of names, roles in order."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from infrabench import cli
from infrabench.core import SiteError
from infrabench.machines.sites import import_hosts
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.site import read_file
from tests.support.scripts import write_program

SHORT = {"SLURM_JOB_NODELIST": "node[1-2]"}
JOB = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node1,node2", "PATH": "/nonexistent"}


def _scontrol(folder: Path, text: str) -> dict[str, str]:
    """Return a search path with a program that stands for Slurm's."""
    write_program(folder / "scontrol", text)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_slurm_writes_them_out_where_it_is_there(tmp_path: Path) -> None:
    path = _scontrol(tmp_path, 'echo "$*" >"$0.asked"; printf "a1\\na2\\n"')
    assert import_hosts.read_allocation({**JOB, **SHORT, **path})[1] == ("a1", "a2")
    assert (tmp_path / "scontrol.asked").read_text() == "show hostnames node[1-2]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [("echo no such list >&2; exit 1", "fails here: no such list"), ("kill -9 $$", "fails here"), ("exit 0", "names 0"),
     ("seq 5000", "names 5000 hosts; 4096 are the most"), ("yes", "fails here")],
)  # fmt: skip
def test_a_slurm_that_does_not_write_them_out_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SiteError, match=told):
        import_hosts.read_allocation({**JOB, **SHORT, **_scontrol(tmp_path, text)})
    with pytest.raises(SiteError, match=r"fails here: .*scontrol"):
        import_hosts.read_allocation({**JOB, **SHORT})


@pytest.mark.parametrize("name", ["-x", "../a", "a a", "$(id)", "a/b"])
def test_what_slurm_says_has_to_be_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(SiteError, match=r"no name of a host|twice"):
        import_hosts.read_allocation({**JOB, **SHORT, **_scontrol(tmp_path, f"printf '%s\\n' '{name}'")})


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "SLURM_JOB_NODELIST, SLURM_JOB_ID is not set. Use it inside sbatch or salloc"),
        ({"SLURM_JOB_ID": "1"}, "SLURM_JOB_NODELIST is not set"),
        ({**JOB, "SLURM_JOB_ID": ""}, "SLURM_JOB_ID is not set"),
        ({**JOB, "SLURM_JOB_ID": "../1"}, "no number of a job"),
        ({**JOB, "SLURM_JOB_ID": "\u0661"}, "no number of a job"),
        ({**JOB, "SLURM_HET_SIZE": "2"}, "heterogeneous"),
    ],
)
def test_what_is_no_allocation_is_told(environment: dict[str, str], told: str) -> None:
    with pytest.raises(SiteError, match=told):
        import_hosts.read_allocation(environment)


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ("no list of hosts", ["-n", "-n[1-2]", "--output=/etc/passwd", "../../etc", "n;touch x", "$(id)", "n\n", "n m",
                              "n\x00", "n\u0661", "n[\u0661-\u0663]"]),
        ("no name of a host", ["n,,m", ",n", "n]", ".n", "n" * 300]),
        ("twice: n1", ["n1,n1"]),
        ("of 10000000 characters", ["x" * 10_000_000]),
        ("are the most", ["a,b" * 20_000]),
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused_in_no_time_and_handed_to_no_program(told: str, texts: list[str]) -> None:
    for text in texts:
        begin = time.process_time()
        with pytest.raises(SiteError, match=told) as error:
            import_hosts.read_allocation({**JOB, "SLURM_JOB_NODELIST": text})
        assert time.process_time() - begin < 1
        assert len(str(error.value)) < 500


def _places(names: list[str], roles: list[str], **how: Any) -> tuple[list[tuple[str, str, str]], tuple[str, ...]]:
    found, left = import_hosts.assign_roles("7", names, roles, {"user": "me"}, **how)
    return [(each.called, each.site, each.role) for each in found], left


def test_nodes_take_roles_in_their_order_and_what_is_left_or_lacking_is_told() -> None:
    assert _places(["a"], []) == ([("a", "slurm-7", "server")], ())
    assert _places(["a", "b"], []) == ([("a", "slurm-7", "server"), ("b", "slurm-7", "client")], ())
    assert _places(["a", "b"], ["client", "server"], site="x")[0][0] == ("a", "x", "client")
    found, left = _places(list("abcde"), [])  # more nodes are more sites
    assert [site for _, site, _ in found] == ["slurm-7-1", "slurm-7-1", "slurm-7-2", "slurm-7-2"]
    assert left == ("e",)
    with pytest.raises(SiteError, match="has 1 nodes, and 2 roles are asked for: server, client"):
        _places(["a"], ["server", "client"])
    with pytest.raises(SiteError, match="a role is there twice"):
        _places(["a", "b"], ["server", "server"])


def test_a_clusters_machines_get_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = import_hosts.assign_roles("7", ["localhost"], ["flannel-control"], {})
    assert found[0].reached["address"] == "127.0.0.1"

    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SiteError, match=r"none\.invalid: a cluster's machine needs an address"):
        import_hosts.assign_roles("7", ["none.invalid"], ["flannel-control"], {})


def test_the_command_prints_an_inventory(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    assert cli.main(["hosts", "inventory", "slurm"]) == 1
    assert "no Slurm allocation here" in capsys.readouterr().err
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    how = ("--user", "admin", "--sudo", "--key", "~/.ssh/cluster", "--port", "2222")
    assert cli.main(["hosts", "inventory", "slurm", *how]) == 0
    file = tmp_path / "hosts.yml"
    file.write_text(capsys.readouterr().out)
    found = read_file(file)
    assert isinstance(found, Inventory)
    assert found.name == "slurm-4711"
    assert {role: host.address for role, host in found.hosts.items()} == {"server": "node1", "client": "node2"}
    assert {(host.user, host.sudo, host.port, str(host.key)) for host in found.hosts.values()} == {
        ("admin", True, 2222, "~/.ssh/cluster"),
    }  # fmt: skip
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node1,node2,node3,node4,node5")
    assert cli.main(["hosts", "inventory", "slurm", "--out", str(tmp_path), "--name", "night"]) == 0
    told = capsys.readouterr()
    assert told.out.split() == [str(tmp_path / "night-1.yml"), str(tmp_path / "night-2.yml")]
    assert "nodes without a role: node5" in told.err
