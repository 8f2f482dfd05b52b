"""What the lab is made from, made ahead of time: root file systems, images of pods, Go tools.

Each is made on first use anyway. Making it ahead keeps the cost of a first use (minutes of packages, a third of an hour
of compiling) apart from that of a run, which is what a plan estimates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from infrabench.core import unknown_name
from infrabench.machines.lab import go_build, go_tools, images, pod_images
from infrabench.machines.lab.go_tools import duration
from infrabench.machines.lab.shell import require

# Seconds on two cores from an empty cache, packages downloaded from a mirror nearby.
IMAGE_S = {
    "guest": 60.0, "node": 90.0, "cluster": 60.0, "storage": 120.0, "vm": 500.0, "slurm": 120.0, "pause": 1.0,
    "tools": 12.0,
}  # fmt: skip

log = logging.getLogger(__name__)
Say = Callable[[str], None]


def names() -> list[str]:
    """Return the names of all that can be made ahead."""
    return [*images.KINDS, *pod_images.KINDS, *go_tools.PARTS]


def image_states() -> dict[str, str]:
    """Return each kind of image with its hash and whether it is in the cache, in words."""
    found = {}
    for module in (images, pod_images):
        for kind in module.KINDS:
            found[kind] = f"{module.content_hash(kind)} ({_state_text(module.cached(kind))})"
    return found


def tool_states() -> dict[str, str]:
    """Return each part of the Go tools with its hash and whether it is in the cache, or why it cannot be made here."""
    found = {}
    for name in go_tools.PARTS:
        reason = go_tools.missing([name])
        hashed = go_tools.content_hash(name) if go_build.toolchain() else ""
        found[name] = f"not made yet: {reason}" if reason else f"{hashed} ({_state_text(go_tools.cached(name))})"
    return found


def seconds(wanted: Sequence[str]) -> float:
    """Return about how many seconds making what is not in the cache takes on two cores, besides downloads of Go."""
    image_s = sum(IMAGE_S[name] for name in wanted if name not in go_tools.PARTS and not _image(name)())
    return image_s + go_tools.estimate(name for name in wanted if name in go_tools.PARTS)


def select_names(wanted: Sequence[str]) -> list[str]:
    """Return what is made ahead: what is wanted, or everything but what is made on demand."""
    return [name for name in names() if name in wanted or (not wanted and name not in images.ON_DEMAND)]


def is_made(name: str) -> bool:
    """Tell whether an image or a part of the Go tools is in the cache."""
    if name in go_tools.PARTS:
        return bool(go_build.toolchain() and go_tools.cached(name))
    return bool(_image(name)())


def build(wanted: Sequence[str] = (), say: Say = log.info) -> Iterator[str]:
    """Make what is not in the cache (only what is `wanted`, or all but what is made on demand) and yield what there is.

    Raises `DesignError` for an unknown name, `NotRunnable` before anything is made when something is missing here.
    """
    for name in wanted:
        if name not in names():
            raise unknown_name("thing to build", name, names())
    these = select_names(wanted)
    parts = [name for name in these if name in go_tools.PARTS]
    if len(parts) < len(these):
        require()
    go_tools.require(parts)
    expected = seconds(these)
    yield f"about {duration(expected)} on two cores, besides downloads" if expected else "everything is made already"
    for name in these:
        if name not in parts:
            _image(name, say)()
            yield f"{name}: {image_states()[name]}"
    for name, folder in go_tools.make(parts, say).items():
        yield f"{name}: {folder}"


def _image(name: str, say: Say | None = None) -> Callable[[], object]:
    """Return what makes an image, or only looks for it."""
    module = pod_images if name in pod_images.KINDS else images
    return partial(module.make, name, say) if say else partial(module.cached, name)


def _state_text(found: object) -> str:
    return "made" if found else "not made yet"
