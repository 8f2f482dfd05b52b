"""Machines that are borrowed for a cluster: refused where others would be hurt, and given back as they were found.

The machine is a root file system with a network and processes of its own on this kernel, and what a node of a cluster
leaves behind is really made on it: devices, rules, filters, mounts, processes, settings, files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.core import NotRunnable, ProvisionError
from infrabench_platforms.clusters import hosts, remote
from tests.support.cluster_fakes import Scripted
from tests.support.sandbox import Sandbox, sandbox

# Everything of the machine that a study could change, as text.
STATE = """
ip -o link | sed 's/^[0-9]*: //' | sort; ip rule; ip route show table all | sort
for table in raw mangle nat filter; do iptables-save -t $table | grep -v '^[#:]' || true; done
ipset list -n 2>/dev/null || true
awk '{print $5, $9}' /proc/self/mountinfo | sort
cd /proc/sys/net; for file in ipv4/ip_forward ipv4/conf/*/forwarding ipv4/conf/*/route_localnet bridge/*; do
  echo "$file $(cat $file)"; done
find / -xdev \\( -path /proc -o -path /sys -o -path /var/cache/infrabench \\) -prune -o -print | sort
find /run /sys/fs/cgroup | sort
ps -e -o args= | grep -vE '^\\[?(sh|ps|grep|env|sort)\\]?( |$)|defunct' | sort
"""
# Rules and files of others, that no clean-up may touch.
OTHERS = """
iptables -N KUBER; iptables -A INPUT -m comment --comment "see KUBE-SERVICES and CILIUM_INPUT" -j KUBER
iptables -t nat -A POSTROUTING -s 198.51.100.0/24 -j MASQUERADE
iptables -A INPUT -s 198.51.100.7 -j DROP
ip rule add pref 7 fwmark 0x7 lookup 77
mkdir -p /etc/kubernetes /var/lib/other /root/.kube; echo x >/root/.kube/config
ip link add lxcbr0 type bridge; ip link add lxcx type veth peer name lxcy
echo 0 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/conf/lo/forwarding
"""
NODE = """
mkdir -p /etc/cni/net.d /opt/cni/bin /var/lib/kubelet/pods/x/volumes /var/lib/containerd/io /run/containerd/io
mkdir -p /run/netns /run/flannel /run/cilium /usr/libexec/kubernetes/kubelet-plugins /var/log/pods/a
mkdir -p /root/.kube/cache/http
echo x | tee /etc/kubernetes/admin.conf /etc/cni/net.d/00-multus.conf /opt/cni/bin/bridge /run/flannel/subnet.env \
  /root/.kube/cache/http/y >/dev/null
mount -t tmpfs tmpfs /var/lib/kubelet/pods/x/volumes; mount -t tmpfs tmpfs /run/containerd/io
touch /run/netns/cni-0a; mount --bind /proc/1/ns/net /run/netns/cni-0a
ip link add cni0 type bridge; ip link add flannel.1 type vxlan id 1 dstport 8472
ip link add cilium_host type veth peer name cilium_net; ip link add lxc0123456789ab type veth peer name tmp0
ip rule add pref 100 lookup local; ip rule del pref 0; ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004
ip route add local default dev lo table 2004; ip route add 198.19.1.0/24 dev lo
iptables -t nat -N KUBE-SERVICES; iptables -t nat -N KUBE-SVC-A; iptables -t nat -A KUBE-SERVICES -j KUBE-SVC-A
iptables -t nat -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
iptables -t nat -N CNI-HOSTPORT-DNAT; iptables -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
iptables -N FLANNEL-FWD; iptables -A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
iptables -t mangle -N CILIUM_PRE_mangle
iptables -t mangle -A PREROUTING -m comment --comment "cilium-feeder: CILIUM_PRE_mangle" -j CILIUM_PRE_mangle
ip6tables -t mangle -N KUBE-IPTABLES-HINT
ipset create cilium_node_set_v4 hash:ip
echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/bridge/bridge-nf-call-iptables
echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
mkdir -p /var/cache/infrabench/containerd-0123456789abcdef
cp /bin/sleep /var/cache/infrabench/containerd-0123456789abcdef/containerd-shim-runc-v2
/var/cache/infrabench/containerd-0123456789abcdef/containerd-shim-runc-v2 600 >/dev/null 2>&1 &
sleep 400 >/dev/null 2>&1 & echo $! >/run/units/infrabench-kubelet.service
"""


@pytest.fixture
def machine() -> Iterator[Sandbox]:
    """A machine with rules, devices and files of others."""
    with sandbox() as made:
        made.sh(OTHERS)
        yield made


def spoil(machine: Sandbox) -> None:
    """Make on the machine what a node of a cluster makes."""
    hosts.push(machine, hosts.unit("kubelet", ("/bin/true",)))
    machine.sh(NODE)


def test_a_borrowed_machine_is_given_back_as_it_was_found(machine: Sandbox) -> None:
    before = machine.sh(STATE)
    remote.borrow(machine)
    spoil(machine)
    spoilt = machine.sh(STATE)
    for trace in (
        "flannel.1",
        "KUBE-SVC-A",
        "lookup 2004",
        "198.19.1.0/24",
        "cni-0a",
        "shim-runc-v2 600",
        "sleep 400",
        "admin.conf",
    ):
        assert trace in spoilt
        assert trace not in before
    assert remote.give_back(machine) == []
    assert machine.sh(STATE) == before
    assert remote.give_back(machine) == []  # and a machine that is not borrowed is left alone
    assert machine.sh(STATE) == before


def test_what_a_killed_run_left_is_given_back_before_the_machine_is_borrowed_again(machine: Sandbox) -> None:
    before = machine.sh(STATE)
    remote.borrow(machine)
    spoil(machine)
    remote.borrow(machine)
    assert "flannel.1" not in machine.sh(STATE)
    assert remote.give_back(machine) == []
    assert machine.sh(STATE) == before


def test_what_crio_leaves_goes_by_the_note_of_what_it_was_borrowed_for(machine: Sandbox) -> None:
    before = machine.sh(STATE)
    remote.borrow(machine, ("kubernetes", "crio", "kata"))
    machine.sh("""
        mkdir -p /var/lib/containers/storage/overlay/a/merged /run/containers/storage /run/crio/namespaces/netns
        mkdir -p /var/log/crio/pods /etc/crio /run/runc/id /run/vc/vm/1 /run/kata-containers/shared/sandboxes/1
        mount -t tmpfs tmpfs /var/lib/containers/storage/overlay/a/merged
        touch /run/crio/namespaces/netns/b; mount --bind /proc/1/ns/net /run/crio/namespaces/netns/b
        mount -t tmpfs tmpfs /run/kata-containers/shared/sandboxes/1; echo x >/etc/crio/crio.conf
    """)
    assert "/run/crio/namespaces/netns/b" in machine.sh(STATE)
    assert remote.give_back(machine) == []
    assert machine.sh(STATE) == before


def test_folders_of_a_runtime_that_is_not_asked_for_are_left_alone(machine: Sandbox) -> None:
    machine.sh("mkdir -p /var/lib/containers/storage/images; echo x >/var/lib/containers/storage/images/y")
    before = machine.sh(STATE)
    with pytest.raises(NotRunnable, match="/var/lib/containers is not empty: it belongs to others"):
        remote.borrow(machine, ("crio",))
    remote.borrow(machine, ("containerd",))
    assert remote.give_back(machine) == []
    assert machine.sh(STATE) == before


def test_crio_needs_programs_that_containerd_does_not(machine: Sandbox) -> None:
    machine.sh("rm /usr/bin/conmon /usr/bin/skopeo")
    with pytest.raises(NotRunnable, match="programs are missing: apt-get install conmon skopeo"):
        remote.borrow(machine, ("crio",))
    remote.borrow(machine, ("containerd",))
    assert remote.give_back(machine) == []


def test_what_cannot_be_removed_is_told_and_tried_again(machine: Sandbox) -> None:
    remote.borrow(machine)
    machine.sh("mkdir -p /var/lib/etcd/data; mount -t tmpfs tmpfs /var/lib/etcd/data")
    left = remote.give_back(machine)
    assert left == ["files in /var/lib/etcd", "folder /var/lib/etcd"]
    with pytest.raises(NotRunnable, match="still has of an earlier run: files in /var/lib/etcd"):
        remote.borrow(machine)
    machine.sh("umount /var/lib/etcd/data")
    remote.borrow(machine)
    assert remote.give_back(machine) == []


def test_processes_of_pods_are_ended_by_their_cgroup(machine: Sandbox) -> None:
    pods = "/sys/fs/cgroup/pids/kubepods"
    remote.borrow(machine)
    machine.sh(
        f"mkdir -p {pods}/burstable/pod1; sleep 500 >/dev/null 2>&1 & echo $! >{pods}/burstable/pod1/cgroup.procs"
    )
    machine.sh("sleep 501 >/dev/null 2>&1 &")
    assert remote.give_back(machine) == [f"cgroup {pods}"]  # a plain folder here, whose file only the kernel removes
    shown = machine.sh("ps -e -o args=")
    assert "sleep 500" not in shown
    assert "sleep 501" in shown
    machine.sh(f"rm -r {pods}")
    assert remote.give_back(machine) == []


def test_a_unit_that_systemd_forgot_leaves_no_cgroup(machine: Sandbox) -> None:
    unit = "infrabench-containerd.service"
    group = f"/sys/fs/cgroup/pids/system.slice/{unit}"
    remote.borrow(machine)
    machine.sh(f"echo 'Description=infrabench: containerd' >/etc/systemd/system/{unit}; mkdir -p {group}/keepers")
    assert remote.give_back(machine) == []
    machine.sh(f"[ ! -e {group} ]")


def test_empty_tables_of_a_filter_go_and_those_with_a_rule_of_others_stay(machine: Sandbox) -> None:
    machine.sh("nft flush ruleset; nft add table ip raw")
    remote.borrow(machine)
    hook = "{ type filter hook input priority 0; policy accept; }"
    machine.sh(
        "for table in filter mangle; do nft add table ip $table; "
        f"nft add chain ip $table INPUT '{hook}'; done; nft add table ip6 nat; "
        "nft add rule ip mangle INPUT ip saddr 203.0.113.9 counter accept; nft add table ip theirs"
    )
    assert remote.give_back(machine) == []
    assert machine.sh("nft list tables").splitlines() == ["table ip raw", "table ip mangle", "table ip theirs"]
    assert "203.0.113.9" in machine.sh("nft list table ip mangle")


def test_a_route_that_leads_nowhere_may_cover_the_clusters_networks(machine: Sandbox) -> None:
    machine.sh("ip route add unreachable 198.18.0.0/15 metric 4096; ip route add default dev eth0")
    remote.borrow(machine)
    assert remote.give_back(machine) == []
    assert "unreachable 198.18.0.0/15" in machine.sh("ip route")


@pytest.mark.parametrize(
    ("has", "told"),
    [
        ("echo x >/etc/kubernetes/admin.conf", "already is part of a cluster: use that cluster's kubeconfig"),
        ("cp /bin/sleep /usr/bin/kubelet; kubelet 60 >/dev/null 2>&1 &", "already is part of a cluster"),
        ("cp /bin/sleep /usr/bin/containerd; containerd 60 >/dev/null 2>&1 &", "a container runtime or etcd already"),
        ("mkdir -p /var/lib/containerd/x", "/var/lib/containerd is not empty: it belongs to others"),
        ("ip link add cni0 type bridge", "a network device cni0 of others"),
        ("ip addr add 198.19.77.11/24 dev eth0", r"its route '.*198\.19\.77\..*' leads to where the cluster's pods"),
        ("ip route add 198.19.200.0/24 dev eth0", r"pods or services would be \(198\.19\.192\.0/20\)"),
        (
            "ip route add 198.18.0.0/15 dev eth0",
            r"its route '198\.18\.0\.0/15 dev eth0.*take a machine whose own networks",
        ),
        ("rm /usr/sbin/runc /usr/bin/socat", "programs are missing: apt-get install runc socat"),
        ("rm -r /usr/lib/cni", "apt-get install containernetworking-plugins"),
        ("rmdir /run/systemd/system", "run by systemd, and there is none"),
    ],
)
def test_a_machine_that_others_use_is_not_borrowed(machine: Sandbox, has: str, told: str) -> None:
    machine.sh(has)
    before = machine.sh(STATE)
    with pytest.raises(NotRunnable, match=told) as error:
        remote.borrow(machine)
    assert "borrowed: " in str(error.value)
    assert machine.sh(STATE) == before
    assert remote.give_back(machine) == []
    assert machine.sh(STATE) == before


def test_programs_are_brought_once_and_older_ones_go(machine: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "multus-0123456789abcdef"
    (folder / "bpf").mkdir(parents=True)
    (folder / "multus").write_text("program")
    (folder / "multus").chmod(0o755)
    machine.sh(f"mkdir -p {remote.STORE}/multus-fedcba9876543210 {remote.STORE}/multus-of-others")
    said: list[str] = []
    for _ in range(2):
        remote.bring(machine, {"multus": folder}, said.append)
    assert said == ["Copying multus to borrowed: 0 MB, once"]
    listed = machine.sh(f"cd {remote.STORE}; stat -c '%n %a %U' * multus-0*/*")
    assert listed.splitlines() == [
        "multus-0123456789abcdef 755 root", "multus-of-others 755 root", "multus-0123456789abcdef/bpf 755 root",
        "multus-0123456789abcdef/multus 755 root",
    ]  # fmt: skip


def test_programs_that_somebody_changed_are_brought_anew(machine: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "multus-0123456789abcdef"
    folder.mkdir()
    (folder / "multus").write_text("program")
    (folder / "multus").chmod(0o664)
    said: list[str] = []
    for change in ("echo worse >", "chmod o+w ", "ln -sf /bin/true "):
        remote.bring(machine, {"multus": folder}, said.append)
        machine.sh(f"{change}{remote.STORE}/multus-0123456789abcdef/multus")
    remote.bring(machine, {"multus": folder}, said.append)
    assert len(said) == 4
    assert machine.sh(f"cat {remote.STORE}/multus-*/multus") == "program"


def test_a_full_disk_is_found_before_anything_is_copied(tmp_path: Path) -> None:
    (tmp_path / "multus-0").mkdir()
    (tmp_path / "multus-0/multus").write_bytes(bytes(10))

    def answer(argv: tuple[str, ...], _: bytes) -> tuple[int, bytes]:
        return (
            (0, b'{"digest": null}')
            if argv[0] == "python3"
            else (0, b"Filesystem 1B-blocks Used Available\n/dev/vda 9 9 900 99% /\n")
        )

    host = Scripted(answer)
    with pytest.raises(NotRunnable, match=r"0\.0 GiB free in /var/cache/infrabench, 1.0 are needed"):
        remote.bring(host, {"multus": tmp_path / "multus-0"})


def test_each_machine_gets_what_its_role_needs() -> None:
    here = Path("/cache")
    parcels = remote.Parcels(
        {name: here / f"{name}-1" for name in ("kubernetes", "etcd", "containerd", "cilium")},
        {kind: (f"localhost/{kind}:1", here / f"{kind}-1/image.tar") for kind in ("pause", "tools")}, {},
    )  # fmt: skip
    assert set(parcels.folders("control")) == {"kubernetes", "etcd", "cilium"}
    assert set(parcels.folders("worker1")) == {"kubernetes", "containerd", "cilium", "pause", "tools"}


def _clock(name: str, ahead_s: float) -> Scripted:
    return Scripted(lambda argv, _: (0, f"{time.time() + ahead_s:.9f}\n".encode()), name=name)


@pytest.mark.parametrize("year_s", [-31556952.0, -32.2, 32.2, 31556952.0])
def test_machines_whose_clocks_differ_are_not_borrowed(year_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "borrow", lambda host, tools: pytest.fail("it was borrowed"))
    team = {"control": _clock("a", 0.0), "worker1": _clock("b", year_s), "worker2": _clock("c", 0.0)}
    told = rf"the clock of [abc] is {abs(year_s):.0f} s ahead of that of [abc].*timedatectl"
    with pytest.raises(NotRunnable, match=told), remote.machines(team, remote.Parcels({}, {}, {})):
        pass


def test_clocks_that_are_wrong_together_are_left_alone() -> None:
    remote.check_clocks({role: _clock(role, 31556952.0) for role in ("control", "worker1", "worker2")})


def test_all_are_given_back_when_one_cannot_be_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = []

    def borrow(host: Scripted, tools: tuple[str, ...]) -> None:
        if host.name == "b":
            raise NotRunnable("b: it belongs to others")

    monkeypatch.setattr(remote, "borrow", borrow)
    monkeypatch.setattr(remote, "give_back", lambda host: returned.append(host.name) or [])
    team = {role: _clock(name, 0.0) for role, name in zip(("control", "worker1", "worker2"), "abc", strict=True)}
    parcels = remote.Parcels({}, {}, {})
    with pytest.raises(NotRunnable, match="belongs to others"), remote.machines(team, parcels):
        pass
    assert sorted(returned) == ["a", "b", "c"]


def test_a_machine_that_is_lost_at_the_end_is_told_and_hides_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def give_back(host: Scripted) -> list[str]:
        raise ProvisionError("no answer")

    monkeypatch.setattr(remote, "borrow", lambda host, tools: None)
    monkeypatch.setattr(remote, "give_back", give_back)
    team = {role: _clock(role, 0.0) for role in ("control", "worker1", "worker2")}
    with pytest.raises(KeyError), remote.machines(team, remote.Parcels({}, {}, {})):
        raise KeyError("the study's own")
    assert caplog.text.count("was not given back: no answer. The next run with it does that first") == 3
