#!/bin/sh
# Loads the images of a release into the nodes of a cluster that reaches no registry. It needs no network:
#   ./load.sh kind|k3d|minikube [CLUSTER]     into all nodes of a cluster on this machine
#   ./load.sh k3s|ctr                         into this node: of k3s, or of any other cluster with containerd (as root)
#   ./load.sh docker|podman|nerdctl           into the store of images of this machine
# It lies beside images.txt and the archives, checks them against SHA256SUMS and loads those of $ARCH, this machine's architecture by default.
set -eu
from=$(cd "${RELEASE:-$(dirname "$0")}" && pwd)
way=${1:-}
cluster=${2:-}
list=$from/images.txt
fail() { echo "$1" >&2; exit 1; }
[ -f "$list" ] || fail "$list is missing: run this script in the directory with the files of a release, or set RELEASE."
case ${ARCH:-$(uname -m)} in
    x86_64 | amd64) architecture=amd64 ;;
    aarch64 | arm64) architecture=arm64 ;;
    *) fail "There are no images for ${ARCH:-$(uname -m)}: set ARCH to amd64 or arm64." ;;
esac
case $way in
    kind) load() { kind load image-archive --name "${cluster:-kind}" "$1"; } ;;
    k3d) load() { k3d image import "$1" --cluster "${cluster:-k3s-default}"; } ;;
    minikube) load() { minikube image load --profile "${cluster:-minikube}" "$1"; } ;;
    k3s) load() { k3s ctr images import "$1"; } ;;
    ctr) load() { ctr --namespace k8s.io images import "$1"; } ;;
    docker | podman | nerdctl) load() { "$way" load --input "$1"; } ;;
    *) fail "Name where to load the images: $0 kind|k3d|minikube|k3s|ctr|docker|podman|nerdctl" ;;
esac
command -v "$way" >/dev/null 2>&1 || fail "There is no $way on this machine."
sum() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep " linux/$architecture " "$list" >"$work/list" || fail "images.txt has no image for linux/$architecture: set ARCH."
while read -r name _ _ archive; do
    grep -qx "$(sum "$from/$archive")  $archive" "$from/SHA256SUMS" ||
        fail "$archive is not the file of SHA256SUMS: copy the files of the release again."
    echo "$name"
    load "$from/$archive" </dev/null || fail "$way could not load $archive. Nothing else was changed; run the command again."
done <"$work/list"
chart=$(ls "$from"/giveway-*.tgz)
cat <<END
The images are loaded. Load them into every node, then:
  helm install giveway $chart --namespace giveway-system --create-namespace --wait \\
    --set image.pullPolicy=Never,image.digests.operator=,image.digests.webhook=,image.digests.cli=
END
