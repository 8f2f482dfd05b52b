"""CNIs in the place of another one, on nodes that had it before: the procedure of the paper on CNIs, in both orders.

``cilium-migrated`` stands on a cluster that Flannel joined first, ``flannel-migrated`` on one that Cilium did. Pods
were there too, and flows proved that the first CNI carries their packets; then they and the first CNI are removed, and
the other one is installed. Beside the same CNI on nodes that knew no other, each shows what the order of two
measurements on the same nodes does to the second.
"""

from __future__ import annotations

from dataclasses import replace

from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.cni import CNI
from infrabench_platforms.systems import _cni, cilium, flannel


def installed(cluster: Cluster) -> str | None:
    """Return why it cannot be told that a cluster which was found had another CNI before."""
    return "what joined its nodes before leaves no mark that the API shows"


def _after(cni: CNI, before: CNI) -> _cni.System:
    return _cni.System(replace(
        cni, name=f"{cni.name}-migrated", before=before, parts=(*cni.parts, *before.parts), installed=installed,
        programs=(*cni.programs, *before.programs),
    ))  # fmt: skip


FAMILY = {
    "flannel-migrated": _after(flannel.FAMILY["flannel"].CNI, cilium.FAMILY["cilium"].CNI),
    "cilium-migrated": _after(cilium.FAMILY["cilium"].CNI, flannel.FAMILY["flannel"].CNI),
}
