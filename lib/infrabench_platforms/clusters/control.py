"""The control plane: etcd, API server, controller manager and scheduler as units of one host."""

from __future__ import annotations

import json
from dataclasses import dataclass

from infrabench.core import Host
from infrabench_platforms.clusters.hosts import push, script, start, unit, wait_for

POD_NET = "198.19.0.0/17"
SERVICE_NET = "198.19.192.0/20"
PORT = 6443
KUBERNETES = "/etc/kubernetes"
ADMIN = f"{KUBERNETES}/admin.conf"
PKI = f"{KUBERNETES}/pki"
READY_S = 180.0
# A frozen cluster's nodes do not report. Nobody may take that for their death: with the default of 40 s the first thing
# that a thawed controller would do is to evict every pod.
GRACE = "24h0m0s"

_KUBEADM = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: {port}}}
nodeRegistration: {{name: control, criSocket: "unix:///run/containerd/containerd.sock"}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {version}
certificatesDir: {pki}
controlPlaneEndpoint: {address}:{port}
encryptionAlgorithm: ECDSA-P256
networking: {{serviceSubnet: {services}, podSubnet: {pods}}}
apiServer: {{certSANs: ["127.0.0.1", "{address}"]}}
"""

# A later phase of kubeadm, which is not run here, gives the API server its role as a client of kubelets; nothing gives
# kube-proxy's user one. The CNIs and Multus share one identity with all rights: what they are allowed is not what is
# measured.
_RBAC = "rbac.authorization.k8s.io"


def _role_binding(name: str, role: str, *subjects: tuple[str, str]) -> dict[str, object]:
    return {
        "apiVersion": f"{_RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": kind, "name": subject} for kind, subject in subjects],
    }  # fmt: skip


_ROLES = {
    "apiVersion": "v1", "kind": "List",
    "items": [
        _role_binding(
            "kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", ("User", "kube-apiserver-kubelet-client")
        ),
        _role_binding("infrabench:network", "cluster-admin", ("User", "infrabench:network")),
        _role_binding("infrabench:kube-proxy", "system:node-proxier", ("User", "system:kube-proxy")),
    ],
}  # fmt: skip

# $1 kubeadm, $2 its configuration, $3... the worker nodes. Prints nothing; leaves one kubeconfig for each user.
_IDENTITIES = """
set -eu
umask 077
kubeadm=$1 config=$2 home=/etc/kubernetes; shift 2
"$kubeadm" init phase certs all --config "$config" >/dev/null
"$kubeadm" init phase kubeconfig super-admin --config "$config" >/dev/null
for role in controller-manager scheduler; do
  "$kubeadm" init phase kubeconfig $role --config "$config" >/dev/null &
done
user() {
  "$kubeadm" kubeconfig user --config "$config" --client-name "$2" ${3:+--org "$3"} >"$home/$1.conf" 2>/dev/null
}
user network infrabench:network &
user kube-proxy system:kube-proxy &
for node in "$@"; do user "kubelet-$node" "system:node:$node" system:nodes & done
wait
mv "$home/super-admin.conf" "$home/admin.conf"
for name in admin controller-manager scheduler network kube-proxy; do test -s "$home/$name.conf"; done
for node in "$@"; do test -s "$home/kubelet-$node.conf"; done
"""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane: where it is, and the files that its users need (name -> kubeconfig)."""

    host: Host
    address: str
    kubeconfigs: dict[str, str]
    ca: str


def identities(host: Host, tools: str, version: str, workers: tuple[str, ...]) -> ControlPlane:
    """Make certificates and kubeconfigs on `host`, and return them; nothing runs yet."""
    config = f"{KUBERNETES}/kubeadm.yaml"
    text = _KUBEADM.format(
        address=host.address, port=PORT, version=version, pki=PKI, services=SERVICE_NET, pods=POD_NET
    )  # fmt: skip
    push(host, {config: text, f"{KUBERNETES}/roles.json": json.dumps(_ROLES)})
    script(host, _IDENTITIES, f"{tools}/kubeadm", config, *workers)
    names = ("admin", "network", "kube-proxy", *(f"kubelet-{worker}" for worker in workers))
    paths = [f"{KUBERNETES}/{name}.conf" for name in names] + [f"{PKI}/ca.crt"]
    found = script(host, 'for file in "$@"; do cat "$file"; printf "\\0"; done', *paths).split("\0")
    return ControlPlane(host, host.address, dict(zip(names, found, strict=False)), found[len(names)])


def run(plane: ControlPlane, kubernetes: str, etcd: str, *, throw_away: bool) -> None:
    """Start the control plane and return when its API answers; `throw_away`: etcd need not sync what it stores."""
    host, loopback = plane.host, "127.0.0.1"
    units = unit("etcd", (
        f"{etcd}/etcd", "--data-dir=/var/lib/etcd/data", f"--listen-client-urls=http://{loopback}:2379",
        f"--advertise-client-urls=http://{loopback}:2379", f"--listen-peer-urls=http://{loopback}:2380",
        f"--initial-advertise-peer-urls=http://{loopback}:2380", f"--initial-cluster=default=http://{loopback}:2380",
        "--log-level=warn", *(("--unsafe-no-fsync",) if throw_away else ()),
    ))  # fmt: skip
    units |= unit("kube-apiserver", (
        f"{kubernetes}/kube-apiserver",
        f"--advertise-address={plane.address}", f"--secure-port={PORT}", "--etcd-servers=http://127.0.0.1:2379",
        "--allow-privileged=true", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={PKI}/ca.crt", f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        f"--kubelet-client-certificate={PKI}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={PKI}/apiserver-kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP", f"--service-account-key-file={PKI}/sa.pub",
        f"--service-account-signing-key-file={PKI}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={SERVICE_NET}",
    ))  # fmt: skip
    units |= unit("kube-controller-manager", (
        f"{kubernetes}/kube-controller-manager", *_with_kubeconfig("controller-manager"), "--allocate-node-cidrs=true",
        f"--cluster-cidr={POD_NET}", f"--service-cluster-ip-range={SERVICE_NET}", f"--root-ca-file={PKI}/ca.crt",
        f"--cluster-signing-cert-file={PKI}/ca.crt", f"--cluster-signing-key-file={PKI}/ca.key",
        f"--service-account-private-key-file={PKI}/sa.key", "--use-service-account-credentials=true",
        "--leader-elect=false", f"--node-monitor-grace-period={GRACE}",
    ))  # fmt: skip
    scheduler = (f"{kubernetes}/kube-scheduler", *_with_kubeconfig("scheduler"), "--leader-elect=false")
    units |= unit("kube-scheduler", scheduler)
    push(host, units)
    start(host, "etcd", "kube-apiserver")
    kubectl = f"{kubernetes}/kubectl"
    wait_for(host, "kube-apiserver", kubectl, "--kubeconfig", ADMIN, "get", "--raw", "/readyz", wait_s=READY_S)
    # Not before the API answers: the controller manager ends at once where the roles are not there yet.
    start(host, "kube-controller-manager", "kube-scheduler")
    script(host, '"$1" --kubeconfig "$2/admin.conf" apply -f "$2/roles.json" >/dev/null', kubectl, KUBERNETES)


def _with_kubeconfig(name: str) -> tuple[str, ...]:
    file = f"{KUBERNETES}/{name}.conf"
    return (f"--kubeconfig={file}", f"--authentication-kubeconfig={file}", f"--authorization-kubeconfig={file}")
