"""kubectl, on whatever host has it: the one way to a cluster's API, for the lab's own clusters and for any other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrabench.core import Host, Result
from infrabench.machines.hosts.host import run_checked

ASK_S = 30.0


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A host and the argv that begins every kubectl command on it."""

    host: Host
    prefix: tuple[str, ...]

    def run(self, *argv: str, timeout_s: float = ASK_S, stdin: bytes = b"") -> Result:
        """Return what ``kubectl ARGV`` did."""
        return self.host.run((*self.prefix, *argv), timeout_s=timeout_s, stdin=stdin)

    def check(self, *argv: str, timeout_s: float = ASK_S, stdin: bytes = b"") -> str:
        """Return what ``kubectl ARGV`` printed; `ProvisionError` when it fails."""
        return run_checked(self.host, (*self.prefix, *argv), timeout_s=timeout_s, stdin=stdin)

    def get(self, *argv: str) -> Any:
        """Return what ``kubectl get ARGV -o json`` says, parsed."""
        return json.loads(self.check("get", *argv, "--output=json"))

    def apply(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Apply manifests: what is there already is changed, what is not is made."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.check("apply", "--filename=-", stdin=json.dumps(items).encode())

    def exec_prefix(self, namespace: str, pod: str) -> tuple[str, ...]:
        """Return the argv prefix that runs a command inside a pod."""
        return (*self.prefix, "exec", f"--namespace={namespace}", "--stdin", pod, "--")
