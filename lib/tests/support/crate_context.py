"""Validation of an RO-Crate without a network: by the shapes of a validator, with the context that a library brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import requests
from requests_cache import CachedResponse, CachedSession
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings
from rocrate_validator.utils.http import HttpRequester

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


def issues(folder: Path, cache: Path) -> list[tuple[str, str]]:
    """Return what the crate in `folder` does that it must not, and does not that it should: (severity, sentence).

    `cache`: where the context is put that the validator would fetch. It is the one of a later version, which has the
    same terms: versions of the context only add some.
    """
    with _offline(cache):
        settings = ValidationSettings(
            rocrate_uri=str(folder), profile_identifier="ro-crate-1.1", requirement_severity=Severity.RECOMMENDED,
            offline=True, cache_path=cache, cache_max_age=-1,
        )  # fmt: skip
        found = services.validate(settings).get_issues(Severity.RECOMMENDED)
    return [(each.severity.name, str(each.message)) for each in found]


@contextmanager
def _offline(cache: Path) -> Iterator[None]:
    session = CachedSession(cache_name=str(cache), expire_after=-1)
    key = session.cache.create_key(requests.Request("GET", CONTEXT).prepare())
    content = (resources.files("rocrate") / "data" / "ro-crate.jsonld").read_bytes()
    headers = {"Content-Type": "application/ld+json"}
    session.cache.responses[key] = CachedResponse(url=CONTEXT, status_code=200, content=content, headers=headers)
    session.close()
    HttpRequester.reset()
    try:
        yield
    finally:
        HttpRequester.reset()
