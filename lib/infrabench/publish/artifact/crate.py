"""RO-Crate metadata of an archive: what is in it, who made it, under which licence, and what was made from what.

RO-Crate 1.1 (JSON-LD). Only this module speaks with the library that writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from infrabench.ledger.archive import ArchiveMember

NAME = "ro-crate-metadata.json"
VERSION = "1.1"
SPDX = "https://spdx.org/licenses/"
SOFTWARE, AUTHORS = "#infrabench", "#authors"
ENCODINGS = {
    ".xz": "application/x-xz", ".json": "application/json", ".csv": "text/csv", ".md": "text/markdown",
    ".ipynb": "application/x-ipynb+json", ".cff": "text/yaml", ".yml": "text/yaml", ".lock": "text/plain",
    ".toml": "application/toml",
}  # fmt: skip

# What the metadata lists one by one, where it is there; everything else is in a folder that they list.
FOLDERS = {
    "lib/": "The library, its tests, and the lock of its environment.",
    "notebooks/": "The studies, the audit of published numbers and the validation, as notebooks without outputs.",
    "figures/": "Figures of the recorded sessions, each with a side-car that holds its data.",
    "results/": "What the analysis says of the recorded sessions: tables, and executed notebooks.",
}
FILES = {
    "REPRODUCE.md": "How the tables are made again, and what that takes.",
    "LICENCES.md": "Licences of every package of the environment.",
    "README.md": "What infrabench is and does.",
    "LICENSE": "The project's own licence.",
    "CITATION.cff": "How to cite.",
    "lib/requirements.lock": "Every package of the environment with its version and hashes.",
    "environment.yml": "The direct dependencies, for conda.",
    "data/recorded/README.md": "What the sessions cannot say of themselves.",
    "data/published/published.csv": "Every number of the published papers, with its place and its words.",
    "data/published/audit.toml": "What does not add up in them.",
    "docs/artifact.md": "What an evaluator does, for each badge.",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded session: its archive's path, what it asks, and where its tables are."""

    name: str
    path: str
    title: str
    told: str
    tables: str
    begun: str  # when its first trial was planned, ISO 8601


def metadata(
    citation: Mapping[str, Any], date: str, commit: str, members: Mapping[str, ArchiveMember],
    sessions: Sequence[Recorded],
) -> bytes:  # fmt: skip
    """Return ``ro-crate-metadata.json``.

    `citation`: what ``CITATION.cff`` says (title, abstract, authors, version, license, keywords); `date`: when the
    commit was made, ISO 8601; `members`: every file of the archive, by name.
    """
    crate = ROCrate(gen_preview=False, version=VERSION)
    licence = _add(crate, SPDX + citation["license"], "CreativeWork", name=citation["license"])
    names = [
        str(each.get("name") or f"{each.get('given-names', '')} {each.get('family-names', '')}".strip())
        for each in citation["authors"]
    ]
    authors = _add(crate, AUTHORS, "Organization", name=", ".join(names))
    root = crate.root_dataset
    root["name"], root["description"] = citation["title"], " ".join(citation["abstract"].split())
    root["datePublished"], root["license"], root["author"] = date, licence, authors
    root["publisher"], root["version"] = authors, f"{citation['version']}+{commit[:12]}"
    root["keywords"] = ", ".join(citation["keywords"])
    software = _add(
        crate, SOFTWARE, "SoftwareApplication", name="infrabench", version=citation["version"], license=licence,
        softwareVersion=commit, author=authors,
    )  # fmt: skip
    root["mainEntity"] = software
    for path, told in FOLDERS.items():
        sizes = [len(member.data) for name, member in members.items() if name.startswith(path)]
        if sizes:
            given = {"name": path, "description": told, "contentSize": str(sum(sizes))}
            crate.add_dataset(dest_path=path, properties=given)
    for path, told in FILES.items():
        if path in members:
            _file(crate, members[path], told)
    actions = []
    for each in sessions:
        raw = _file(crate, members[each.path], f"{each.title} {each.told}")
        tables = crate.add_dataset(
            dest_path=each.tables, properties={"name": f"Tables of {each.name}", "description": each.title}
        )
        analysed = _add(
            crate, f"#analysis-{each.name}", "CreateAction", name=f"Analysis of {each.name}",
            description="`infrabench artifact reproduce` makes these tables from this raw data again.", endTime=date,
            instrument=software, object=raw, result=tables, agent=authors,
        )  # fmt: skip
        creation = _add(
            crate, f"#recording-{each.name}", "CreateAction", name=f"Recording of {each.name}", startTime=each.begun,
            instrument=software, result=raw, agent=authors,
        )  # fmt: skip
        actions += [creation, analysed]
    root["mentions"] = actions
    return (json.dumps(crate.metadata.generate(), indent=1, ensure_ascii=False) + "\n").encode()


def _add(crate: ROCrate, identifier: str, kind: str, **given: Any) -> Any:
    entity = crate.add(ContextEntity(crate, identifier, properties={"@type": kind}))
    for name, value in given.items():
        entity[name] = value
    return entity


def _file(crate: ROCrate, member: ArchiveMember, told: str) -> Any:
    suffix = "." + member.name.rpartition(".")[2]
    given = {
        "name": member.name.rpartition("/")[2], "description": told, "contentSize": str(len(member.data)),
        "sha256": sha256(member.data).hexdigest(), "encodingFormat": ENCODINGS.get(suffix, "text/plain"),
    }  # fmt: skip
    return crate.add_file(dest_path=member.name, properties=given)
