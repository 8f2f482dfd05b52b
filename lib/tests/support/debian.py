"""Debian packages and a repository of them, made here: what a host may install from without any network."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

CONTROL = """Package: {name}
Version: {version}
Architecture: all
Maintainer: nobody <nobody@example.org>
Depends: {depends}
Description: a package for a test
"""


def package(
    folder: Path, name: str, version: str, *programs: str, depends: str = "", postinst: str = ""
) -> Path:  # fmt: skip
    """Return a package with these programs, made by dpkg."""
    tree = folder / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    text = CONTROL.format(name=name, version=version, depends=depends)
    (tree / "DEBIAN/control").write_text(text if depends else text.replace("Depends: \n", ""))
    scripts = {"DEBIAN/postinst": f"#!/bin/sh\n{postinst}\n"} if postinst else {}
    scripts |= {f"usr/bin/{program}": "#!/bin/sh\n" for program in programs}
    for path, said in scripts.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(said)
        (tree / path).chmod(0o755)
    made = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, made], check=True, capture_output=True)
    shutil.rmtree(tree)
    return made


def publish(packages: Sequence[Path], folder: Path) -> None:
    """Write packages and the list of them that apt reads into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = []
    for path in packages:
        data = path.read_bytes()
        (folder / path.name).write_bytes(data)
        said = subprocess.run(["dpkg-deb", "--field", path], check=True, capture_output=True, text=True).stdout
        hashed = hashlib.sha256(data).hexdigest()
        stanzas.append(f"{said.rstrip()}\nFilename: ./{path.name}\nSize: {len(data)}\nSHA256: {hashed}\n")
    (folder / "Packages").write_text("\n".join(stanzas))
    (folder / "Packages.gz").write_bytes(gzip.compress("\n".join(stanzas).encode()))
