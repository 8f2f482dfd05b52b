#!/bin/sh
# Runs as root inside the image's chroot after packages and overlay are in place; uses no network.
# $1: folder with stream.c, data.c and rate.c (default /usr/local/src/infrabench). Running it again changes nothing.
set -eu
SRC=${1:-/usr/local/src/infrabench}
export DEBIAN_FRONTEND=noninteractive

# Static, so that the same file also runs where no OpenMP library is installed. The compiler must not turn `copy`
# into a call of memcpy, which uses other store instructions than the three other kernels.
if [ ! -x /usr/local/bin/ib-stream ] || [ ! -x /usr/local/bin/ib-data ] || [ ! -x /usr/local/bin/ib-rate ]; then
    gcc -O3 -fopenmp -fno-tree-loop-distribute-patterns -ffp-contract=off -static -s \
        -o /usr/local/bin/ib-stream "$SRC/stream.c" -lm
    gcc -O2 -static -s -o /usr/local/bin/ib-data "$SRC/data.c"
    gcc -O2 -static -s -o /usr/local/bin/ib-rate "$SRC/rate.c" -lm
    apt-get -qq -y --purge --autoremove purge gcc libc6-dev
fi

# Fixed content of the web and FTP servers: 11 KiB, about the size of the default page of Debian's and Ubuntu's
# Apache (10.7 to 11.3 kB), which the published studies served.
mkdir -p /srv/infrabench/web /srv/infrabench/ftp /var/log/infrabench
yes 'infrabench: this page has always the same 11264 bytes' | head -c 11264 >/srv/infrabench/web/index.html
chmod 755 /srv/infrabench /srv/infrabench/web /srv/infrabench/ftp /var/log/infrabench /usr/local/bin/ib-*
chmod 644 /srv/infrabench/web/index.html /etc/infrabench/*/*
chown -R root:root /etc/infrabench /srv/infrabench /usr/local/bin/ib-*

# Trials start the services; init must not, nor must timers wake up in the middle of a measurement.
for unit in apache2.service apache-htcacheclean.service vsftpd.service postfix.service postfix@-.service redis-server.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer logrotate.timer man-db.timer postfix-resolvconf.path postfix-resolvconf.service; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
    rm -f /etc/systemd/system/*.wants/"$unit"
done
# Where systemd is the init it would put /tmp into memory, and nowhere else.
ln -sf /dev/null /etc/systemd/system/tmp.mount
rm -f /usr/sbin/policy-rc.d
