"""Versions of a system: how they are named and ordered, which server has them, and that it is that version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import infrabench
from infrabench import registry
from infrabench.cli import commands
from infrabench.core import (
    Deployment,
    DeploySpec,
    DesignError,
    Limits,
    Machines,
    NotRunnable,
    ProvisionError,
    Request,
    Site,
    SiteError,
    Target,
    Versioned,
    order_systems,
    split_version,
)
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import preflight, session
from infrabench.experiment.execution.monitor import Monitor
from infrabench.experiment.execution.progress import words
from infrabench.machines.sites.site import OpenSite, open_local
from infrabench_platforms.availability import Enough, LabAhead
from infrabench_platforms.lab import go_parts, go_tools, images, node_groups, pod_images, releases
from tests.support.cluster_fakes import Scripted, answers

STUDY = registry.study("containers")
SPEC = DeploySpec("s", Limits(), "198.18.64.13")


class Fake:
    """A system that keeps where it is made."""

    def __init__(self, version: str | None, reason: str | None = None) -> None:
        self.version, self.reason = version, reason
        self.made: list[tuple[Site, DeploySpec]] = []

    def supported(self, site: Site) -> str | None:
        return self.reason

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        self.made.append((site, spec))
        yield Deployment("fake", {}, {"version": self.version})


def lab(monkeypatch: pytest.MonkeyPatch, log: list[str], client: Scripted | None = None) -> OpenSite:
    """Return the lab as a site, whose nodes are made and removed in `log` alone."""

    def boot(name: str, roles: Any, image: images.Image, folders: Mapping[str, Any]) -> Machines:
        log.append(f"boot {name} {image.kind}")
        return Machines({"server": Scripted(address=f"198.18.0.{21 + len(log)}")}, {}, {}, embedded=True)

    monkeypatch.setattr(images, "make", lambda kind, say: images.Image(kind, "0" * 16, images.Path(f"/{kind}")))
    monkeypatch.setattr(node_groups, "boot", boot)
    monkeypatch.setattr(node_groups, "close_group", lambda name, hosts: log.append(f"remove {name}"))
    hosts = {"server": Scripted(), "client": client or Scripted()}
    opener = releases.ReleaseServers(log.append)
    return OpenSite("lab", "lab", hosts, {"guest_network": "198.18.64.0/24"}, versioner=opener.open)


def test_names_are_split_and_versions_come_in_their_own_order() -> None:
    assert split_version("docker@26.1") == ("docker", "26.1")
    assert [split_version(name)[1] for name in ("docker", "docker@", "@26", "docker@26@1", "docker@-x")] == [""] * 5
    names = ["lxc", "docker@26.1", "docker@9.10", "docker@9.9", "docker@debian12", "docker"]
    assert order_systems(names, ["native", "docker", "lxc"]) == (
        "docker", "docker@debian12", "docker@9.9", "docker@9.10", "docker@26.1", "lxc",
    )  # fmt: skip


def test_a_version_is_a_system_and_an_unknown_system_has_none() -> None:
    found = registry.system("docker@26.1")
    assert isinstance(found, Versioned)
    assert (found.system, found.name, found.version) == (registry.system("docker"), "docker", "26.1")
    assert registry.source("systems", "docker@26.1") == registry.source("systems", "docker")
    for ask in (registry.system, lambda name: registry.source("systems", name)):
        with pytest.raises(DesignError, match="did you mean docker"):
            ask("dockr@26.1")


@pytest.mark.parametrize(
    ("systems", "ordered", "baseline"),
    [
        (["docker@26.1", "docker@20.10"], ("docker@20.10", "docker@26.1"), "docker@26.1"),  # the first that is named
        (["docker@26.1", "native", "docker"], ("native", "docker", "docker@26.1"), "native"),
    ],
)
def test_a_plan_has_versions_as_systems(systems: list[str], ordered: tuple[str, ...], baseline: str) -> None:
    found = designs.design(STUDY, Request("containers", profile="smoke", systems=tuple(systems)))
    assert (found.systems, found.baseline) == (ordered, baseline)
    backwards = designs.design(STUDY, Request("containers", profile="smoke", systems=tuple(systems[::-1])))
    assert designs.trials(found) == designs.trials(backwards)
    with pytest.raises(DesignError, match="unknown system 'dockr@1'"):
        designs.design(STUDY, Request("containers", profile="smoke", systems=("dockr@1",)))


def test_the_same_version_twice_is_an_aa_session() -> None:
    twin = designs.twins(STUDY, "docker@26.1")
    assert (twin.systems, twin.baseline) == (("docker@26.1", "docker@26.1-again"), "docker@26.1")
    found = designs.design(STUDY, Request("containers", profile="smoke", aa="docker@26.1"))
    assert found.systems == twin.systems
    with pytest.raises(DesignError, match="unknown system"):
        designs.twins(STUDY, "dockr@26.1")


def test_each_version_is_of_one_release() -> None:
    for name, release in releases.RELEASES.items():
        assert {releases.find_release(system, name) for system in registry.names("systems")} == {name}
        for system, version in release.versions.items():
            assert (system in registry.names("systems"), releases.find_release(system, version)) == (True, name)
    with pytest.raises(NotRunnable, match=r"no docker@27; it has docker@20.10, docker@26.1, debian12, debian13"):
        releases.find_release("docker", "27")
    assert len({release.network for release in releases.RELEASES.values()}) == len(releases.RELEASES)
    assert {release.image for release in releases.RELEASES.values()} <= {*images.KINDS}


def test_systems_of_one_release_share_a_server_that_goes_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    site = lab(monkeypatch, log)
    client: Any = site.hosts["client"]
    with ExitStack() as stack:
        first = stack.enter_context(site.version("docker", "26.1"))
        second = stack.enter_context(site.version("native", "debian13"))
        other = stack.enter_context(site.version("docker", "20.10"))
        assert log == ["boot release-debian13 node", "boot release-debian12 node12"]
        assert first.hosts["server"] is second.hosts["server"]
        assert other.hosts["server"] is not first.hosts["server"]
        assert first.hosts["client"] is client
        wanted = {"release": "debian13", "guest_network": "198.18.66.0/24", "node_image": "0" * 16}
        assert {key: first.facts[key] for key in wanted} == wanted
        server: Any = first.hosts["server"]
        assert " ".join(client.asked[0]) == f"ip route replace 198.18.66.0/24 via {server.address}"
    assert log[2:] == ["remove release-debian12", "remove release-debian13"]
    assert " ".join(client.asked[-1]) == "ip route del 198.18.66.0/24"
    with site.version("docker", "26.1"):  # and another one is made for the next deployment
        assert log[-1] == "boot release-debian13 node"


def test_a_server_without_a_route_to_its_guests_goes_at_once_and_any_although_the_client_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        if "del" in argv:
            raise SiteError("client is lost")
        return 0, b""

    for answer, error in ((answers(replace=(1, "no")), ProvisionError), (lost, SiteError)):
        log: list[str] = []
        with pytest.raises(error), lab(monkeypatch, log, Scripted(answer)).version("docker", "26.1"):
            assert (log, error) == (["boot release-debian13 node"], SiteError)
        assert log == ["boot release-debian13 node", "remove release-debian13"]


def test_a_version_or_a_release_is_made_on_its_server_and_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    for system in (Fake("5.0.2"), Fake(None)):
        with Versioned(system, "lxd", "debian13").deploy(lab(monkeypatch, []), SPEC) as made:
            assert made.facts["release"] == "debian13"
    system = Fake("26.1.5+dfsg1")
    site = lab(monkeypatch, [])
    with Versioned(system, "docker", "26.1").deploy(site, SPEC) as made:
        assert made.system == "docker@26.1"
        server = {"release": "debian13", "node_image": "0" * 16}
        assert made.facts == {"version": "26.1.5+dfsg1", "version_wanted": "26.1", **server}
    own, spec = system.made[0]
    assert own.hosts["server"] is not site.hosts["server"]
    assert spec.address == "198.18.66.13"  # in the network of its own server


@pytest.mark.parametrize(
    ("system", "version", "error", "said"),
    [
        (Fake("20.10.24"), "26.1", ProvisionError, "docker@26.1: version 20.10.24 is what runs there"),
        (Fake("26.10.1"), "26.1", ProvisionError, "version 26.10.1 is"),
        (Fake(None), "26.1", ProvisionError, "version None is"),
        (Fake("26.1", "no root"), "26.1", NotRunnable, "no root"),
        (Fake("26.1"), "27", NotRunnable, "the lab has no docker@27"),
    ],
)
def test_what_is_not_the_version_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, system: Fake, version: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said), Versioned(system, "docker", version).deploy(lab(monkeypatch, []), SPEC):
        pytest.fail("it was made")


def test_the_guards_watch_the_server_of_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    site, own = lab(monkeypatch, []), Scripted()
    target = Target("server", own)
    watched = [
        preflight.watched_hosts(site, Deployment("x", {"server": target}, {"cgroups": paths})) for paths in (["/x"], [])
    ]
    assert watched[0]["server"] is own
    assert watched[1]["server"] is site.hosts["server"]
    assert all(each["client"] is site.hosts["client"] for each in watched)
    streams: Any = {"server": 1, "client": 2, "other": 3}
    assert Monitor(streams).of(["client", "server", "client"])._streams == {"client": 2, "server": 1}


def test_other_sites_have_one_version_alone() -> None:
    sites = [open_local(make=False), *(OpenSite("rack", kind, {}) for kind in ("inventory", "kubeconfig"))]
    for site, name in product(sites, ("docker@26.1", "flannel@0.28.4", "containerd-runc@2.1")):
        assert registry.system(name).supported(site) == "several versions of a system are there in the lab alone"
    with pytest.raises(NotRunnable, match="one version of docker alone"):
        sites[0].version("docker", "26.1")


def test_what_a_version_needs_first_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infrabench_platforms.availability.require", lambda: None)
    monkeypatch.setattr(images, "cached", lambda kind: None if kind == "node12" else kind)

    def first(version: str) -> list[str]:
        ahead = LabAhead()
        with ahead.version("docker", version), pytest.raises(Enough):
            ahead.hosts["server"].run(("true",), timeout_s=1)
        return ahead.first

    assert (first("20.10"), first("26.1")) == (["node12"], [])
    with pytest.raises(NotRunnable, match="no docker@27"):
        LabAhead().version("docker", "27")


class Cluster(Fake):
    """A system that asks for machines of its own, as a CNI does."""

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        with site.machines("flannel", ("flannel", "flannel-cni")) as made:
            yield Deployment("flannel", {}, {"version": self.version, "versions": made.facts})


def lab_with_clusters(made: list[tuple[object, ...]]) -> OpenSite:
    @contextmanager
    def machines(name: str, tools: tuple[str, ...], workers: int) -> Iterator[Machines]:
        made.append((name, tools, workers))
        yield Machines({}, {}, {}, embedded=True)

    opener = releases.ReleaseServers()
    return OpenSite(
        "lab", "lab", {"server": Scripted()}, {"guest_network": "198.18.64.0/24"}, machines, versioner=opener.open
    )


def test_a_version_of_a_clusters_program_is_a_cluster_of_its_own() -> None:
    asked: list[tuple[object, ...]] = []
    site = lab_with_clusters(asked)
    with ExitStack() as stack:
        both = [
            stack.enter_context(Versioned(Cluster(f"v{each}"), "flannel", each).deploy(site, SPEC))
            for each in ("0.28.4", "0.28.10")
        ]
        assert [each.system for each in both] == ["flannel@0.28.4", "flannel@0.28.10"]
        assert [each.facts["version_wanted"] for each in both] == ["0.28.4", "0.28.10"]
        assert not {"release", "node_image"} & {*both[0].facts}  # it is no server
    parts = ("flannel", "flannel-cni")
    assert asked == [
        ("flannel-0.28.4", (*parts, "flannel-0.28.4"), 2), ("flannel-0.28.10", (*parts, "flannel"), 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "found", "same"),
    [
        ("flannel", "0.28.4", "v0.28.4", True),
        ("flannel", "0.28.4", "v0.28.41", False),
        ("flannel", "0.28.4", "v0.28.10", False),
        ("containerd-runc", "2.1", "containerd://2.1.6+unknown, runc: runc version 1.1.15", True),
        ("containerd-runc", "2.1", "containerd://2.4.2+unknown, runc: runc version 2.1", False),
        ("crio-runc", "1.36", "cri-o://1.36.3, runc: runc version 1.1.15", True),
    ],
)
def test_a_cluster_of_another_version_is_not_measured(name: str, version: str, found: str, same: bool) -> None:
    made = Versioned(Cluster(found), name, version).deploy(lab_with_clusters([]), SPEC)
    if same:
        with made as deployment:
            assert deployment.facts["version"] == found
    else:
        with pytest.raises(ProvisionError, match=f"{name}@{version}: version {re.escape(found)} is what runs"), made:
            pytest.fail("it was made")


def test_machines_are_the_same_with_every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Cluster("1")
    made = Versioned(wire, "wire", "debian12").deploy(lab(monkeypatch, []), SPEC)
    with pytest.raises(NotRunnable, match="the lab has one version of flannel alone"), made:
        pytest.fail("it was made")
    monkeypatch.setattr("infrabench_platforms.availability.require", lambda: None)
    with LabAhead().version("wire", "debian12") as ahead:
        for ask in (lambda: ahead.machines("wire", ()), lambda: ahead.store("wire", 0)):
            with pytest.raises(NotRunnable, match="the lab has one version of wire alone"):
                ask()


def test_a_plan_says_what_is_built_for_a_version_how_long_that_takes_and_what_the_lab_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path))
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: ("go", "go1.26.8"))
    monkeypatch.setattr("infrabench_platforms.availability.require", lambda: None)
    monkeypatch.setattr(images, "cached", lambda kind: images.Image(kind, "0" * 16, Path("/nowhere")))
    monkeypatch.setattr(pod_images, "cached", lambda kind: kind)
    monkeypatch.setattr(go_tools, "cached", lambda part: None if part in go_parts.ON_DEMAND else part)
    monkeypatch.setattr(go_tools, "require", lambda parts: None)

    def lines(study: str, *systems: str) -> list[str]:
        asked = session.request(registry.study(study), profile="smoke", systems=list(systems))
        return list(commands._describe_versions(asked))

    assert lines("runtimes", "containerd-runc", "containerd-runc@2.4") == []
    took = words(go_tools.estimate(["containerd-2.1"]))
    assert lines("runtimes", "containerd-runc@2.1", "containerd-crun@2.1") == [
        f"made first for these versions in the lab, once: containerd-2.1; about {took}, besides downloads"
    ]
    assert lines("runtimes", "containerd-runc@1.7", "containerd-runc") == [
        "containerd-runc@1.7: not run in the lab: the lab has no containerd-runc@1.7; it has containerd-runc@2.1, "
        "containerd-runc@2.4"
    ]
    unknown = lines("containers", "native", "docker@26.1", "docker@27")
    assert [line.partition(":")[0] for line in unknown if "has no docker@27" in line] == ["docker@27"]


def test_a_node_of_another_release_is_the_same_node_and_more() -> None:
    assert {*images.packages("node12"), "docker-cli", "incus-base", "incus-client"} == {*images.packages("node")}
    assert images.suite("node12") != images.suite("node") == images.suite("guest")


def test_the_guide_lists_every_version() -> None:
    guide = (Path(infrabench.__file__).parents[2] / "docs/versions.md").read_text()
    named = {each for each in re.findall(r"`([\w-]+@[\w.]+)`", guide) if not each.startswith("docker@debian")}
    versions = {f"{name}@{each}" for release in releases.RELEASES.values() for name, each in release.versions.items()}
    programs = {
        f"{name if name in registry.names('systems') else f'{name}-runc'}@{each}"
        for name, known in go_parts.VERSIONS.items()
        for each in known
    }
    assert versions | programs | {"lxd@debian13"} == named
