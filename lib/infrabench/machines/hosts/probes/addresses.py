"""Runs on a host, with nothing but its python3: prints every address that the host itself has, as a JSON list.

They are asked for to be kept out of what is recorded: tools print them.
"""

import ipaddress
import json
import re
import sys

OURS = ipaddress.ip_network("198.18.0.0/15")  # networks that are made for a study
NOWHERE = ipaddress.ip_network("0.0.0.0/8")


def said(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # a kernel without that family
        return ""


def addresses():
    own = re.findall(r"-- ([0-9.]+)\n\s+/32 host LOCAL", said("/proc/net/fib_trie"))
    found = {ipaddress.IPv4Address(each) for each in own}
    kept = [each for each in found if not each.is_loopback and each not in OURS and each not in NOWHERE]
    words = [line.split()[0] for line in said("/proc/net/if_inet6").splitlines()]
    kept += [each for each in (ipaddress.IPv6Address(int(word, 16)) for word in words) if not each.is_loopback]
    return sorted(str(each) for each in kept)


if __name__ == "__main__":
    json.dump(addresses(), sys.stdout)
