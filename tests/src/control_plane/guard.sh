# Outlives the process that started the control plane in directory $1, by a moment: reads from its standard input
# which process groups, cgroups and network links belong to it, and at the end of the input (a drop, a panic, Ctrl-C,
# kill -9) ends the processes and removes the rest, and the directory. The word `keep` makes it leave everything as it is.
trap '' HUP INT TERM
groups=
cgroups=
links=
while read -r word group; do
    case $word in
    keep) exit ;;
    add) groups="$groups $group" ;;
    cgroup) cgroups="$cgroups $group" ;;
    link) links="$links $group" ;;
    gone)
        rest=
        for g in $groups; do
            [ "$g" = "$group" ] || rest="$rest $g"
        done
        groups=$rest
        ;;
    esac
done
for g in $groups; do
    kill -s KILL -- "-$g" 2>/dev/null
done
# An open connection would keep a link for a minute or two.
for link in $links; do
    ip link delete "$link" 2>/dev/null
done
# A process that is being killed may still write; a few attempts are enough.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1" 2>/dev/null && break
    sleep 0.1
done
# A cgroup can be removed when the kernel has buried its last process.
for cgroup in $cgroups; do
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        find "$cgroup" -depth -type d -exec rmdir -- {} + 2>/dev/null
        [ -d "$cgroup" ] || break
        sleep 0.1
    done
done
