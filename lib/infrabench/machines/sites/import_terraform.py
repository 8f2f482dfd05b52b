"""Inventories from ``terraform output -json``: one output holds a list of hosts, each with its role.

In the configuration, for any provider::

    output "infrabench_hosts" {
      value = [for each in aws_instance.bench : {
        name    = each.tags["Name"]      # how messages call it; a gateway's name in the inventory
        address = each.public_ip
        user    = "admin"                # root where absent
        key     = "~/.ssh/bench"         # path of the private key on this machine; never the key
        role    = each.tags["role"]      # or roles = ["flannel-control", "cilium-control"]
        site    = each.availability_zone # hosts of one site become one inventory
      }]
    }

`port` and `gateway` are taken as well. What is null is as good as absent. Other outputs are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from infrabench.core import SiteError
from infrabench.machines.sites.import_write import FIELDS, ROLES, PlacedHost

OUTPUT = "infrabench_hosts"
LARGEST = 2**24  # bytes: outputs of other things may be many
MOST_HOSTS = 1000
SHAPE = (
    f"An inventory is made of an output {OUTPUT}: a list of objects with address, role and, where needed, user, key, "
    "port, site, gateway, name."
)
KNOWN = ("name", "role", "roles", "site", *FIELDS)
LONGEST = 4096  # characters of any value


def hosts(
    text: bytes, output: str = OUTPUT, *, default_site: str = "terraform", sensitive: bool = False
) -> list[PlacedHost]:  # fmt: skip
    """Return the hosts in Terraform's outputs, once for each role.

    Raises
    ------
    SiteError
        It is no such JSON, the output is absent, a field is unknown or absent, or Terraform holds the output to be
        sensitive and `sensitive` is not given. No message has an address.
    """
    if len(text) > LARGEST:
        raise SiteError(f"more than {LARGEST} bytes: is it what terraform output -json printed?")
    found = _find_output(text, output)
    hidden = found.get("sensitive") is not False
    if hidden and not sensitive:
        raise SiteError(
            f"Terraform holds the output {output} to be sensitive, and an inventory has its addresses in the clear. "
            "--sensitive writes it all the same, readable by you alone"
        )
    value = found["value"]
    if isinstance(value, Mapping):
        value = [{"name": key, **each} if isinstance(each, Mapping) else each for key, each in value.items()]
    if not isinstance(value, list) or not value:
        raise SiteError(f"the output {output} is no list of hosts. {SHAPE}")
    if len(value) > MOST_HOSTS:
        raise SiteError(f"the output {output} has {len(value)} hosts; {MOST_HOSTS} are the most")
    return [host for number, each in enumerate(value, 1) for host in _placed(each, number, output, default_site)]


def _find_output(text: bytes, output: str) -> Mapping[str, Any]:
    """Return what Terraform says of an output."""
    try:
        data = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:  # ValueError: also bytes that are no text
        raise SiteError(f"not JSON: {str(error)[:200]}. Run: terraform output -json") from error
    if not isinstance(data, Mapping):
        raise SiteError("these are not Terraform's outputs but a value. Run: terraform output -json (and no name)")
    if output not in data:
        there = ", ".join(sorted(str(name)[:60] for name in data)[:20]) or "none"
        raise SiteError(f"there is no output {output[:60]}; there are: {there}. {SHAPE} --output takes another name")
    found = data[output]
    if not isinstance(found, Mapping) or "value" not in found:
        raise SiteError(f"{output} is no output of Terraform: it has no value. Run: terraform output -json")
    return found


def _placed(each: Any, number: int, output: str, default_site: str) -> Iterator[PlacedHost]:
    where = f"{output}, host {number}"
    if not isinstance(each, Mapping):
        raise SiteError(f"{where} is no object. {SHAPE}")
    given = {key: value for key, value in each.items() if value is not None}
    if unknown := sorted(str(key)[:60] for key in given.keys() - set(KNOWN))[:10]:
        raise SiteError(f"{where} has unknown fields: {', '.join(unknown)}. Known are {', '.join(KNOWN)}")
    for key, value in given.items():
        if isinstance(value, str) and (len(value) > LONGEST or not value.isprintable()):
            raise SiteError(f"{where}: {key} is too long, or has characters that cannot be printed")
    if not given.get("address"):
        raise SiteError(f"{where} has no address: does it have a public one? address may also be its name")
    roles = given.get("roles", [given["role"]] if "role" in given else [])
    if not isinstance(roles, list) or not roles or not all(isinstance(role, str) for role in roles):
        raise SiteError(f"{where} has no role. Give it role = one of {ROLES}; or roles, a list of them")
    if "role" in given and "roles" in given:
        raise SiteError(f"{where} has role and roles: give one of the two")
    name, site = given.get("name", f"host-{number}"), given.get("site", "" if roles == ["gateway"] else default_site)
    if not isinstance(name, str) or not isinstance(site, str):
        raise SiteError(f"{where}: name and site are text")
    for role in roles:
        yield PlacedHost(name[:60], site, role, {key: given[key] for key in FIELDS if key in given})


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
