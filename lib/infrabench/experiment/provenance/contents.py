"""Which packages and programs a session measured and measured with: by what they are, not by what they are called.

The hash of an image is that of its recipe, and a version is what a program says of itself: on two days both can be the
same with other content. So each place where something of a session runs is asked once for every making-ready of its
systems: for the Debian packages that are installed there, and for the SHA-256 of the programs that count. Places are
the site's hosts, the insides of the systems (a container, a pod), and the hosts where a system's own programs run.

``provenance/contents.json``::

    {"packages": {DIGEST: ["adduser 3.152 all", ...]},
     "hosts": {HOST: PLACE},
     "systems": {SYSTEM: {"targets": {ROLE: PLACE}, "hosts": {HOST: PLACE}}}}

A PLACE has ``packages`` (the digest of its list; each list is stored once), ``image`` (whether they are those of an
image made for the session's systems or nodes), ``programs`` (name -> its ``path``, links resolved, and ``sha256``), and
``missing``: what could not be read -> the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from infrabench.core import Deployment, Host, Result, Site, Target, Workload
from infrabench.experiment.provenance.content_changes import PACKAGES
from infrabench.machines.hosts import parallel
from infrabench.machines.sites import redaction

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


@dataclass(frozen=True, slots=True)
class PlaceQuestion:
    """What a place is asked for; `keep` takes the answer."""

    host: Host
    run: Callable[..., Result]  # of the host, or of the target inside
    programs: Sequence[str]
    packages: bool
    image: bool
    keep: Callable[[dict[str, Any]], None]


Lists = dict[str, list[str]]  # of packages, by their digest


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
    questions = list(_questions(site, deployments, roles, tools, found))
    by_host: dict[int, list[PlaceQuestion]] = {}
    for each in questions:
        by_host.setdefault(id(each.host), []).append(each)

    def ask_all(asked: Sequence[PlaceQuestion]) -> list[dict[str, Any]]:
        return [ask(each, lists) for each in asked]

    for asked, answers in zip(by_host.values(), parallel.run_all(ask_all, by_host.values()), strict=True):
        for question, answer in zip(asked, answers, strict=True):
            question.keep(answer)
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
                yield PlaceQuestion(target.host, target.run, names, True, image, _keep(listing["targets"], role))
        for name, (host, programs) in hosts.items():
            is_own = own.get(name) is host
            if programs or not is_own:
                yield PlaceQuestion(host, host.run, tuple(programs), not is_own, of_lab, _keep(listing["hosts"], name))
    for name, host in own.items():
        yield PlaceQuestion(host, host.run, tuple(of_hosts[name]), True, of_lab, _keep(found["hosts"], name))


def _keep(into: dict[str, Any], key: str) -> Callable[[dict[str, Any]], None]:
    return lambda place: into.update({key: place})


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


def redact(content: Mapping[str, Any], private: Mapping[str, str]) -> dict[str, Any]:
    """Return ``contents.json`` without what no session may hold; lists of packages as one text each, for they are long.

    Their digests stay: they tell lists apart that a reader could not.
    """
    lists = {key: redaction.text("\n".join(lines), private).split("\n") for key, lines in content[PACKAGES].items()}
    rest = {key: redaction.deep(value, private) for key, value in content.items() if key != PACKAGES}
    return {PACKAGES: lists, **rest}
