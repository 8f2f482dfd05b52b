"""One JSON text for equal data, and its SHA-256."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(data: Any) -> str:
    """Return the one JSON text of `data`: sorted keys, no spaces, so that equal data have equal bytes."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any, length: int = 16) -> str:
    """Return the first `length` hex digits of the SHA-256 of `canonical(data)`."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:length]
