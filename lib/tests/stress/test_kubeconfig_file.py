"""A kubeconfig as a site: what it says, and what is told of a cluster that cannot be used; by a real kubectl."""

from __future__ import annotations

import json
import re
import shutil
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench.core import Result, SiteError
from infrabench.machines.sites import cluster_claim, kubeconfig
from infrabench.machines.sites.site import name_and_kind, open_site
from infrabench_platforms.lab import go_tools, pod_images
from tests.support.api_server import serving_api

CONFIG: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Config", "current-context": "me@east",
    "clusters": [{"name": "arn:aws:eks:eu/east 1", "cluster": {"server": "https://192.0.2.1:6443"}}],
    "contexts": [
        {"name": "me@east", "context": {"cluster": "arn:aws:eks:eu/east 1", "user": "me"}},
        {"name": "me@west", "context": {"cluster": "west", "user": "me"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret"}}],
}  # fmt: skip
RIGHTS = {part.removeprefix("--subresource=").split(".")[0] for right in kubeconfig.RIGHTS for part in right}
needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl") and go_tools.cached("kubernetes") is None, reason="not run: no kubectl here"
)


def entry(**cluster: str) -> dict[str, Any]:
    return {"name": "arn:aws:eks:eu/east 1", "cluster": cluster}


def written(folder: Path, config: object) -> Path:
    path = folder / "east.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def changed(**keys: object) -> dict[str, Any]:
    return {key: value for key, value in {**CONFIG, **keys}.items() if value is not None}


def test_the_site_is_called_after_the_cluster_of_the_current_context(tmp_path: Path) -> None:
    name, kind = name_and_kind(written(tmp_path, CONFIG))
    assert kind == "kubeconfig"
    assert name.startswith("arn-aws-eks-eu-east-1-")


def test_two_clusters_of_one_name_are_two_sites(tmp_path: Path) -> None:
    def name(**cluster: str) -> str:
        found = entry(**{"server": "https://192.0.2.1:6443", **cluster})
        return name_and_kind(written(tmp_path, changed(clusters=[found])))[0]

    (tmp_path / "ca.crt").write_text("one")
    names = [
        name(), name(server="https://192.0.2.2:6443"), name(**{"certificate-authority-data": "eA=="}),
        name(**{"certificate-authority": "ca.crt"}),
    ]  # fmt: skip
    assert len(set(names)) == 4
    assert name() == names[0]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"current-context": None}, "no current-context. Set one: kubectl --kubeconfig"),
        ({"current-context": "me@north"}, "contexts has 0 entries called 'me@north'"),
        ({"current-context": "me@west"}, "clusters has 0 entries called 'west'"),
        ({"clusters": "east"}, "clusters has 0 entries"),
        ({"clusters": [*CONFIG["clusters"], *CONFIG["clusters"]]}, "clusters has 2 entries"),
        ({"clusters": [entry()]}, "has no server"),
        ({"clusters": [entry(server="https://me:secret@[2001:db8::1:6443")]}, "server of cluster .* is no URL"),
        ({"clusters": [entry(server="https://x", **{"certificate-authority": "no"})]}, "authority 'no' cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_names_no_cluster_is_refused(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(SiteError, match=told) as error:
        name_and_kind(written(tmp_path, changed(**keys)))
    assert str(tmp_path) in str(error.value)
    assert "secret" not in str(error.value)


@dataclass
class Cluster:
    """What of a Kubernetes API is asked: its version, its resources, and whether the user may do something."""

    status: int = 200
    message: str = ""
    forbidden: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def answer(self, verb: str, path: str, body: bytes) -> tuple[int, object]:
        if verb == "get" and self.status != 200:
            return self.status, {"kind": "Status", "status": "Failure", "reason": "x", "message": self.message}
        if verb == "get":
            answers = {
                "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}, "/api": {"versions": ["v1"]},
                "/apis": {"kind": "APIGroupList", "groups": []},
            }  # fmt: skip
            return 200, answers.get(path, {})
        # In kubectl's own binary form: after the namespace come verb, group, resource and subresource.
        words = re.findall(r"[a-z]+", body.decode("utf-8", "replace").split("infrabench")[1])
        right = "/".join(word for word in words if word in RIGHTS)
        self.asked.append(right)
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
        return 201, {**review, "status": {"allowed": right not in self.forbidden}}


def at(folder: Path, url: str, **keys: object) -> Path:
    return written(folder, changed(clusters=[entry(server=url)], **keys))


@needs_kubectl
def test_a_cluster_is_opened_by_its_kubeconfig_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kubeconfig.IMAGE, "registry.example/tools:1")
    cluster = Cluster()
    with serving_api(cluster.answer) as url:
        path = at(tmp_path, url)
        with open_site(path) as site:
            assert (site.name, site.kind) == name_and_kind(path)
            assert site.facts["kubectl"][1:] == ["--kubeconfig", str(path), "--context=me@east"]
            assert site.facts["pod_image"] == "registry.example/tools:1"
            assert "secret" not in json.dumps(dict(site.facts))
            assert set(site.hosts) == {"server"}
        assert {"create/namespaces", "delete/namespaces", "create/pods/exec", "list/nodes"} <= set(cluster.asked)


@needs_kubectl
def test_a_session_claims_the_cluster_and_gives_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kubeconfig.IMAGE, "registry.example/tools:1")
    calls: list[tuple[str, str]] = []

    def call(host: object, api: list[str], verb: str, path: str, body: dict[str, Any] | None = None) -> Result:
        calls.append((verb, api[0]))
        return Result((), 0, json.dumps(body or {}).encode(), b"", 0.0, 0.0)

    monkeypatch.setattr(cluster_claim, "_call", call)
    with serving_api(Cluster().answer) as url, open_site(at(tmp_path, url), session="mine") as site:
        kubectl = site.facts["kubectl"][0]
        assert calls == [("create", kubectl)]
        assert site.hosts["server"].run(("true",), timeout_s=5).ok
        host = site.hosts["server"]
        assert isinstance(host, cluster_claim.ClaimedHost)
        host._claim.lost = "it was taken over"
        with pytest.raises(SiteError, match="no longer this session's: it was taken over"):
            host.run(("true",), timeout_s=5)
        host._claim.lost = ""
    assert calls == [("create", kubectl), ("delete", kubectl)]


@needs_kubectl
@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (Cluster(forbidden={"create/namespaces"}), "may not create namespaces in the cluster"),
        (Cluster(forbidden={"delete/namespaces"}), "may not delete namespaces in the cluster"),
        (Cluster(forbidden={"create/pods/exec"}), "may not create pods/exec in the cluster"),
        (Cluster(401, "Unauthorized"), "not accepted, or has expired: get a new kubeconfig"),
        (Cluster(403, "version is forbidden"), "ask its administrator for a role"),
    ],
)
def test_a_user_without_a_right_is_told_which(tmp_path: Path, cluster: Cluster, told: str) -> None:
    with serving_api(cluster.answer) as url, pytest.raises(SiteError, match=told):
        open_site(at(tmp_path, url)).__enter__()


LOGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login", "interactiveMode": "Never"}


@needs_kubectl
@pytest.mark.parametrize(
    ("url", "keys", "told"),
    [
        ("http://127.0.0.1:1", {}, "Nothing listens there: is the control plane up, and the port right"),
        ("https://nowhere.invalid:6443", {}, "used: .*lookup API-SERVER.* The name of the server is not known"),
        ("https://127.0.0.1:1", {"users": [{"name": "me", "user": {"exec": LOGIN}}]},
         "from a program that is not installed here"),
    ],
)  # fmt: skip
def test_a_cluster_that_does_not_answer_is_found_within_seconds(
    tmp_path: Path, url: str, keys: dict[str, Any], told: str
) -> None:
    path, began = at(tmp_path, url, **keys), time.monotonic()
    with pytest.raises(SiteError, match=told), open_site(path):
        pass
    assert time.monotonic() - began < 15


@needs_kubectl
def test_a_silent_cluster_is_found_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kubeconfig.ANSWER_S <= 5
    monkeypatch.setattr(kubeconfig, "ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        path, began = at(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"), time.monotonic()
        with pytest.raises(SiteError, match=r"cannot be used: .* Is the address right"), open_site(path):
            pass
    assert time.monotonic() - began < 12


def test_without_kubectl_it_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go_tools, "cached", lambda name: None)
    with pytest.raises(SiteError, match="infrabench lab build --only kubernetes"), open_site(written(tmp_path, CONFIG)):
        pass
    monkeypatch.setattr(go_tools, "cached", lambda name: tmp_path / name)
    assert kubeconfig._program() == str(tmp_path / "kubernetes/kubectl")


def test_an_image_that_cannot_be_made_here_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path))
    monkeypatch.setattr(pod_images, "missing", lambda: "images for pods need mmdebstrap")
    with pytest.raises(
        SiteError, match=r"need mmdebstrap. Or name one that the cluster can pull.*INFRABENCH_POD_IMAGE="
    ):
        kubeconfig.pod_image(print)
