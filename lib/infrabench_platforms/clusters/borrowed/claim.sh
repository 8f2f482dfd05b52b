# Whether this machine can be borrowed for a node of a cluster, and what it was like before. Changes nothing but the note
# of that, which also tells that the machine is ours until it has been given back.
# $1: where the note is kept. $2: network devices of CNIs. $3: networks of pods and services. Then: program=package of what
# has to be installed, --, folders that are ours while we are here.
# Prints nothing where all is well; else why the machine cannot be borrowed, and exits with 3.
set -eu
note=$1 devices=$2 networks=$3; shift 3
no() { echo "$*"; exit 3; }

[ "$(id -u)" = 0 ] || no "a cluster is made as root: take a root login"
[ -d /run/systemd/system ] || no "its programs are run by systemd, and there is none"
lacking=
while [ "$1" != -- ]; do
  program=${1%%=*}
  case $program in
    /*) [ -e "$program" ] || lacking="$lacking ${1#*=}" ;;
    *) command -v "$program" >/dev/null || lacking="$lacking ${1#*=}" ;;
  esac
  shift
done
shift
[ -z "$lacking" ] || no "programs are missing: apt-get install$lacking"

if [ -e /etc/kubernetes/admin.conf ] || [ -e /etc/kubernetes/kubelet.conf ] || pidof kubelet k3s k0s >/dev/null; then
  no "it already is part of a cluster: use that cluster's kubeconfig as site, or take another machine"
fi
pidof containerd crio dockerd etcd >/dev/null &&
  no "a container runtime or etcd already runs there, and its pods' would be in the same places: take another machine"
for folder in "$@"; do
  [ -z "$(ls -A "$folder" 2>/dev/null)" ] || no "$folder is not empty: it belongs to others. Take another machine"
done
for link in $devices; do
  [ ! -e "/sys/class/net/$link" ] || no "it has a network device $link of others. Take another machine"
done

# Its own routes there would be removed with the cluster's, and hidden by them if they lead somewhere and cover them too:
# nobody could reach the machine any more.
for network in $networks; do
  route=$(ip -4 route show table all root "$network" | sed 1q)
  [ -n "$route" ] || route=$(ip -4 route show table all match "$network" |
    grep -vE '(^| )(default|unreachable|blackhole|prohibit) ' | sed 1q)
  [ -z "$route" ] || no "its route '$route' leads to where the cluster's pods or services would be ($network): take a" \
    "machine whose own networks are elsewhere"
done

! nft list table ip kube-proxy >/dev/null 2>&1 || no "it has rules of another kube-proxy. Take another machine"

new=$note.new
rm -rf "$new"; mkdir -p "$new"
printf '%s\n' "$@" >"$new/folders"
for folder in "$@" /etc/cni /opt/cni /root/.kube/cache /root/.kube; do [ -e "$folder" ] || echo "$folder"; done >"$new/absent"
# Without this module a bridge's packets pass by the rules that lead to services.
if [ ! -e /proc/sys/net/bridge ]; then modprobe -q br_netfilter 2>/dev/null && echo br_netfilter >"$new/module" || true; fi
for file in $(cd /proc/sys && echo kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes \
    kernel/timer_migration vm/overcommit_memory vm/panic_on_oom net/core/bpf_jit_enable net/ipv4/ip_forward \
    net/bridge/bridge-nf-call-* net/netfilter/nf_conntrack_max net/ipv4/conf/*/forwarding net/ipv4/conf/*/rp_filter \
    net/ipv4/conf/*/route_localnet net/ipv4/conf/*/accept_local); do
  [ ! -r "/proc/sys/$file" ] || echo "$file $(cat "/proc/sys/$file")"
done >"$new/settings"
ip rule show >"$new/rules"
ip route show table all >"$new/routes"
mountpoint -q /sys/fs/bpf && touch "$new/bpf" || true
for link in /sys/class/net/*; do
  link=${link##*/}
  case $(tc qdisc show dev "$link" 2>/dev/null) in *clsact*) echo "$link" ;; esac
done >"$new/clsact"
# iptables-save of today also prints tables that are not there, as they would be.
for iptables in iptables ip6tables; do
  case $iptables in iptables) family=ip ;; *) family=ip6 ;; esac
  for table in raw mangle nat filter; do
    if command -v nft >/dev/null; then
      nft list table $family $table >/dev/null 2>&1 || grep -qx $table /proc/net/${family}_tables_names 2>/dev/null || continue
    fi
    [ -z "$($iptables-save -t $table 2>/dev/null)" ] || echo "$iptables $table"
  done
done >"$new/tables"
sync -f "$new"
mv "$new" "$note"
