# Give a borrowed machine back as it was found: everything that a node of a cluster has made on it goes. Safe to repeat.
# $1: where the note of the machine's earlier state is. $2: folder of our programs. $3: the network of all pods.
# $4: network devices of CNIs. Then: folders that are ours, where the note does not name them.
# Prints what is left, and keeps the note then so that it can be tried again; settings that refuse their old value are
# printed too ("setting ..."). Nothing is touched where there is no note.
note=$1 programs=$2 pods=$3 devices=$4; shift 4
[ -d "$note" ] || { rm -rf "$note.new"; exit 0; }
[ ! -e "$note/folders" ] || set -- $(cat "$note/folders")
: >"$note/left"
left() { echo "$*" >>"$note/left"; }
units=$(grep -l '^Description=infrabench: ' /etc/systemd/system/infrabench-*.service 2>/dev/null | xargs -r -n1 basename)

# Programs. A unit that is asked to stop does not start again; nothing here is worth waiting for.
if [ -n "$units" ]; then
  systemctl stop --no-block $units
  systemctl kill --signal=KILL $units 2>/dev/null
  systemctl stop $units
fi
# Pods live in a cgroup of their own (of each hierarchy), and their keepers run programs of ours: both by process id.
# systemd forgets a unit whose last processes end late (keepers, of containerd's), and leaves its cgroup behind.
groups="kubepods kata_overhead"
for unit in $units; do groups="$groups system.slice/$unit"; done
case $(stat -f -c %T /sys/fs/cgroup) in
  cgroup2fs) tops=$(printf '/sys/fs/cgroup/%s\n' $groups) ;;
  *) tops=$(for group in $groups; do ls -d /sys/fs/cgroup/*/"$group"; done 2>/dev/null) ;;
esac
tries=0
while [ $tries -lt 100 ]; do
  alive=
  for pid in $(cat /dev/null $([ -z "$tops" ] || find $tops -name cgroup.procs 2>/dev/null) 2>/dev/null); do
    [ "$pid" = 0 ] || ! kill -9 "$pid" 2>/dev/null || alive=1
  done
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null) in
      "$programs"/*) pid=${exe#/proc/}; kill -9 "${pid%/exe}" 2>/dev/null; alive=1 ;;
    esac
  done
  [ -n "$alive" ] || break
  tries=$((tries + 1)); sleep 0.1
done
for top in $tops; do
  [ ! -d "$top" ] || find "$top" -depth -type d -exec rmdir {} \; 2>/dev/null
  [ ! -d "$top" ] || left "cgroup $top"
done

# Mounts, then the network namespaces that are only kept by theirs.
below() {
  awk '{print $5}' /proc/self/mountinfo | grep -E "^($1)" | tac
}
for point in $(below '/var/lib/kubelet/|/var/lib/containerd/|/run/containerd/|/run/cilium/|/var/lib/cilium/|/var/lib/containers/|/run/containers/|/run/crio/|/run/kata-containers/|/run/netns/cni-'); do
  umount -l "$point" 2>/dev/null || left "mount $point"
done
rm -f /run/netns/cni-*
rmdir /run/netns 2>/dev/null

# The network: BPF programs and their pins, devices, routing rules.
rm -rf /sys/fs/bpf/cilium /sys/fs/bpf/tc/globals/cilium_*
rmdir /sys/fs/bpf/tc/globals /sys/fs/bpf/tc 2>/dev/null
for link in /sys/class/net/*; do
  link=${link##*/}
  case $(tc filter show dev "$link" ingress 2>/dev/null; tc filter show dev "$link" egress 2>/dev/null) in
    *cil_*) grep -qx "$link" "$note/clsact" || tc qdisc del dev "$link" clsact || left "BPF programs of $link" ;;
  esac
done
for link in $devices $(ip -o link show type veth 2>/dev/null |
    sed -nE 's/^[0-9]+: (lxc[0-9a-f]{12}|lxc_health)(@[^:]*)?: .*/\1/p'); do
  [ ! -e "/sys/class/net/$link" ] || ip link del "$link" || left "network device $link"
done
ip rule show >"$note/rules.now"
grep -vxFf "$note/rules.now" "$note/rules" | while IFS=: read -r pref rest; do ip rule add pref "$pref" $rest; done
grep -vxFf "$note/rules" "$note/rules.now" | while IFS=: read -r pref rest; do ip rule del pref "$pref" $rest; done
for table in 2004 2005; do
  grep -q " table $table" "$note/routes" || ip route flush table $table 2>/dev/null
done
ip route flush root "$pods" >/dev/null 2>&1 || left "routes to pods"

# Packet filters: what leads to a chain of ours, then the chains. Nobody else's rule is touched.
ours='KUBE-|FLANNEL-|CILIUM_|OLD_CILIUM_|CNI-'
for iptables in iptables ip6tables; do
  for table in raw mangle nat filter; do
    found=$($iptables-save -t $table 2>/dev/null) || continue
    chains=$(printf '%s\n' "$found" | sed -nE "s/^:(($ours)[^ ]*) .*/\1/p")
    [ -n "$chains" ] || continue
    {
      echo "*$table"
      for chain in $chains; do echo ":$chain - [0:0]"; done
      printf '%s\n' "$found" | grep -vE "^-A ($ours)" | sed -nE "s/^-A (.* -j ($ours)[^ ]*( .*)?)$/-D \1/p"
      for chain in $chains; do echo "-X $chain"; done
      echo COMMIT
    } | $iptables-restore --noflush -w 5 || left "chains of $iptables in table $table"
    # A table that was not there: its chains, where they are empty now, no longer hook into the kernel either.
    grep -qx "$iptables $table" "$note/tables" ||
      for chain in $(printf '%s\n' "$found" | sed -nE 's/^:([^ ]+) [A-Z].*/\1/p'); do
        printf '*%s\n-X %s\nCOMMIT\n' "$table" "$chain" | $iptables-restore --noflush 2>/dev/null
      done
  done
done
# What is left of such a table are hooks that let everything pass.
for pair in ip:iptables ip6:ip6tables; do
  for table in raw mangle nat filter; do
    family=${pair%:*}
    grep -qx "${pair#*:} $table" "$note/tables" || ! listed=$(nft list table $family $table 2>/dev/null) ||
      printf '%s\n' "$listed" | grep -qvE '^(table|[[:space:]]*(chain|type .* policy accept;|}|$))' ||
      nft delete table $family $table || left "nft's table $family $table"
  done
done
for family in ip ip6; do
  ! nft list table $family kube-proxy >/dev/null 2>&1 || nft delete table $family kube-proxy || left "nft's table kube-proxy"
done
for set in $(ipset list -n 2>/dev/null | grep '^cilium_'); do ipset destroy "$set"; done

# Files: emptied where the folder was there before, else removed.
for folder in "$@"; do
  [ ! -d "$folder" ] || find "$folder" -xdev -mindepth 1 -delete 2>/dev/null
  [ -z "$(ls -A "$folder" 2>/dev/null)" ] || left "files in $folder"
done
while read -r folder; do
  [ "$folder" != /root/.kube/cache ] || rm -rf "$folder"
  [ ! -d "$folder" ] || rmdir "$folder" 2>/dev/null || left "folder $folder"
done <"$note/absent"
for unit in $units; do rm -f "/etc/systemd/system/$unit"; done
systemctl daemon-reload
[ -z "$units" ] || systemctl reset-failed $units 2>/dev/null

# Settings, as they were.
[ -e "$note/bpf" ] || ! mountpoint -q /sys/fs/bpf || umount /sys/fs/bpf || left "mount /sys/fs/bpf"
while read -r file value; do
  [ ! -e "/proc/sys/$file" ] || [ "$(cat "/proc/sys/$file")" = "$value" ] ||
    echo "$value" >"/proc/sys/$file" 2>/dev/null || left "setting $file, which was $value"
done <"$note/settings"
[ ! -e "$note/module" ] || modprobe -qr br_netfilter 2>/dev/null
cat "$note/left"
grep -qv '^setting ' "$note/left" || rm -rf "$note"
exit 0
