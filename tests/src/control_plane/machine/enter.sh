# Makes a machine of namespaces, with directory $1; $2 is what its first process runs. The cgroups in $1/cgroups are there.
# The kernel ends everything in it when its first process ends, and that ends when this one is killed.
set -eu
while read -r cgroup; do
    echo $$ >"$cgroup/cgroup.procs"
done <"$1/cgroups"
exec unshare --net --mount --pid --cgroup --uts --ipc --fork --kill-child --propagation private \
    /bin/sh -c "$2" giveway-machine "$1"
