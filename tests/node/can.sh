#!/bin/sh
# Whether a real node can run here. When it cannot, says why in one line and ends with 1.
no() {
    echo "The tests on a real node do not run here: $1."
    exit 1
}
[ "$(uname -s)" = Linux ] || no "they need Linux"
[ "$(id -u)" = 0 ] || no "they need root (\`make test-node\` runs them)"
missing=
for needed in runc:runc iptables:iptables unshare:util-linux nsenter:util-linux ip:iproute2; do
    command -v "${needed%:*}" >/dev/null 2>&1 || missing="$missing ${needed#*:}"
done
if [ -n "$missing" ]; then
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
    no "install the Debian packages that are missing, \`apt-get install --no-install-recommends ${missing% }\`"
fi
runc --version | grep libseccomp >/dev/null ||
    no "\`runc\` was built without seccomp; the Debian package runc has it"
error=$(unshare --net --mount --pid --cgroup --uts --ipc --fork --propagation private sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up' 2>&1) ||
    no "namespaces and mounts are refused ($error)"
