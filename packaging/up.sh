#!/bin/sh
# Creates a cluster with Giveway on this machine, and runs an example that preempts:
#   packaging/up.sh kind|k3s|minikube           what `make kind-up`, `make k3s-up` and `make minikube-up` run
#   packaging/up.sh kind|k3s|minikube down      deletes the cluster again
# It needs a tool for containers that runs (docker, podman or nerdctl; $CONTAINER names one), kubectl, helm, and kind, k3d or minikube. Neither
# Rust nor Go: the programs are compiled while the images are built. $CLUSTER is the name of the cluster, $KUBERNETES the version of
# Kubernetes. Your own kubeconfig is not changed: that of the cluster is written below target/try/.
set -eu
cd "$(dirname "$0")/.."
. packaging/names.sh
platform=${1:-}
cluster=${CLUSTER:-giveway}
kubernetes=${KUBERNETES:-}
kubernetes=${kubernetes#v}
state=${TRY_DIRECTORY:-$PWD/target/try}/$platform-$cluster
down="make $platform-down"
[ "$cluster" = giveway ] || down="$down CLUSTER=$cluster"
began=$(date +%s)

step() { printf '\n== %s\n' "$1"; }
fail() {
    printf '\nerror: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}
# need TOOL PAGE: fails if a tool is not installed.
need() { command -v "$1" >/dev/null 2>&1 || fail "There is no $1." "Install it: $2"; }

# What differs between the platforms.
case $platform in
    kind)
        tool=kind page=https://kind.sigs.k8s.io/docs/user/quick-start/#installation
        # The image is pinned by its digest; that of another version is found by its tag.
        kind_image=kindest/node:v${kubernetes:-1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a}
        kubernetes=${kubernetes:-1.34.0}
        exists() { kind get clusters 2>/dev/null | grep -qx "$cluster"; }
        create() { kind create cluster --name "$cluster" --image "$kind_image" --kubeconfig "$KUBECONFIG" --wait 180s; }
        load() { kind load image-archive --name "$cluster" "$1"; }
        delete() { kind delete cluster --name "$cluster" --kubeconfig "$KUBECONFIG"; }
        ;;
    k3s)
        tool=k3d page=https://k3d.io/stable/#installation
        kubernetes=${kubernetes:-1.34.1}
        exists() { k3d cluster list "$cluster" >/dev/null 2>&1; }
        create() {
            k3d cluster create "$cluster" --image "rancher/k3s:v$kubernetes-k3s1" --kubeconfig-update-default=false --wait --timeout 180s &&
                k3d kubeconfig write "$cluster" --output "$KUBECONFIG"
        }
        load() { k3d image import "$1" --cluster "$cluster"; }
        delete() { k3d cluster delete "$cluster"; }
        ;;
    minikube)
        tool=minikube page=https://minikube.sigs.k8s.io/docs/start/
        kubernetes=${kubernetes:-1.34.0}
        exists() { minikube profile list --light -o json 2>/dev/null | grep -q "\"Name\": *\"$cluster\""; }
        create() { minikube start --profile "$cluster" --kubernetes-version "v$kubernetes" ${driver:+--driver "$driver"} --wait all; }
        load() { minikube image load --profile "$cluster" "$1"; }
        delete() { minikube delete --profile "$cluster"; }
        ;;
    *) fail "\`packaging/up.sh $platform\`: there is no such platform." "Name one of kind, k3s, minikube." ;;
esac
mkdir -p "$state"
export KUBECONFIG="$state/kubeconfig"
need $tool $page
if [ "${2:-}" = down ]; then
    # kind looks for its containers with the tool that made them.
    [ ! -f "$state/provider" ] || { KIND_EXPERIMENTAL_PROVIDER=$(cat "$state/provider"); export KIND_EXPERIMENTAL_PROVIDER; }
    delete
    rm -rf "$state"
    exit 0
fi
need kubectl https://kubernetes.io/docs/tasks/tools/
need helm https://helm.sh/docs/intro/install/

# The first tool for containers that is there and runs.
container=
installed=
for one in ${CONTAINER:-docker podman nerdctl}; do
    command -v "$one" >/dev/null 2>&1 || continue
    installed="$installed $one"
    if "$one" info >/dev/null 2>&1; then container=$one; break; fi
done
if [ -z "$container" ] && [ -z "$installed" ]; then
    fail "There is no ${CONTAINER:-docker, podman or nerdctl}, which builds the images." \
        "Install one of docker, podman and nerdctl: https://docs.docker.com/engine/install/"
elif [ -z "$container" ]; then
    fail "No tool for containers runs: \`${installed# } info\` fails." \
        "Start its daemon (\`sudo systemctl start docker\`, Docker Desktop, \`podman machine start\`), or let your user use it."
fi
driver=
case $platform-$container in
    kind-docker | k3s-docker | minikube-nerdctl) ;;
    kind-*) export KIND_EXPERIMENTAL_PROVIDER="$container" && echo "$container" >"$state/provider" ;;
    k3s-*) fail "k3d needs docker, and only $container runs." "Start docker, or run \`make kind-up\`, which works with $container." ;;
    minikube-*) driver=$container ;;
esac

! exists || fail "There is a cluster $cluster already." \
    "Delete it with \`$down\`, or choose another name: \`make $platform-up CLUSTER=other\`."

# Without them an image is one manifest, which every platform can load.
export BUILDX_NO_DEFAULT_ATTESTATIONS=1
step "Building three images with $container (10 minutes the first time, most of it to compile)"
for image in $images; do
    "$container" build --build-arg "PROGRAM=$(program_of "$image")" --tag "$repository/$image:$version" . ||
        fail "$container could not build the image $image." \
            "The lines above say why. Without access to Docker Hub and crates.io use the files of a release: docs/platforms.md, \"Offline\"." \
            "If the compiler was killed, give $container 4 GiB of memory or more."
done

step "Creating the $platform cluster $cluster with Kubernetes $kubernetes"
create || fail "$tool could not create the cluster $cluster." \
    "The lines above say why. Delete what is left with \`$down\`. Another version of Kubernetes: \`make $platform-up KUBERNETES=1.33.4\`."

step "Loading the images into the cluster"
for image in $images; do
    archive=$state/$image.tar
    rm -f "$archive"
    "$container" save --output "$archive" "$repository/$image:$version" && load "$archive" ||
        fail "The image $image could not be loaded into the cluster." "Is the disk full? Then run \`$down\` and try again."
    rm -f "$archive"
done

step "Installing the plugin as $state/bin/kubectl-giveway"
mkdir -p "$state/bin"
plugin=$state/bin/kubectl-giveway
# The image has a program for Linux. Elsewhere, cargo builds one.
from=$("$container" create "$repository/giveway-cli:$version") && "$container" cp "$from:/usr/bin/kubectl-giveway" "$plugin" ||
    fail "The plugin could not be copied from the image giveway-cli." "Check that \`$container create\` and \`$container cp\` work."
"$container" rm "$from" >/dev/null
if ! "$plugin" --version 2>/dev/null; then
    command -v cargo >/dev/null 2>&1 ||
        fail "The plugin in the image does not run on $(uname -s), and there is no cargo that would build one." \
            "Install Rust (https://rustup.rs) and run \`$down\` and \`make $platform-up\`: the images are not built again."
    cargo build --release --locked --package kubectl-giveway && cp target/release/kubectl-giveway "$plugin" ||
        fail "The plugin could not be built." "The lines above say why."
fi
PATH=$state/bin:$PATH
export PATH

step "Installing the chart"
helm install giveway helm --namespace giveway-system --create-namespace --wait --timeout 180s \
    --set "image.repository=$repository" --set image.pullPolicy=Never || {
    kubectl get pods --namespace giveway-system -o wide >&2 || true
    fail "The chart could not be installed." "\`kubectl describe pods -n giveway-system\` prints why. Delete the cluster with \`$down\`." \
        "To use it: export KUBECONFIG=$KUBECONFIG"
}
kubectl giveway check || fail "\`kubectl giveway check\` found a fault." "docs/troubleshooting.md#checks explains each line that says FAIL."

step "An example: a gang of four pods on a full node"
packaging/try.sh || fail "The example did not run to its end; the cluster stays." \
    "To look at it: export KUBECONFIG=$KUBECONFIG PATH=$state/bin:\$PATH" "Delete it with \`$down\`."

cat <<END

All of this took $(($(date +%s) - began)) s. Four pods were evicted, and the gang runs on their node. What next?
  export KUBECONFIG=$KUBECONFIG PATH=$state/bin:\$PATH
  kubectl giveway history                          which pods were evicted, and for which preemptor
  kubectl delete job train -n giveway-try          the evicted pods run again
  $down                                   deletes the cluster
Your own Jobs as gangs: docs/tasks/run-a-gang.md.
END
