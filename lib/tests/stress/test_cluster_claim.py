"""One session at a time on a cluster: its Lease is renewed, told to others, taken over when its holder is gone."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import SiteError, wait
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites import cluster_claim
from infrabench.machines.sites.cluster_claim import ClaimedHost, claim_cluster
from tests.support.api_server import serving_api
from tests.support.cluster_fakes import Scripted

API = ("kubectl",)
THERE = f"/{cluster_claim.NAME}"


class Leases:
    """What the API server does with the one Lease: versions, and refusals by reason."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.lock = threading.Lock()

    def answer(self, verb: str, path: str, body: dict[str, Any] | None) -> tuple[int, str, Any]:
        """Return status, reason and body."""
        with self.lock:
            if self.down:
                return 503, "ServiceUnavailable", None
            if verb == "create" and not path.endswith(THERE):
                return (409, "AlreadyExists", None) if self.kept else self._keep(body)
            if self.kept is None:
                return 404, "NotFound", None
            if verb == "replace":
                assert body is not None
                same = body["metadata"]["resourceVersion"] == self.kept["metadata"]["resourceVersion"]
                return self._keep(body) if same else (409, "Conflict", None)
            found = self.kept
            if verb == "delete":
                self.kept = None
            return 200, "", found

    def _keep(self, body: dict[str, Any] | None) -> tuple[int, str, Any]:
        assert body is not None
        self.version += 1
        self.kept = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.version)}}
        return 200, "", self.kept

    def host(self) -> Scripted:
        """Return a machine whose kubectl speaks with this API."""

        def run(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
            verb, path = argv[1], argv[2].removeprefix("--raw=")
            status, reason, found = self.answer(verb, path, json.loads(stdin) if stdin else None)
            told = f"Error from server ({reason}): no" if reason else json.dumps(found)
            return (0 if status == 200 else 1), told.encode()

        return Scripted(answer=run)

    @property
    def holder(self) -> str:
        assert self.kept is not None
        return self.kept["spec"]["holderIdentity"]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RENEW_S", 0.02), ("EXPIRE_S", 0.4), ("POLL_S", 0.01)):
        monkeypatch.setattr(cluster_claim, name, value)


@pytest.fixture
def leases() -> Leases:
    return Leases()


def quiet(text: str) -> None:
    pass


def dead(leases: Leases, session: str = "killed") -> claims.Holder:
    """Leave the Lease of a session that is gone."""
    holder = claims.make_holder(session)
    leases.answer("create", cluster_claim.LEASES, cluster_claim._lease(holder))
    return holder


def wait_for(done: Any) -> None:
    assert wait.until(done, 5, 0.005)


def test_a_claim_is_renewed_and_goes_with_its_session(leases: Leases) -> None:
    holder = claims.make_holder("mine")
    with claim_cluster(leases.host(), API, holder, quiet) as claim:
        assert leases.holder == holder["claim"]
        begun = leases.kept
        wait_for(lambda: leases.version > 4)
        assert leases.kept is not None
        assert begun is not None
        assert leases.kept["spec"]["acquireTime"] == begun["spec"]["acquireTime"] < leases.kept["spec"]["renewTime"]
        claim.check()
    assert leases.kept is None


def test_a_claim_whose_holder_is_gone_is_taken_over_after_it_has_expired(leases: Leases) -> None:
    dead(leases)
    said: list[str] = []
    began = time.monotonic()
    mine = claims.make_holder("mine")
    with claim_cluster(leases.host(), API, mine, said.append):
        assert time.monotonic() - began > cluster_claim.EXPIRE_S
        assert leases.holder == mine["claim"]
    assert leases.kept is None
    assert "claimed by session killed" in said[0]
    assert "Taken over from session killed" in said[1]


def test_of_two_that_take_over_one_has_the_cluster(leases: Leases) -> None:
    dead(leases)
    had: list[str] = []
    refused: list[str] = []
    both = threading.Barrier(2)

    def take(name: str) -> None:
        host = leases.host()
        both.wait(5)
        try:
            with claim_cluster(host, API, claims.make_holder(name), quiet):
                had.append(name)
                wait_for(lambda: refused)
        except SiteError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=take, args=(name,)) for name in ("a", "b")]
    for each in threads:
        each.start()
    for each in threads:
        each.join(10)
    assert len(had) == len(refused) == 1
    assert f"in use by session {had[0]}" in refused[0]


def test_a_session_that_lost_its_claim_starts_no_further_command(leases: Leases, tmp_path: Path) -> None:
    with ExitStack() as stack:
        claim = stack.enter_context(claim_cluster(leases.host(), API, claims.make_holder("slept"), quiet))
        host = ClaimedHost(claim, {"PATH": "/usr/bin:/bin"})
        assert host.run(("true",), timeout_s=5).ok
        leases.kept = None
        wait_for(lambda: leases.kept)  # somebody removed it: it is made again
        with leases.lock:
            leases.kept = None
        other = dead(leases, "other")
        wait_for(lambda: claim.lost)
        for start in (
            lambda: host.run(("touch", str(tmp_path / "x")), timeout_s=5),
            lambda: host.stream(("true",)).__enter__(),
        ):
            with pytest.raises(SiteError, match="no longer this session's: it was taken over by session other"):
                start()
    assert list(tmp_path.iterdir()) == []
    assert leases.holder == other["claim"]  # what is another's stays


def test_a_claim_that_cannot_be_renewed_expires_for_its_holder_first(leases: Leases) -> None:
    with ExitStack() as stack:
        claim = stack.enter_context(claim_cluster(leases.host(), API, claims.make_holder("apart"), quiet))
        leases.down = True
        time.sleep(cluster_claim.EXPIRE_S / 4)
        claim.check()  # an API server that is away for a moment ends nothing
        leases.down = False
        time.sleep(cluster_claim.EXPIRE_S / 4)
        leases.down = True
        time.sleep(cluster_claim.EXPIRE_S * 1.2)
        with pytest.raises(SiteError, match="could not be renewed for"):
            claim.check()
        leases.down = False
    assert leases.kept is not None  # it may be another's by now: it is left to expire


def test_a_change_by_somebody_else_loses_nothing(leases: Leases) -> None:
    with claim_cluster(leases.host(), API, claims.make_holder("mine"), quiet) as claim:
        with leases.lock:
            assert leases.kept is not None
            leases._keep(leases.kept)  # labelled, say
        at = leases.version
        wait_for(lambda: leases.version > at + 2)
        claim.check()


@pytest.mark.parametrize("labels", [{}, {"app": "x"}])
def test_a_lease_that_is_not_ours_is_left_alone(leases: Leases, labels: dict[str, str]) -> None:
    dead(leases)
    assert leases.kept is not None
    leases.kept["metadata"]["labels"] = labels
    kept = json.dumps(leases.kept)
    with pytest.raises(SiteError, match="default/infrabench that infrabench did not make"):
        claim_cluster(leases.host(), API, claims.make_holder("mine"), quiet).__enter__()
    assert json.dumps(leases.kept) == kept


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="not run: no kubectl")
def test_kubectl_itself_makes_renews_and_removes_the_lease(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_claim, "EXPIRE_S", 20.0)
    forbidden = False

    def answer(verb: str, path: str, sent: bytes) -> tuple[int, object]:
        body = json.loads(sent) if verb in ("create", "replace") else None
        status, reason, found = (403, "Forbidden", None) if forbidden else leases.answer(verb, path, body)
        kind = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
        return (201 if verb == "create" and status == 200 else status), found or kind | {"message": f"leases {reason}"}

    first, second, other = (claims.make_holder(name) for name in ("first", "second", "other"))
    with serving_api(answer) as url:
        api = ("kubectl", f"--server={url}")
        with claim_cluster(LocalHost(), api, first, quiet) as claim:
            assert leases.holder == first["claim"]
            wait_for(lambda: leases.version > 1)
            with pytest.raises(SiteError, match="in use by session first"):
                claim_cluster(LocalHost(), api, second, quiet).__enter__()
            with leases.lock:
                leases._keep(cluster_claim._lease(other))
            wait_for(lambda: claim.lost)
            assert "taken over by session other" in claim.lost
        assert leases.holder == other["claim"]
        leases.kept, forbidden = None, True
        with pytest.raises(SiteError, match=r"cannot be claimed .*Forbidden.* able to create, get, update and delete"):
            claim_cluster(LocalHost(), api, first, quiet).__enter__()
