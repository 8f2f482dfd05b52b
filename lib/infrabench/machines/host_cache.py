"""Programs and images that stay on a host from one run to the next, in one folder, by names with their content's hash.

A name is not trusted: what is there is used only if it is, byte for byte, what would be copied, and if nobody but the
login (and root) could have put it there. Everything else by that name is removed, and copied anew by the caller.
"""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.core import Host, SiteError
from infrabench.machines.hosts.host import run_checked
from infrabench.machines.hosts.probes import cache_digest
from infrabench.machines.hosts.remote_shell import probe

FOLDER = "/var/cache/infrabench"
DIGEST_S = 300.0  # a gigabyte on a slow disk


def verify_copy(host: Host, source: Path, name: str) -> bool:
    """Tell whether the host's cache has `source` by this name; anything else by this name is removed.

    Raises `SiteError` when other users may write to the cache: they could change what is verified afterwards.
    """
    answer = host.run((*probe("machines/hosts/probes/cache_digest.py"), FOLDER, name), timeout_s=DIGEST_S)
    if answer.status == 3:
        why = answer.stdout.decode("utf-8", "replace").strip()
        raise SiteError(
            f"{host.name}: {why}, and programs and images there would be run: remove {FOLDER}, or make it the login's "
            "own, with mode 755"
        )
    if not answer.ok:
        said = (answer.stderr or answer.stdout).decode("utf-8", "replace").strip().splitlines() or [answer.ending]
        raise SiteError(f"{host.name}: {FOLDER} cannot be used: {said[-1]}. Try: infrabench hosts prepare")
    found = json.loads(answer.stdout)["digest"]
    if found == cache_digest.digest(str(source)):
        return True
    run_checked(host, ("rm", "-rf", "--", f"{FOLDER}/{name}"), timeout_s=DIGEST_S, error=SiteError)
    return False


def copy(host: Host, source: Path, name: str) -> None:
    """Copy a file to the host's cache, writable by nobody else whatever the login's umask is."""
    host.put_file(source, f"{FOLDER}/{name}")  # type: ignore[attr-defined]
    run_checked(host, ("chmod", "go-w", f"{FOLDER}/{name}"), timeout_s=10, error=SiteError)
