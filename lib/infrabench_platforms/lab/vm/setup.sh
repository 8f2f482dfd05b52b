#!/bin/sh
# Runs as root inside the image while it is made: the module compiled for the kernel of the image, and nothing kept that
# only the compiling needed. What runs it sees to it that it is nice to others.
set -eu
export DEBIAN_FRONTEND=noninteractive
kernel=$(ls /lib/modules)
[ "$(echo "$kernel" | wc -l)" = 1 ]
find "/lib/modules/$kernel" -name 'zfs.ko*' | grep -q . || dkms autoinstall -k "$kernel"
mkdir -p "/lib/modules/$kernel/extra"
find "/lib/modules/$kernel/updates" -name '*.ko*' -exec cp {} "/lib/modules/$kernel/extra/" \;
compilers=$(dpkg-query -W -f '${Package}\n' 'linux-headers-*' 'linux-kbuild-*' 'linux-compiler-*' 'gcc-[0-9]*' 'cpp-[0-9]*' |
  grep -v base)
apt-get -qq -y --purge --autoremove purge zfs-dkms dkms gcc make $compilers >/dev/null
depmod "$kernel"
modinfo -k "$kernel" zfs spl >/dev/null
printf '%s\n' virtio_pci virtio_blk virtio_net ext4 >/etc/initramfs-tools/modules
update-initramfs -u -k "$kernel"
cp "/boot/vmlinuz-$kernel" /boot/vmlinuz
cp "/boot/initrd.img-$kernel" /boot/initrd.img

systemctl enable -q infrabench-guest.service ssh.service
for unit in $(cd /lib/systemd/system && ls -d zfs*.service zfs*.target nbdkit*.service fstrim.timer e2scrub*.timer \
  e2scrub_reap.service apt-daily*.timer dpkg-db-backup.timer systemd-timesyncd.service systemd-pstore.service \
  getty@tty1.service 2>/dev/null); do
  systemctl disable -q "$unit" 2>/dev/null || true
done
systemctl mask -q systemd-logind.service getty@.service serial-getty@.service systemd-update-utmp-runlevel.service \
  systemd-random-seed.service systemd-journal-flush.service systemd-binfmt.service zfs-load-module.service \
  zfs-zed.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount
rm -f /etc/ssh/ssh_host_* /etc/machine-id
: >/etc/machine-id
: >/etc/fstab
echo guest >/etc/hostname
mkdir -p /root/.ssh && chmod 700 /root/.ssh
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /usr/share/doc /usr/share/man /usr/share/locale /usr/src/*
