#!/bin/sh
# Runs inside the image while it is made: nothing starts by itself.
set -eu
for unit in $(cd /lib/systemd/system && ls -d ceph*.service ceph*.target zfs*.service zfs*.target mariadb*.service \
  nbdkit*.service nvm*.service nvmf*.service smart*.service rbdmap.service fstrim.timer logrotate.timer e2scrub_all.timer 2>/dev/null); do
  systemctl disable -q "$unit" 2>/dev/null || true
done
systemctl mask -q console-getty.service getty@.service systemd-logind.service \
  systemd-update-utmp-runlevel.service
sh /tmp/part/zvol/build.sh
gcc -O2 -Wall -shared -fPIC -D_GNU_SOURCE -o /usr/local/lib/infrabench/nbd-plain-replies.so /tmp/part/replies/plain.c
rm -rf /usr/share/doc /usr/share/man /var/lib/mysql/*
