#!/bin/sh
# Runs inside the image while it is made: a node starts sshd and nothing that was not asked for.
set -eu
systemctl enable -q infrabench-cgroups.service ssh.service
for unit in fstrim.timer e2scrub_all.timer e2scrub_reap.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  systemd-timesyncd.service unattended-upgrades.service getty@tty1.service console-getty.service; do
  systemctl disable -q "$unit" 2>/dev/null || true
done
# Most of what packages would have set at boot is the whole machine's, whose kernel the nodes share.
systemctl mask -q systemd-sysctl.service
rm -f /etc/ssh/ssh_host_* /etc/machine-id
: >/etc/machine-id
mkdir -p /root/.ssh && chmod 700 /root/.ssh
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /usr/share/doc /usr/share/man /usr/share/locale
