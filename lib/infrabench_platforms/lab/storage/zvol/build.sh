#!/bin/sh
# Build the nbdkit plugin that serves a volume of an OpenZFS pool (libzpool). $1: the file to make
# (default /usr/local/lib/infrabench/nbdkit-zvol-plugin.so).
# Needs gcc, libc6-dev, libzfslinux-dev (OpenZFS 2.3) and nbdkit-plugin-dev; uses no network. libzpool is built with
# its assertions on, which changes the layout of structures: DEBUG and ZFS_DEBUG have to be defined as they were there.
set -eu
FROM=$(dirname "$(readlink -f "$0")")
TO=${1:-/usr/local/lib/infrabench/nbdkit-zvol-plugin.so}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
FLAGS='-O2 -g0 -std=gnu11 -fPIC -fvisibility=hidden -Wall -Wextra -D_GNU_SOURCE'
ZFS='-D_LARGEFILE64_SOURCE -DLIB_ZPOOL_BUILD -DDEBUG -UNDEBUG -DZFS_DEBUG -isystem /usr/include/libzfs -isystem /usr/include/libspl'
for part in text control plugin; do
    gcc $FLAGS -c -o "$WORK/$part.o" "$FROM/$part.c"
done
for part in log volume pool status; do
    gcc $FLAGS $ZFS -c -o "$WORK/$part.o" "$FROM/$part.c"
done
mkdir -p "$(dirname "$TO")"
gcc -shared -o "$TO.part" "$WORK"/*.o -lzpool -lzfs -lzfs_core -lnvpair -lpthread
mv "$TO.part" "$TO"
