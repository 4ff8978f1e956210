#!/bin/sh
# Builds the real controllers of other projects into $1/bin, each unless it is there and up to date, and lays what their projects
# install with them beside it: $1/manifests/NAME/crds and $1/manifests/NAME/webhooks.yaml, copied out of the module cache.
# Called by `make controllers`; takes 16 minutes on 2 cores the first time, less with names behind it
# of those that are wanted. A module each: their dependencies differ.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/bin" "$1/manifests"
to=$(cd "$1" && pwd)

# The files in which a project keeps its CRDs and, where it has some that are needed, its webhooks.
crds_of() {
    case $1 in
    jobset) echo 'config/components/crd/bases/*.yaml' ;;
    lws | kuberay) echo 'config/crd/bases/*.yaml' ;;
    trainer) echo 'manifests/base/crds/*.yaml' ;;
    karpenter) echo 'pkg/apis/crds/*.yaml kwok/apis/crds/*.yaml' ;;
    # It has an older MPIJob too, which is not that of mpi-operator.
    training-operator) echo manifests/base/crds/kubeflow.org_pytorchjobs.yaml ;;
    mpi-operator) echo manifests/base/kubeflow.org_mpijobs.yaml ;;
    esac
}
webhooks_of() {
    case $1 in
    jobset) echo config/components/webhook/manifests.yaml ;;
    lws) echo config/webhook/manifests.yaml ;;
    trainer | training-operator) echo manifests/base/webhook/manifests.yaml ;;
    esac
}

# Needs: name.
build() {
    module=$here/$1
    stamp=$to/bin/.$1
    want=$(cat "$module/go.mod" "$module/go.sum" "$0" | cksum)
    if [ -x "$to/bin/$1" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
        return
    fi
    rm -f "$stamp"
    package=$(sed -n 's/^tool //p' "$module/go.mod")
    version=$(cd "$module" && go list -f '{{.Module.Version}}' "$package")
    echo "Building the controller of $1 $version: 2 to 3 minutes on 2 cores, only this once."
    started=$(date +%s)
    (cd "$module" && go build -buildvcs=false -ldflags "-s -w" -o "$to/bin/$1" "$package")
    source=$(cd "$module" && go list -f '{{.Module.Dir}}' "$package")
    rm -rf "$to/manifests/$1"
    mkdir -p "$to/manifests/$1/crds"
    for crd in $(cd "$source" && echo $(crds_of "$1")); do
        case $crd in */kustomization.yaml) ;; *) cp "$source/$crd" "$to/manifests/$1/crds/" ;; esac
    done
    webhooks=$(webhooks_of "$1")
    if [ -n "$webhooks" ]; then cp "$source/$webhooks" "$to/manifests/$1/webhooks.yaml"; fi
    # The module cache is read-only, its copies need not be.
    chmod -R u+w "$to/manifests/$1"
    echo "$want" >"$stamp"
    echo "  done after $(($(date +%s) - started)) s"
}

shift
if [ $# -eq 0 ]; then
    for module in "$here"/*/go.mod; do set -- "$@" "$(basename "$(dirname "$module")")"; done
fi
for name; do build "$name"; done
