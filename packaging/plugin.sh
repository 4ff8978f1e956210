#!/bin/sh
# Packs the kubectl plugin into the directory $1, as krew wants it. $TARGET is a triple of rustc.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
. packaging/target.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/plugin"
cp "target/$target/ship/kubectl-giveway" packaging/kubectl_complete-giveway LICENSE "$work/plugin/"
pack "$work/plugin" | gzip --best --no-name >"$out/kubectl-giveway-$version-$os-$architecture.tar.gz"
