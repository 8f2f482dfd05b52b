"""What the lab is made from, made ahead of time: root file systems, images of pods, Go tools.

Each is made on first use anyway. Making it ahead keeps the cost of a first use (minutes of packages, a third of an hour
of compiling) apart from that of a run, which is what a plan estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

from infrabench.core import NotRunnable, unknown_name
from infrabench_platforms.lab import go_tools, images, pod_images
from infrabench_platforms.lab.go_tools import duration
from infrabench_platforms.lab.shell import require

# Seconds on two cores from an empty cache, packages downloaded from a mirror nearby.
IMAGE_S = {
    "guest": 60.0, "node": 90.0, "node12": 90.0, "cluster": 60.0, "storage": 120.0, "slurm": 120.0, "pause": 1.0,
    "tools": 12.0,
}  # fmt: skip


def names() -> list[str]:
    """Return the names of all that can be made ahead."""
    return [*images.KINDS, *pod_images.KINDS, *go_tools.PARTS]


def is_made(name: str) -> bool:
    """Tell whether an image or a part of the Go tools is in the cache."""
    return _module(name).cached(name) is not None


def describe(name: str) -> str:
    """Return the hash of an image or part of the Go tools with whether it is in the cache, or why it cannot be made."""
    try:
        go_tools.require([name] if name in go_tools.PARTS else [])
    except NotRunnable as error:
        return f"not made yet: {error}"
    return f"{_module(name).content_hash(name)} ({'made' if is_made(name) else 'not made yet'})"


def seconds(wanted: Sequence[str]) -> float:
    """Return about how many seconds making what is not in the cache takes on two cores, besides downloads of Go."""
    names = dict.fromkeys(wanted)
    image_s = sum(IMAGE_S[name] for name in names if name in IMAGE_S and not is_made(name))
    return image_s + go_tools.estimate(name for name in names if name in go_tools.PARTS)


def select_names(wanted: Sequence[str]) -> list[str]:
    """Return what is made ahead: what is wanted, or everything but what is made on demand."""
    on_demand = (*images.ON_DEMAND, *go_tools.ON_DEMAND)
    return [name for name in names() if name in wanted or (not wanted and name not in on_demand)]


def build(wanted: Sequence[str]) -> Iterator[str]:
    """Make what is not in the cache (only what is `wanted`, or all but what is made on demand) and yield what there is.

    Raises `DesignError` for an unknown name, `NotRunnable` before anything is made when something is missing here.
    """
    for name in wanted:
        if name not in names():
            raise unknown_name("thing to build", name, names())
    these = select_names(wanted)
    parts = [name for name in these if name in go_tools.PARTS]
    if parts != these:
        require()
    go_tools.require(parts)
    expected = seconds(these)
    yield f"about {duration(expected)} on two cores, besides downloads" if expected else "everything is made already"
    for name in these[: len(these) - len(parts)]:
        _module(name).make(name)
        yield f"{name}: {describe(name)}"
    yield from (f"{name}: {folder}" for name, folder in go_tools.make(parts).items())


def _module(name: str) -> ModuleType:
    """Return the module that makes what is called so."""
    return go_tools if name in go_tools.PARTS else pod_images if name in pod_images.KINDS else images
