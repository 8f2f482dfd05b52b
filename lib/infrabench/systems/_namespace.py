"""The one namespace that all our pods lie in, and how a cluster that is used as it is gets and loses it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from infrabench.core import NotRunnable, ProvisionError, Site
from infrabench.machines.clusters import pods
from infrabench.machines.clusters.kubectl import Kubectl

GONE_S = 90.0
PODS_S = 60.0


def check(kubectl: Kubectl) -> None:
    """Raise `NotRunnable` when a namespace of that name is somebody else's: ours is removed with all that is in it."""
    found = kubectl.check("get", "namespace", pods.NAMESPACE, "--ignore-not-found", "--output=json")
    if found.strip() and pods.LABEL not in json.loads(found)["metadata"].get("labels", {}):
        raise NotRunnable(
            f"the cluster has a namespace {pods.NAMESPACE} that infrabench did not make. Remove it, or label it: "
            f"kubectl label namespace {pods.NAMESPACE} {pods.LABEL}=yes"
        )


def remove(kubectl: Kubectl) -> None:
    """Remove the namespace and all that is in it; nothing when there is none."""
    kubectl.check(
        "delete", "namespace", pods.NAMESPACE, "--ignore-not-found", f"--timeout={GONE_S:.0f}s", timeout_s=GONE_S + 10
    )  # fmt: skip


def nodes(kubectl: Kubectl) -> list[Mapping[str, Any]]:
    """Return the nodes of a cluster that take pods, as the API has them."""
    return [
        node
        for node in kubectl.get("nodes")["items"]
        if not node["spec"].get("unschedulable")
        and not any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", ()))
    ]


def running(kubectl: Kubectl) -> dict[str, Mapping[str, Any]]:
    """Return every pod by name once all are Ready; `ProvisionError` with their events when they do not get so."""
    told = kubectl.run(
        "wait", "--for=condition=Ready", "pods", "--all", f"--namespace={pods.NAMESPACE}", f"--timeout={PODS_S:.0f}s",
        timeout_s=PODS_S + 10,
    )  # fmt: skip
    if not told.ok:
        events = kubectl.run(
            "get", "events", f"--namespace={pods.NAMESPACE}", "--field-selector=type=Warning",
            "--output=jsonpath={range .items[*]}{.involvedObject.name}: {.message}{'\\n'}{end}",
        )  # fmt: skip
        last = events.stdout.decode("utf-8", "replace").strip().splitlines()[-4:]
        raise ProvisionError(f"pods are not Ready after {PODS_S:.0f} s: {'; '.join(last) or told.stderr.decode()}")
    found = kubectl.get("pods", f"--namespace={pods.NAMESPACE}")["items"]
    return {each["metadata"]["name"]: each for each in found}


@contextmanager
def hinted(site: Site) -> Iterator[None]:
    """Tell how an image comes onto the nodes of a cluster that was found, when pods cannot be made for want of it."""
    try:
        yield
    except ProvisionError as error:
        if "image" not in str(error):
            raise
        raise ProvisionError(f"{error}. {site.facts['pod_image_hint']}") from error
