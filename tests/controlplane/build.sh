#!/bin/sh
# Builds the programs of the control plane into the directory $1, unless they are there and up to date: etcd, kwok, helm, kubectl and
# Kubernetes of the newest version; or of the version $2, such as 1.34, those three that differ.
# Called by `make controlplane`; takes 5 to 9 minutes on 2 cores the first time.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
module=$here
programs="server kube-apiserver kube-controller-manager kube-scheduler kubectl kwok helm"
if [ -n "${2:-}" ]; then
    # The newest one is built without a version.
    if grep -q "^	k8s.io/kubernetes v$2\." "$here/go.mod"; then exit 0; fi
    module=$here/versions/$2
    programs="kube-apiserver kube-controller-manager kube-scheduler"
    if [ ! -f "$module/go.mod" ]; then
        there=$(cd "$here/versions" && echo *)
        echo "There is no control plane of the version $2: VERSION is one of $there, and without it the newest is built." >&2
        exit 1
    fi
fi
mkdir -p "$1"
bin=$(cd "$1" && pwd)
stamp=$bin/.built
# kubelet and kube-proxy belong to a node: tests/node/build.sh builds them, from this module too.
of_a_node="/kubelet$\|/kube-proxy$"

want=$(cat "$module/go.mod" "$module/go.sum" "$0" | cksum)
complete=yes
for program in $programs; do
    [ -x "$bin/$program" ] || complete=no
done
if [ $complete = yes ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi

needs() {
    echo "The control plane of the tests (etcd, Kubernetes, kwok, helm) is built from source and needs $1." >&2
    echo "Install it with your package manager (the package is called $2) or from $3, and try again." >&2
    exit 1
}
command -v go >/dev/null 2>&1 || needs "Go 1.26 or newer, and there is no \`go\`" "go or golang" "https://go.dev/dl/"
# In the module, because an older Go may be allowed to fetch the newer one that the module asks for.
version=$(cd "$here" && go env GOVERSION 2>/dev/null) || version=$(cd / && go env GOVERSION)
version=${version#go}
major=${version%%.*}
rest=${version#*.}
minor=${rest%%[!0-9]*}
if [ "$major" -lt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -lt 26 ]; }; then
    needs "Go 1.26 or newer, and \`go\` is $version" "go or golang" "https://go.dev/dl/"
fi
command -v "${CC:-cc}" >/dev/null 2>&1 || needs "a C compiler" "gcc or clang" "your system's vendor"

version=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' "$module/go.mod")
if [ -n "${2:-}" ]; then
    echo "Building the control plane of Kubernetes $version: 5 to 9 minutes on 2 cores, only this once."
else
    echo "Building the control plane (etcd, Kubernetes $version, kwok, helm): 5 to 9 minutes on 2 cores, only this once."
fi
minor=${version#v1.}
package=k8s.io/component-base/version
flags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
rm -f "$stamp"
started=$(date +%s)
packages=$(cd "$module" && go list tool | grep -v "$of_a_node")
(cd "$module" && exec go build -buildvcs=false -ldflags "$flags" -o "$bin/" $packages) &
build=$!
trap 'kill $build 2>/dev/null; exit 1' INT TERM
# One line every 15 s; a short nap, so that the end of the build is noticed at once.
naps=0
while kill -0 $build 2>/dev/null; do
    sleep 1
    naps=$((naps + 1))
    if [ $((naps % 15)) -eq 0 ]; then
        there=0
        for program in $programs; do
            if [ -x "$bin/$program" ]; then there=$((there + 1)); fi
        done
        echo "  $(($(date +%s) - started)) s: $there of $(echo "$programs" | wc -w) programs are built"
    fi
done
wait $build
echo "$want" >"$stamp"
echo "  done after $(($(date +%s) - started)) s"
