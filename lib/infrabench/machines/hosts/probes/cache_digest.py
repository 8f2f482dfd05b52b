"""Runs on a host, with nothing but its python3: prints the digest of what the cache has by a name, as JSON.

Arguments: the cache's folder, which is made where it is missing, and the name. Digested are paths, contents, execute
permission and targets of links. The digest is null where nothing has that name, or something that another user owns or
may write to. Exit status 3, and why, where another user may change the folder itself.
"""

import hashlib
import json
import os
import stat
import sys


def changeable(path):
    """Return why a user other than this one could have changed a path, if so; root may always."""
    entry = os.lstat(path)
    if entry.st_uid != os.geteuid():
        return f"{path} belongs to user {entry.st_uid}"
    if not stat.S_ISLNK(entry.st_mode) and entry.st_mode & 0o022:
        return f"{path} can be written by others (mode {entry.st_mode & 0o777:o})"
    return ""


def entries(top):
    """Yield the paths of a file, or of a folder and all in it, in the same order everywhere."""
    yield top
    if os.path.isdir(top) and not os.path.islink(top):
        for name in sorted(os.listdir(top)):
            yield from entries(os.path.join(top, name))


def digest(top):
    """Return the digest of a file or folder; None for what is neither file, folder nor link."""
    whole = hashlib.sha256()
    for path in entries(top):
        mode, what = os.lstat(path).st_mode, b""
        if stat.S_ISLNK(mode):
            kind, what = "link", os.fsencode(os.readlink(path))
        elif stat.S_ISREG(mode):
            kind, what = "program" if mode & 0o100 else "file", contents(path)
        elif stat.S_ISDIR(mode):
            kind = "folder"
        else:
            return None
        for part in (kind.encode(), os.fsencode(os.path.relpath(path, top)), what):
            whole.update(b"%d:%s" % (len(part), part))
    return whole.hexdigest()


def contents(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            found.update(data)
    return found.digest()


def main(folder, name):
    os.umask(0o022)
    os.makedirs(folder, exist_ok=True)
    why = f"{folder} is a link" if os.path.islink(folder) else changeable(folder)
    if why:
        sys.stdout.write(why)
        return 3
    top = os.path.join(folder, name)
    ours = os.path.lexists(top) and not any(changeable(path) for path in entries(top))
    json.dump({"digest": digest(top) if ours else None}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
