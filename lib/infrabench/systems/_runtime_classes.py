"""Runtime classes of a cluster that is used as it is: the one whose pods a low-level runtime makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from infrabench.core import NotRunnable, SiteError
from infrabench.machines.clusters.kubectl import Kubectl

CLASSES = "INFRABENCH_RUNTIME_CLASS"
USUAL = "runc"
# Handlers that the low-level runtimes' own guides for clusters use; Kata's installer adds the hypervisor: kata-qemu.
HANDLERS = {"crun": ("crun",), "runsc": ("runsc", "gvisor"), "kata": ("kata",)}
Class = Mapping[str, Any]


def find_class(kubectl: Kubectl, low: str) -> Class | None:
    """Return the runtime class for a low-level runtime; None where pods of the usual one need none.

    Raises
    ------
    SiteError
        The user names a class that does not exist; those that do are said.
    NotRunnable
        No class is named for it and none has a handler of its name.
    """
    named = _named()
    found = {each["metadata"]["name"]: each for each in kubectl.get("runtimeclasses")["items"]}
    there = ", ".join(f"{name} (handler {each['handler']})" for name, each in sorted(found.items())) or "none"
    if low in named:
        if named[low] not in found:
            raise SiteError(f"{CLASSES} names {named[low]} for {low}, which the cluster does not have. It has: {there}")
        return found[named[low]]
    if low == USUAL:
        return None
    words = HANDLERS[low]
    good = [name for name, each in sorted(found.items()) if any(_is(each["handler"], word) for word in words)]
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


def _named() -> dict[str, str]:
    """Return the runtime classes that the user names, by low-level runtime: ``kata=kata-qemu,runsc=gvisor``."""
    text = os.environ.get(CLASSES, "")
    pairs = [each.strip().partition("=") for each in text.split(",") if each.strip()]
    if not all(low and name for low, _, name in pairs):
        raise SiteError(f"{CLASSES}={text!r}: write RUNTIME=NAME, such as kata=kata-qemu, with commas between several")
    return {low: name for low, _, name in pairs}


def _is(handler: str, word: str) -> bool:
    return handler == word or handler.startswith(f"{word}-")
