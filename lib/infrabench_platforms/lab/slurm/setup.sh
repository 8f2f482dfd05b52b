#!/bin/sh
# Runs inside the image while it is made: the daemons start when the cluster has been described to them.
set -eu
for unit in munge.service slurmctld.service slurmd.service; do
  systemctl disable -q "$unit" 2>/dev/null || true
done
rm -f /etc/munge/munge.key
mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd /var/log/slurm
chown slurm:slurm /var/spool/slurmctld /var/log/slurm
