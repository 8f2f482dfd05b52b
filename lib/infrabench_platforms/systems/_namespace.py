"""The one namespace that all our pods lie in, and a cluster that is used as it is: its nodes, its runtime classes.

Of the runtime classes, one is looked for whose pods a low-level runtime makes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from infrabench.core import Deployment, NotRunnable, ProvisionError, Site, SiteError
from infrabench_platforms.clusters import pods
from infrabench_platforms.clusters.cluster import Kubectl

GONE_S = 90.0
PODS_S = 60.0
CLASSES = "INFRABENCH_RUNTIME_CLASS"
USUAL = "runc"
# Handlers that the low-level runtimes' own guides for clusters use; Kata's installer adds the hypervisor: kata-qemu.
HANDLERS = {"crun": ("crun",), "runsc": ("runsc", "gvisor"), "kata": ("kata",)}
Class = Mapping[str, Any]
_BORROWED: set[str] = set()  # sites whose cluster has a system's pods now


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
    result = kubectl.run(
        "wait", "--for=condition=Ready", "pods", "--all", f"--namespace={pods.NAMESPACE}", f"--timeout={PODS_S:.0f}s",
        timeout_s=PODS_S + 10,
    )  # fmt: skip
    if not result.ok:
        events = kubectl.run(
            "get", "events", f"--namespace={pods.NAMESPACE}", "--field-selector=type=Warning",
            "--output=jsonpath={range .items[*]}{.involvedObject.name}: {.message}{'\\n'}{end}",
        )  # fmt: skip
        last = events.stdout.decode("utf-8", "replace").strip().splitlines()[-4:]
        raise ProvisionError(f"pods are not Ready after {PODS_S:.0f} s: {'; '.join(last) or result.stderr.decode()}")
    found = kubectl.get("pods", f"--namespace={pods.NAMESPACE}")["items"]
    return {each["metadata"]["name"]: each for each in found}


@contextmanager
def borrow(site: Site, kubectl: Kubectl, make: Callable[[], Deployment]) -> Iterator[Deployment]:
    """Yield what `make` makes in our namespace of the cluster that a site's kubeconfig leads to; both go at the end.

    When pods cannot be made for want of an image, the error says how it comes onto the nodes.
    """
    if site.name in _BORROWED:
        raise NotRunnable(
            "a cluster that is used as it is carries one system at a time, for all pods lie in one namespace: measure "
            "the other one in a session of its own"
        )
    found = kubectl.check("get", "namespace", pods.NAMESPACE, "--ignore-not-found", "--output=json")
    if found.strip() and pods.LABEL not in json.loads(found)["metadata"].get("labels", {}):
        raise NotRunnable(
            f"the cluster has a namespace {pods.NAMESPACE} that infrabench did not make. Remove it, or label it: "
            f"kubectl label namespace {pods.NAMESPACE} {pods.LABEL}=yes"
        )
    _BORROWED.add(site.name)
    try:
        try:
            deployment = make()
        except ProvisionError as error:
            if "image" not in str(error):
                raise
            raise ProvisionError(f"{error}. {site.facts['pod_image_hint']}") from error
        yield deployment
    finally:
        _BORROWED.discard(site.name)
        remove(kubectl)


def find_class(kubectl: Kubectl, low: str) -> Class | None:
    """Return the runtime class for a low-level runtime; None where pods of the usual one need none.

    The user may name classes by low-level runtime: ``kata=kata-qemu,runsc=gvisor``.

    Raises
    ------
    SiteError
        The user names a class that does not exist; those that do are said.
    NotRunnable
        No class is named for it and none has a handler of its name.
    """
    text = os.environ.get(CLASSES, "")
    pairs = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    if not all(own and name for own, _, name in pairs):
        raise SiteError(f"{CLASSES}={text!r}: write RUNTIME=NAME, such as kata=kata-qemu, with commas between several")
    named = {own: name for own, _, name in pairs}
    found = {each["metadata"]["name"]: each for each in kubectl.get("runtimeclasses")["items"]}
    there = ", ".join(f"{name} (handler {each['handler']})" for name, each in sorted(found.items())) or "none"
    if low in named:
        if named[low] not in found:
            raise SiteError(f"{CLASSES} names {named[low]} for {low}, which the cluster does not have. It has: {there}")
        return found[named[low]]
    if low == USUAL:
        return None
    words = HANDLERS[low]
    begins = tuple(f"{word}-" for word in words)
    good = [name for name, each in sorted(found.items()) if f"{each['handler']}-".startswith(begins)]
    if not good:
        what = {"kata": "Kata is not installed", "runsc": "gVisor is not installed"}.get(low, f"no {low}")
        raise NotRunnable(
            f"{what}: the cluster has no runtime class with a handler {' or '.join(words)}. It has: {there}. "
            f"{CLASSES}={low}=NAME names one"
        )
    return found[good[0]]


def takes(found: Class, node: Mapping[str, Any]) -> bool:
    """Tell whether the node has the labels that the runtime class asks for."""
    wanted = found.get("scheduling", {}).get("nodeSelector", {})
    labels = node["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in wanted.items())
