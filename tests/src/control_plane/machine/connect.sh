# Connects the machine whose first process is $1 with the host: a pair of interfaces, $2 here with address $3, and eth0
# there with address $4.
set -eu
ip link add "$2" type veth peer name eth0 netns "$1"
ip address add "$3/30" dev "$2"
ip link set "$2" up
inside="nsenter --target $1 --net --"
$inside ip address add "$4/30" dev eth0
$inside ip link set eth0 up
$inside ip route add default via "$3"
