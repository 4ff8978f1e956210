#!/bin/sh
# Builds the programs of a real node into the directory $1, unless they are there and up to date: kubelet and kube-proxy
# from the module of the control plane, containerd and the network plugins from modules of their own.
# Called by `make node`, after the control plane; takes 4 minutes on 2 cores the first time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
plane=$here/../controlplane
mkdir -p "$1/cni"
bin=$(cd "$1" && pwd)
stamp=$bin/.built

want=$(cat "$plane/go.mod" "$plane/go.sum" "$here"/*/go.mod "$here"/*/go.sum "$0" | cksum)
complete=yes
for program in kubelet kube-proxy containerd containerd-shim-runc-v2 ctr cni/bridge cni/host-local cni/loopback cni/portmap; do
    [ -x "$bin/$program" ] || complete=no
done
if [ $complete = yes ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
rm -f "$stamp"
echo "Building a node (kubelet, kube-proxy, containerd, network plugins): 4 minutes on 2 cores, only this once."
started=$(date +%s)
version=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$plane/go.mod")
minor=${version#v1.}
package=k8s.io/component-base/version
flags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
(cd "$plane" && go build -buildvcs=false -ldflags "$flags" -o "$bin/" k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy)
echo "  $(($(date +%s) - started)) s: kubelet and kube-proxy are built"
(cd "$here/cni" && CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/cni/" tool)
echo "  $(($(date +%s) - started)) s: the network plugins are built"
(cd "$here/containerd" && CGO_ENABLED=0 go build -buildvcs=false -tags "no_btrfs no_zfs no_devmapper" -ldflags "-s -w" -o "$bin/" tool)
echo "$want" >"$stamp"
echo "  done after $(($(date +%s) - started)) s"
