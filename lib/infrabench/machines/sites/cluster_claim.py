"""One session at a time on a cluster that is used as it is: a Lease of the Kubernetes API, which its holder renews.

Nodes behind a kubeconfig are reached through pods alone, so that no lock of their kernels can be had. The Lease lies in
`NAMESPACE`: the namespace of our pods is removed, with all that is in it, whenever a system is made ready. No clocks of
two machines are compared: a holder is gone when its Lease has not changed for `EXPIRE_S` while somebody looked, as in
the leader election of Kubernetes' own components. A session that could not renew its Lease for as long ends by itself:
its `ClaimedHost` runs no further command, so that it also removes nothing of the session that came after it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from infrabench.core import Host, Result, SiteError
from infrabench.machines.hosts.child_process import LineStream
from infrabench.machines.hosts.claims import Holder, describe_holder
from infrabench.machines.hosts.host import LocalHost

NAMESPACE, NAME, LABEL = "default", "infrabench", "infrabench"
HOLDER = f"{LABEL}/holder"  # annotation: what a claim says of itself
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RENEW_S = 15.0
EXPIRE_S = 60.0
POLL_S = 2.0
ANSWER_S = 10.0
Say = Callable[[str], None]

log = logging.getLogger(__name__)


@dataclass
class ClusterClaim:
    """The Lease that a session holds: as it was renewed last, and why it is lost, if it is."""

    api: Sequence[str]  # how kubectl begins
    host: Host
    holder: Holder
    lease: Mapping[str, Any]
    renewed_s: float  # on the clock of `_now_s`
    lost: str = ""

    def check(self) -> None:
        """Raise `SiteError` when the cluster is no longer this session's."""
        if not self.lost and _now_s() - self.renewed_s > EXPIRE_S:
            self.lost = f"its claim could not be renewed for {EXPIRE_S:g} s"
        if self.lost:
            raise SiteError(f"the cluster is no longer this session's: {self.lost}")

    def renew(self) -> None:
        """Renew the Lease; what keeps it from being renewed is tried again, unless another session has it.

        Raises `SiteError` as `check`: after it has expired another session may have come, and gone.
        """
        self.check()
        began_s = _now_s()
        body = _lease(self.holder, self.lease)
        answer = _call(self.host, self.api, "replace", f"{LEASES}/{NAME}", body)
        if not answer.ok and _says(answer, "NotFound"):
            answer = _call(self.host, self.api, "create", LEASES, _lease(self.holder))
        if answer.ok:
            self.lease, self.renewed_s = json.loads(answer.stdout), began_s
        elif _says(answer, "Conflict", "AlreadyExists") and (found := _read(self.host, self.api)):
            if _is_held_by(found, self.holder):
                self.lease = found  # somebody has labelled it, say
            else:
                self.lost = f"it was taken over by {_holder_text(found)}"


class ClaimedHost(LocalHost):
    """This machine as it steers a claimed cluster: no command is started once the claim is lost."""

    def __init__(self, claim: ClusterClaim, environment: Mapping[str, str]) -> None:
        super().__init__(environment=environment)
        self._claim = claim

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Run `argv` as `LocalHost` does; `SiteError` when the claim is lost."""
        self._claim.check()
        return super().run(argv, timeout_s=timeout_s, stdin=stdin)

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[LineStream]:
        """Yield the two ends of a child as `LocalHost` does; `SiteError` when the claim is lost."""
        self._claim.check()
        with super().stream(argv) as stream:
            yield stream


@contextmanager
def claim_cluster(host: Host, api: Sequence[str], holder: Holder, say: Say) -> Iterator[ClusterClaim]:
    """Hold the cluster for `holder` inside; `host` is this machine, `api` how kubectl begins.

    Raises `SiteError` when another session holds it (who, and since when: told as soon as that one renews its Lease),
    or when no Lease can be made. One whose holder is gone is taken over after `EXPIRE_S`.
    """
    claim = ClusterClaim(api, host, holder, *_acquire(host, api, holder, say))
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_S) and not claim.lost:
            with suppress(SiteError, ValueError, KeyError):  # no answer, or half of one: tried again until it expires
                claim.renew()

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield claim
    finally:
        ended.set()
        renewing.join()
        with suppress(SiteError):
            claim.check()
            answer = _call(host, api, "delete", f"{LEASES}/{NAME}")
            if not answer.ok and not _says(answer, "NotFound"):
                log.warning("the claim of the cluster stays until it expires, in %g s: %s", EXPIRE_S, _last(answer))


def _acquire(host: Host, api: Sequence[str], holder: Holder, say: Say) -> tuple[Mapping[str, Any], float]:
    """Return the Lease once it is that of `holder`, and when it was asked for."""
    seen, since_s = "", 0.0
    while True:
        began_s = _now_s()
        answer = _call(host, api, "create", LEASES, _lease(holder))
        if answer.ok:
            return json.loads(answer.stdout), began_s
        if not _says(answer, "AlreadyExists"):
            raise SiteError(
                f"the cluster cannot be claimed for this session: {_last(answer)}. Its user has to be able to create, "
                f"get, update and delete Leases (coordination.k8s.io) in the namespace {NAMESPACE}"
            )
        found = _read(host, api)
        if found is None:  # it went meanwhile
            continue
        metadata = found["metadata"]
        if LABEL not in metadata.get("labels", {}):
            raise SiteError(f"the cluster has a Lease {NAMESPACE}/{NAME} that infrabench did not make: remove it")
        if not seen:
            say(f"The cluster is claimed by {_holder_text(found)}. Is that one there? This takes up to {EXPIRE_S:g} s")
            seen, since_s = metadata["resourceVersion"], _now_s()
        elif seen != metadata["resourceVersion"]:
            raise SiteError(
                f"the cluster is in use by {_holder_text(found)}. Two sessions on one cluster would disturb each "
                "other: wait until that one has ended, or stop it"
            )
        elif _now_s() - since_s > EXPIRE_S:
            began_s = _now_s()
            answer = _call(host, api, "replace", f"{LEASES}/{NAME}", _lease(holder, found))
            if answer.ok:
                say(f"Taken over from {_holder_text(found)}, which is gone")
                return json.loads(answer.stdout), began_s
            seen = ""  # another one was first, or it was renewed
        time.sleep(POLL_S)


def _lease(holder: Holder, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the Lease of `holder`, renewed now; in place of the `known` one, unless somebody has changed that."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # told to people; nothing is decided by it
    metadata = {
        "name": NAME, "namespace": NAMESPACE, "labels": {LABEL: "yes"},
        "annotations": {HOLDER: json.dumps(dict(holder))},
    }  # fmt: skip
    spec = {"holderIdentity": holder["claim"], "leaseDurationSeconds": round(EXPIRE_S), "acquireTime": now}
    if known is not None:
        metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
        if _is_held_by(known, holder):
            spec["acquireTime"] = known["spec"].get("acquireTime", now)
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        "spec": {**spec, "renewTime": now},
    }  # fmt: skip


def _is_held_by(lease: Mapping[str, Any], holder: Holder) -> bool:
    return lease.get("spec", {}).get("holderIdentity") == holder["claim"]


def _holder_text(lease: Mapping[str, Any]) -> str:
    try:
        return describe_holder(json.loads(lease["metadata"]["annotations"][HOLDER]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return "a session that does not say who it is"


def _read(host: Host, api: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the Lease, None where there is none; `SiteError` when it cannot be read."""
    answer = _call(host, api, "get", f"{LEASES}/{NAME}")
    if answer.ok:
        return json.loads(answer.stdout)
    if _says(answer, "NotFound"):
        return None
    raise SiteError(f"the claim of the cluster cannot be read: {_last(answer)}")


def _call(
    host: Host, api: Sequence[str], verb: str, path: str, body: Mapping[str, Any] | None = None
) -> Result:  # fmt: skip
    given = () if body is None else ("--filename=-",)
    argv = (*api, verb, f"--raw={path}", f"--request-timeout={ANSWER_S:g}s", *given)
    return host.run(argv, timeout_s=2 * ANSWER_S, stdin=b"" if body is None else json.dumps(body).encode())


def _says(answer: Result, *reasons: str) -> bool:
    """Tell whether kubectl failed for one of the API's reasons, as in ``Error from server (Conflict): ...``."""
    return any(f"({reason})".encode() in answer.stderr for reason in reasons)


def _last(answer: Result) -> str:
    lines = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"kubectl {answer.ending}"


def _now_s() -> float:
    """Return seconds on a clock that also goes on while this machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
