#!/bin/sh
# Runs inside the image while it is made.
set -eu
systemctl enable -q infrabench-settings.service
for unit in iperf3.service netperf.service netserver.service; do
  systemctl disable -q "$unit" 2>/dev/null || true
done
# /dev/kmsg of these nodes is their console, which nobody else may read.
systemctl mask -q tmp.mount console-getty.service getty@.service systemd-logind.service systemd-update-utmp-runlevel.service
# Cilium calls its compiler by the plain names.
ln -s clang-19 /usr/bin/clang
ln -s llc-19 /usr/bin/llc
mkdir -p /opt/infrabench /etc/cni/net.d /opt/cni/bin
rm -rf /usr/share/doc /usr/share/man
