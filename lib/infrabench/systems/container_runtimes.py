"""Container runtimes: containerd or CRI-O, which the kubelet speaks to, above a low-level one that makes the pods."""

from infrabench.systems._container_runtimes import Pair

FAMILY = {
    "containerd-runc": Pair("containerd", "runc"),
    "containerd-crun": Pair("containerd", "crun"),
    "containerd-runsc": Pair("containerd", "runsc"),  # gVisor
    "containerd-kata": Pair("containerd", "kata"),  # Kata Containers
    "crio-runc": Pair("crio", "runc"),
    "crio-crun": Pair("crio", "crun"),
    "crio-runsc": Pair("crio", "runsc"),
    "crio-kata": Pair("crio", "kata"),
}
