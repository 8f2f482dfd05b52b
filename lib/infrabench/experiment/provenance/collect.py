"""What hosts, deployments and the suite say about themselves: reported, and compared when a session goes on."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from infrabench import registry
from infrabench.core import CommandFailed, Deployment, Host, LedgerError, Site, SiteError, canonical
from infrabench.experiment.provenance import comparability, contents
from infrabench.experiment.provenance.comparability import DEPLOYED, MUST_AGREE
from infrabench.experiment.provenance.content_changes import changes
from infrabench.ledger.records import CONTENTS, DEPLOYMENTS, read_provenance
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.remote_shell import probe
from infrabench.machines.sites import redaction

PACKAGES = ("infrabench", "fabric", "paramiko", "docker", "pylxd", "numpy")

log = logging.getLogger(__name__)


def of_host(host: Host) -> dict[str, Any]:
    """Return what `host` says about itself; what it does not say is None, with the reason under ``missing``.

    Raises `SiteError` when the host has no working python3.
    """
    result = host.run(probe("machines/hosts/probes/facts.py"), timeout_s=60)
    if not result.ok:
        raise SiteError(f"cannot ask {host.name} about itself: {CommandFailed(result, host.name)}")
    try:
        facts = json.loads(result.stdout)
    except ValueError as error:
        raise SiteError(f"{host.name}: its facts are not JSON ({error}): {result.stdout[:200]!r}") from error
    return {"name": host.name, "address": host.address, **facts}


def of_suite() -> dict[str, Any]:
    """Return the versions of the suite: packages, Python, commit, whether files differ from it, hash of the lock."""
    versions: dict[str, Any] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # an SDK that this machine can do without
            versions[package] = None
    total = hashlib.sha256()  # over our Python files: tells two states apart also where there is no commit
    for source, name in registry.packages().items():
        for path in sorted(source.rglob("*.py")):
            total.update(f"{name}/{path.relative_to(source).as_posix()}".encode() + b"\0" + path.read_bytes() + b"\0")
    source = Path(str(resources.files("infrabench"))).resolve()
    lock = source.parent / "requirements.lock"
    changes = _git(source, "status", "--porcelain", "--", "..")
    return {
        **versions,
        "commit": _git(source, "rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
        "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None,
        "source_sha256": total.hexdigest(),
    }


def store(
    stored: SessionFolder, site: Site, deployments: Mapping[str, Deployment], tools: Mapping[str, Mapping[str, str]],
    untested: Mapping[str, Mapping[str, str]], evidence: Mapping[str, str], suite: Mapping[str, Any],
    content: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Store what hosts, deployments, site and suite say, and return what hosts say, by name.

    When a session goes on, they are compared with its start first, also where that was cut short before its end.

    `tools` and `untested` are by system and workload: the tool's version, and what is said of one whose output no test
    has. `evidence`: system that could not run -> what it left to say; it becomes ``not-run.json``, line by line.
    `suite`: see `of_suite`; `content`: see `contents.collect_contents`. It is stored once, and again only where it has
    changed in what may.

    Raises `LedgerError` when a host, a tool, a program, or the packages of an image have changed.
    """
    folder = stored.path
    number = len(list(folder.glob("provenance/suite*.json")))
    hosts = [
        *site.hosts.values(),
        *(each.targets["server"].host for each in deployments.values() if "release" in each.facts),
        *(host for each in deployments.values() for host in each.machines.values()),
    ]
    of_hosts = {name: of_host(host) for name, host in {each.name: each for each in hosts}.items()}
    found: dict[str, Any] = {**of_hosts}
    found[DEPLOYMENTS] = {
        name: {
            "facts": json.loads(canonical(each.facts)),
            "targets": {
                role: {"host": target.host.name, "prefix": list(target.prefix), "address": target.address}
                for role, target in each.targets.items()
            },
            "tools": dict(tools.get(name, {})),
            "untested": dict(untested.get(name, {})),
        }
        for name, each in deployments.items()
    }
    found["site"] = {"name": site.name, "kind": site.kind, "facts": json.loads(canonical(site.facts))}
    if evidence:
        found["not-run"] = {name: text.splitlines() for name, text in evidence.items()}
    found = {name: redaction.deep(data, site.private) for name, data in found.items()}
    for name, now in found.items():
        if name not in ("site", "not-run") and (then := read_provenance(folder, name)):
            check_unchanged(name, then, now)
    content = contents.redact(content, site.private)
    begun = read_provenance(folder, CONTENTS)
    check_contents(begun, content)
    if content != begun:
        found[CONTENTS] = content
    found["suite"] = suite  # last: its presence says that the others are there
    for name, data in found.items():
        path = f"provenance/{name}{f'.resumed-{number}' if number else ''}.json"
        if not (folder / path).exists():
            stored.append_file(path, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())
    return of_hosts


def check_unchanged(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `LedgerError` when what ``provenance/NAME.json`` says is no longer what it was when the session began.

    Of a host, what `comparability.FACTS` ask for; of the deployments, a version, image or tool of a system.
    """
    parts: dict[str, tuple[Any, Any]] = {name: (then, now)}
    paths: Sequence[Sequence[str]] = MUST_AGREE
    if name == DEPLOYMENTS:
        parts = {f"system {each}": (then.get(each), now.get(each)) for each in sorted({*then, *now})}
        paths = [*(("facts", key) for key in DEPLOYED), ("tools",)]
    for where, (old, new) in parts.items():
        rows = [(" ".join(path).removeprefix("facts "), _at(old, path), _at(new, path)) for path in paths]
        changed = [f"{what}: {before!r} then, {after!r} now" for what, before, after in rows if before != after]
        if changed:
            raise LedgerError(
                f"{where} has changed since this session began ({'; '.join(changed)}): its trials would not be "
                "comparable. Start another session"
            )


def check_contents(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `LedgerError` when programs, or packages of images, are not those that the session began with.

    What has changed and may is a warning.
    """
    found = changes(then, now)
    texts = {each: f"{each.where} {each.key}: {comparability.describe(each)}" for each in found}
    if checked := [text for each, text in texts.items() if each.checked]:
        raise LedgerError(
            f"what is measured has changed since this session began ({'; '.join(checked)}): its trials would not be "
            "comparable. Start another session"
        )
    for text in texts.values():
        log.warning("changed since this session began: %s", text)


def _at(facts: Any, path: Sequence[str]) -> Any:
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def _git(folder: Path, *argv: str) -> str | None:
    try:
        done = subprocess.run(("git", "-C", str(folder), *argv), capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):  # installed from an archive, or without git
        return None
    return done.stdout.decode().strip()
