"""A site that is a cluster as it is, reached by nothing but its kubeconfig.

Commands run through kubectl on this machine. The cluster is asked before anything is made in it whether it answers,
lets this user in, and lets them make and remove a namespace and run commands in pods.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infrabench.core import LONGEST_NAME, Host, InfrabenchError, Result, SiteError, digest
from infrabench.machines.sites import redaction
from infrabench.machines.sites.platforms import Say, find_platforms

AUTHORITY = ("certificate-authority-data", "certificate-authority")
IMAGE = "INFRABENCH_POD_IMAGE"
ANSWER_S = 5
# What a study does with the cluster, as `kubectl auth can-i` asks for it.
RIGHTS = (
    ("create", "namespaces"), ("delete", "namespaces"), ("list", "nodes"), ("create", "pods"),
    ("create", "pods", "--subresource=exec"), ("create", "services"), ("create", "networkpolicies.networking.k8s.io"),
)  # fmt: skip
# What kubectl says -> what to try.
HINTS = (
    ("x509: certificate has expired", "The cluster's or the user's certificate has expired: get a new kubeconfig"),
    ("x509", "The certificate of the cluster is not the kubeconfig's: is it the kubeconfig of an earlier cluster?"),
    ("You must be logged in", "The user's certificate or token is not accepted, or has expired: get a new kubeconfig"),
    ("Unauthorized", "The user's certificate or token is not accepted, or has expired: get a new kubeconfig"),
    ("forbidden", "The user may not ask the cluster for its version: ask its administrator for a role"),
    ("Please enter", "The kubeconfig has no certificate, token or login for its user: get a whole one"),
    ("refused", "Nothing listens there: is the control plane up, and the port right?"),
    ("no such host", "The name of the server is not known here: check it, or the VPN"),
    ("executable", "The kubeconfig gets its credentials from a program that is not installed here"),
)
LAST_HINT = "Is the address right, and reachable from this machine? Try: kubectl --kubeconfig {path} get nodes"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """What a kubeconfig's current context says: the name of its site, and which context and server those are."""

    path: Path
    name: str
    context: str
    server: str


def read_context(path: Path, data: Mapping[str, Any]) -> Kubeconfig:
    """Return what the kubeconfig says; `SiteError` when it does not name one cluster.

    The site is called after the cluster, its server and its authority: kubeadm calls every cluster ``kubernetes``.
    """
    context = data.get("current-context")
    if not context or not isinstance(context, str):
        raise SiteError(f"{path}: no current-context. Set one: kubectl --kubeconfig {path} config use-context NAME")
    cluster = _entry(path, data, "contexts", context, "context").get("cluster")
    if not isinstance(cluster, str):
        raise SiteError(f"{path}: context {context[:LONGEST_NAME]!r} names no cluster")
    entry = _entry(path, data, "clusters", cluster, "cluster")
    server, authority, file = (entry.get(key) for key in ("server", *AUTHORITY))
    if not server or not isinstance(server, str) or not server.isprintable():
        raise SiteError(f"{path}: cluster {cluster[:LONGEST_NAME]!r} has no server")
    try:
        urlsplit(server)
    except ValueError:  # which may say the user and password in it
        raise SiteError(f"{path}: the server of cluster {cluster[:LONGEST_NAME]!r} is no URL") from None
    for key, said in zip(AUTHORITY, (authority, file), strict=True):
        if said is not None and not isinstance(said, str):
            raise SiteError(f"{path}: {key} of cluster {cluster[:LONGEST_NAME]!r} is no text")
    if file:
        try:
            authority = (path.parent / file).read_text()
        except (OSError, ValueError) as error:
            raise SiteError(f"{path}: certificate-authority {file[:LONGEST_NAME]!r} cannot be read: {error}") from error
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", cluster).strip("-.") or "cluster"
    return Kubeconfig(path.resolve(), f"{safe[:60]}-{digest([server, authority], 6)}", context, server)


def check_access(config: Kubeconfig, host: Host) -> tuple[str, ...]:
    """Return how kubectl begins for the cluster.

    Raises `SiteError` when there is no kubectl, the cluster does not answer (within seconds), or refuses its user what
    a study needs.
    """
    # One word: a context that is called as a word may be is told by what stands before it (see `private`).
    command = (_program(), "--kubeconfig", str(config.path), f"--context={config.context}")

    def ask(*words: str) -> Result:
        return host.run((*command, *words, f"--request-timeout={ANSWER_S}s"), timeout_s=2 * ANSWER_S)

    answer = ask("get", "--raw=/version")
    if not answer.ok:
        output = (answer.stdout + answer.stderr).decode("utf-8", "replace")
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith(" ")]
        last = lines[-1].rstrip(" .?") if lines else f"no answer within {2 * ANSWER_S} s"
        hint = next((hint for word, hint in HINTS if word in output), LAST_HINT.format(path=config.path))
        why = redaction.text(last, private(config))
        raise SiteError(f"{config.path}: the cluster cannot be used: {why}. {hint}")
    refused = [right for right in RIGHTS if not ask("auth", "can-i", *right, "--namespace=infrabench").ok]
    if refused:
        rights = ", ".join(" ".join(right) for right in refused).replace(" --subresource=", "/")
        raise SiteError(
            f"{config.path}: its user may not {rights} in the cluster. Ask its administrator for the rights, or for a "
            "cluster of your own"
        )
    return command


def private(config: Kubeconfig) -> dict[str, str]:
    """Return what no session may hold: where the cluster's API is, where the kubeconfig, and its context."""
    where = urlsplit(config.server).hostname or config.server
    return {
        where: "API-SERVER", str(config.path): "KUBECONFIG", config.context: "CONTEXT",
        f"--context={config.context}": "--context=CONTEXT",
    }  # fmt: skip


def _entry(path: Path, data: Mapping[str, Any], kind: str, name: object, key: str) -> Mapping[str, Any]:
    """Return the one entry of this name in a list of the kubeconfig."""
    listed = data.get(kind)
    found = [
        each.get(key)
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, Mapping) and each.get("name") == name
    ]
    if len(found) != 1 or not isinstance(found[0], Mapping):
        shown = str(name)[:LONGEST_NAME]
        raise SiteError(f"{path}: {kind} has {len(found)} entries called {shown!r}, not one. Is the file whole?")
    return found[0]


def _program() -> str:
    """Return the path of kubectl: the one installed here, else the one built for the lab."""
    if found := shutil.which("kubectl"):
        return found
    built = find_platforms().find_kubectl()
    if built is None:
        raise SiteError(
            "a kubeconfig is used through kubectl, and there is none on the search path: install it "
            "(https://kubernetes.io/docs/tasks/tools), or build it: `infrabench lab build --only kubernetes`"
        )
    return str(built)


def pod_image(say: Say) -> dict[str, str]:
    """Return facts of the site: the image of pods, and how it comes onto the nodes; `SiteError` when there is none."""
    if named := os.environ.get(IMAGE):
        return {"pod_image": named, "pod_image_hint": f"{IMAGE} names {named}: can the cluster's nodes pull it?"}
    try:
        name, archive = find_platforms().make_pod_image(say)
    except InfrabenchError as error:
        raise SiteError(
            f"the image of pods cannot be made here: {error}. Or name one that the cluster can pull, with sh, sleep, "
            f"timeout, iperf3 and netperf in it: {IMAGE}=REGISTRY/NAME:TAG"
        ) from error
    hint = (
        f"Pods use the image {name}, which has to be on the cluster's nodes. On each: ctr --namespace k8s.io "
        f"images import {archive} (a copy of that file). Or push it to a registry that they pull from, and name it: "
        f"{IMAGE}=NAME"
    )
    say(hint)
    return {"pod_image": name, "pod_image_hint": hint}
