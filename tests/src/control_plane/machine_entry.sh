# Runs a program in the machine with directory $1, whose first process is $2: the rest of the arguments.
set -eu
while read -r cgroup; do
    [ ! -d "$cgroup/own" ] || cgroup=$cgroup/own
    echo $$ >"$cgroup/cgroup.procs"
done <"$1/cgroups"
first=$2
shift 2
exec nsenter --target "$first" --net --mount --pid --cgroup --uts --ipc -- "$@"
