# The first process of the machine with directory $1: makes its view of the system, says so in $1/ready, and waits.
set -eu
mount -t proc proc /proc
# What programs keep in these folders is forgotten with the machine, and what the host keeps there is not seen.
for folder in /run /var/log /var/lib /etc/cni; do
    if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
done
# A kubelet sets these for the whole system: here it sets copies of them.
mkdir "$1/sysctl"
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    copy=$1/sysctl/$(echo "$setting" | tr / -)
    cat "/proc/sys/$setting" >"$copy"
    mount --bind "$copy" "/proc/sys/$setting"
done
# Every hierarchy of cgroups is mounted again with the machine's cgroup as its root.
hierarchies=$(sed -n 's/^[0-9]*:\([^:]\{1,\}\):.*/\1/p' /proc/self/cgroup)
if [ -n "$hierarchies" ]; then
    mount -t tmpfs tmpfs /sys/fs/cgroup
    for hierarchy in $hierarchies; do
        name=${hierarchy#name=}
        options=$hierarchy
        if [ "$name" != "$hierarchy" ]; then options=none,$hierarchy; fi
        mkdir "/sys/fs/cgroup/$name"
        mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/$name"
        for controller in $(echo "$name" | tr , ' '); do
            [ -e "/sys/fs/cgroup/$controller" ] || ln -s "$name" "/sys/fs/cgroup/$controller"
        done
    done
else
    # Version 2: controllers are handed down only by a cgroup that has no process itself.
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir /sys/fs/cgroup/own
    echo 1 >/sys/fs/cgroup/own/cgroup.procs
    sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
fi
ip link set lo up
# Connections of processes that were killed end soon, and the network with them.
echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries
echo 1 >/proc/sys/net/ipv4/tcp_fin_timeout
echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$1/ready"
exec sleep infinity
