"""What hosts, deployments and the suite say about themselves: reported, and compared when a session goes on.

Packages and programs are told by what they are, not by what they are called. The hash of an image is that of its
recipe, and a version is what a program says of itself: on two days both can be the same with other content. So each
place where something of a session runs is asked once for every making-ready of its systems: for the Debian packages
that are installed there, and for the SHA-256 of the programs that count. Places are the site's hosts, the insides of
the systems (a container, a pod), and the hosts where a system's own programs run. ``provenance/contents.json``::

    {"packages": {DIGEST: ["adduser 3.152 all", ...]},
     "hosts": {HOST: PLACE},
     "systems": {SYSTEM: {"targets": {ROLE: PLACE}, "hosts": {HOST: PLACE}}}}

A PLACE has ``packages`` (the digest of its list; each list is stored once), ``image`` (whether they are those of an
image made for the session's systems or nodes), ``programs`` (name -> its ``path``, links resolved, and ``sha256``), and
``missing``: what could not be read -> the reason.
"""

from __future__ import annotations

import json
import logging
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from infrabench import registry
from infrabench.core import (
    CommandFailed,
    Deployment,
    Host,
    LedgerError,
    Result,
    Site,
    SiteError,
    Target,
    Workload,
    canonical,
)
from infrabench.experiment.provenance.comparability import DEPLOYED, MUST_AGREE, WHERE_KNOWN, changes, describe
from infrabench.ledger.fields import PACKAGES
from infrabench.ledger.records import CONTENTS, DEPLOYMENTS, read_provenance
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.remote_shell import probe
from infrabench.machines.sites import redaction

OF_SUITE = ("infrabench", "fabric", "paramiko", "numpy")  # packages
TIMEOUT_S = 90.0  # of one place, the largest programs of a cluster on a slow disk included
# Needs a POSIX shell alone, for pods have no Python: $1 says whether packages are asked for, programs follow. A name
# with a slash is a file, or a pattern of files, and is called by the last part of its path, or by what stands before =.
# Any other is looked for in PATH, for a shell may have one built in.
SCRIPT = r"""
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
sum() {
  real=$2
  [ ! -L "$2" ] || real=$(readlink -f "$2")
  case $real in
    */bin/snap) printf 'missing\t%s\tit is called through snap, which has no file of its own for it\n' "$1"; return ;;
  esac
  if line=$(sha256sum "$real" 2>&1); then printf 'program\t%s\t%s\t%s\n' "$1" "$real" "${line%% *}"
  else printf 'missing\t%s\t%s\n' "$1" "$line"; fi
}
if [ "$1" = yes ]; then
  if command -v dpkg-query >/dev/null; then
    timeout 20 dpkg-query --show \
      --showformat='package\t${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n' ||
      printf 'missing\tpackages\tdpkg-query exited with %s\n' "$?"
  else
    printf 'missing\tpackages\tthere is no dpkg-query\n'
  fi
fi
shift
for name; do
  found=
  case $name in
    *=/*) path=${name#*=} name=${name%%=*}; [ ! -f "$path" ] || { found=1; sum "$name" "$path"; } ;;
    */*) for path in $name; do [ ! -f "$path" ] || { found=1; sum "${path##*/}" "$path"; }; done ;;
    *)
      IFS=:
      for folder in $PATH; do
        if [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then found=1; sum "$name" "$folder/$name"; break; fi
      done
      unset IFS ;;
  esac
  [ -n "$found" ] || printf 'missing\t%s\tnot found\n' "$name"
done
"""
Lists = dict[str, list[str]]  # of packages, by their digest

log = logging.getLogger(__name__)


def of_host(host: Host) -> dict[str, Any]:
    """Return what `host` says about itself by its python3; what it does not say is None, with the reason."""
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
    for package in OF_SUITE:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # our own files, where they are not installed
            versions[package] = None
    total = sha256()  # over our Python files: tells two states apart also where there is no commit
    for source, name in registry.packages().items():
        for path in sorted(source.rglob("*.py")):
            total.update(f"{name}/{path.relative_to(source).as_posix()}".encode() + b"\0" + path.read_bytes() + b"\0")
    source = Path(str(resources.files("infrabench"))).resolve()
    lock = source.parent / "requirements.lock"
    edits = _git(source, "status", "--porcelain", "--", "..")
    return {
        **versions,
        "commit": _git(source, "rev-parse", "HEAD"),
        "dirty": None if edits is None else bool(edits),
        "lock_sha256": sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None,
        "source_sha256": total.hexdigest(),
    }


def _git(folder: Path, *argv: str) -> str | None:
    try:
        done = subprocess.run(("git", "-C", str(folder), *argv), capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):  # installed from an archive, or without git
        return None
    return done.stdout.decode().strip()


def store(
    stored: SessionFolder, site: Site, deployments: Mapping[str, Deployment], tools: Mapping[str, Mapping[str, str]],
    untested: Mapping[str, Mapping[str, str]], evidence: Mapping[str, str], suite: Mapping[str, Any],
    content: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Store what hosts, deployments, site and suite say, and return what hosts say, by name.

    When a session goes on, they are compared with its start first, also where that was cut short before its end.

    `tools` and `untested` are by system and workload: the tool's version, and what is said of one whose output no test
    has. `evidence`: system that could not run -> what it left to say; it becomes ``not-run.json``, line by line.
    `suite`: see `of_suite`; `content`: see `collect_contents`. It is stored once, and again only where it has changed
    in what may.

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
    # Lists of packages as one text each, for they are long. Their digests stay: they tell lists apart that a reader
    # could not.
    lists = {
        key: redaction.text("\n".join(lines), site.private).split("\n") for key, lines in content[PACKAGES].items()
    }
    content = redaction.deep({**content, PACKAGES: {}}, site.private) | {PACKAGES: lists}
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
        changed = [
            f"{what}: {before!r} then, {after!r} now"
            for what, before, after in rows
            if before != after and not (what.replace(" ", ".") in WHERE_KNOWN and None in (before, after))
        ]
        if changed:
            raise LedgerError(
                f"{where} has changed since this session began ({'; '.join(changed)}): its trials would not be "
                "comparable. Start another session"
            )


def _at(facts: Any, path: Sequence[str]) -> Any:
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def check_contents(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise `LedgerError` when programs, or packages of images, have changed; what else has is a warning."""
    texts = {each: f"{each.where} {each.key}: {describe(each)}" for each in changes(then, now)}
    if checked := [text for each, text in texts.items() if each.checked]:
        raise LedgerError(
            f"what is measured has changed since this session began ({'; '.join(checked)}): its trials would not be "
            "comparable. Start another session"
        )
    for text in texts.values():
        log.warning("changed since this session began: %s", text)


@dataclass(frozen=True, slots=True)
class PlaceQuestion:
    """What a place is asked for; the answer goes `into` a dictionary, by `key`."""

    host: Host
    run: Callable[..., Result]  # of the host, or of the target inside
    programs: Sequence[str]
    packages: bool
    image: bool
    into: dict[str, Any]
    key: str


def add_list(lists: Lists, lines: Iterable[str]) -> str:
    """Add a list of packages, and return its digest, in whatever order it comes."""
    listed = sorted(lines)
    key = sha256("".join(f"{line}\n" for line in listed).encode()).hexdigest()
    lists[key] = listed
    return key


def tools_by_role(workloads: Mapping[str, Workload]) -> dict[str, tuple[str, ...]]:
    """Return the programs that workloads measure with, by role: those that they declare, or else the one of `VERSION`.

    >>> from infrabench import registry
    >>> tools_by_role({name: registry.workload(name) for name in ("stream", "iperf3")})
    {'server': ('ib-stream', 'iperf3'), 'far': ('iperf3',)}
    """
    found: dict[str, dict[str, None]] = {}
    for each in workloads.values():
        declared: Mapping[str, Iterable[str]] = getattr(each, "PROGRAMS", {})
        version: Sequence[Sequence[str]] = getattr(each, "VERSION", ())
        if not declared and version:
            declared = {"server": version[0][:1]}
        for role, names in declared.items():
            found.setdefault(role, {}).update(dict.fromkeys(names))
    return {role: tuple(names) for role, names in found.items()}


def collect_contents(
    site: Site, deployments: Mapping[str, Deployment], roles: Mapping[str, Mapping[str, Target]],
    tools: Mapping[str, Sequence[str]],
) -> dict[str, Any]:  # fmt: skip
    """Return the content of ``contents.json``: every place is asked once, hosts at the same time.

    `roles`: the targets of each deployment's trials; `tools`: see `tools_by_role`. What a place does not say is under
    its ``missing``. Raises `SiteError` when a host cannot be reached.
    """
    lists: Lists = {}
    found: dict[str, Any] = {PACKAGES: lists, "hosts": {}, "systems": {}}
    by_host: dict[int, list[PlaceQuestion]] = {}
    for each in _questions(site, deployments, roles, tools, found):
        by_host.setdefault(id(each.host), []).append(each)

    def ask_all(asked: Sequence[PlaceQuestion]) -> list[dict[str, Any]]:
        return [ask(each, lists) for each in asked]

    for asked, answers in zip(by_host.values(), parallel.run_all(ask_all, by_host.values()), strict=True):
        for question, answer in zip(asked, answers, strict=True):
            question.into[question.key] = answer
    found[PACKAGES] = dict(sorted(lists.items()))
    return found


def _questions(
    site: Site, deployments: Mapping[str, Deployment], roles: Mapping[str, Mapping[str, Target]],
    tools: Mapping[str, Sequence[str]], found: dict[str, Any],
) -> Iterable[PlaceQuestion]:  # fmt: skip
    own = {each.name: each for each in site.hosts.values()}
    of_hosts: dict[str, dict[str, None]] = {name: {} for name in own}
    of_lab, guest = site.kind == "lab", (site.facts.get("guest_image") or {}).get("hash")
    for system, deployment in deployments.items():
        listing: dict[str, dict[str, Any]] = {"targets": {}, "hosts": {}}
        found["systems"][system] = listing
        hosts: dict[str, tuple[Host, dict[str, None]]] = {}  # those where programs of the system itself run
        for host, names in deployment.programs:
            hosts.setdefault(host.name, (host, {}))[1].update(dict.fromkeys(names))
        for role, target in roles[system].items():
            names = tools.get(role, ())
            if not target.prefix and own.get(target.host.name) is target.host:
                of_hosts[target.host.name].update(dict.fromkeys(names))
            elif not target.prefix:
                hosts.setdefault(target.host.name, (target.host, {}))[1].update(dict.fromkeys(names))
            elif names or role == "server":
                image = of_lab or (guest is not None and deployment.facts.get("image") == guest)
                yield PlaceQuestion(target.host, target.run, names, True, image, listing["targets"], role)
        for name, (host, programs) in hosts.items():
            is_own = own.get(name) is host
            if programs or not is_own:
                yield PlaceQuestion(host, host.run, tuple(programs), not is_own, of_lab, listing["hosts"], name)
    for name, host in own.items():
        yield PlaceQuestion(host, host.run, tuple(of_hosts[name]), True, of_lab, found["hosts"], name)


def ask(question: PlaceQuestion, lists: Lists) -> dict[str, Any]:
    """Return what a place says of itself; its list of packages goes into `lists`."""
    wanted = "yes" if question.packages else "no"
    result = question.run(("sh", "-c", SCRIPT, "sh", wanted, *question.programs), timeout_s=TIMEOUT_S)
    place: dict[str, Any] = {"programs": {}, "missing": {}}
    if question.packages:
        place |= {PACKAGES: None, "image": question.image}
    packages = []
    try:
        if not result.ok:
            raise ValueError(f"it {result.ending}: {result.stderr.decode('utf-8', 'replace').strip()[-200:]}")
        for line in result.stdout.decode("utf-8", "replace").splitlines():
            kind, *rest = line.split("\t")
            if kind == "package":
                status, name, version, architecture = rest
                packages += [f"{name} {version} {architecture}"] if status == "installed" else []
            elif kind == "program":
                name, path, total = rest
                place["programs"][name] = {"path": path, "sha256": total}
            elif kind == "missing":
                place["missing"][rest[0]] = " ".join(rest[1:])
            else:
                raise ValueError(f"it says {line[:100]!r}")
    except ValueError as error:
        return {**place, "programs": {}, "missing": {"all": f"it could not be asked: {error}"}}
    if question.packages and PACKAGES not in place["missing"]:
        place[PACKAGES] = add_list(lists, packages)
    return place
