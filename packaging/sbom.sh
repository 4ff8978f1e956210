#!/bin/sh
# Writes what operator, webhook and CLI are made of (SBOM) into the directory $1, a CycloneDX file for each program: the crates in it,
# with versions, licences and checksums. As the whole workspace resolves them, so that a few more are listed than one program needs.
# cargo-cyclonedx is installed into target/tools the first time (a minute).
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
. packaging/target.sh
cargo=${CARGO:-cargo}
pinned=0.5.9
tool=target/tools/bin/cargo-cyclonedx
"$tool" cyclonedx --version 2>/dev/null | grep -qF " $pinned" ||
    "$cargo" install cargo-cyclonedx --version "$pinned" --locked --debug --quiet --root target/tools
# The tool writes beside each Cargo.toml, and nowhere else.
trap 'find . -path ./target -prune -o -name "*.cdx.json" -exec rm {} +' EXIT
trap 'exit 1' INT TERM
# The same commit makes the same files: with its time, and then the tool gives them no number of their own.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
"$tool" cyclonedx --format json --spec-version 1.5 --target "$target" --all --quiet
for program in operator/giveway-operator webhook/giveway-webhook cli/kubectl-giveway; do
    # Replaces the path of the checkout, which is private.
    sed "s,file://$PWD,file:///giveway,g" "$program.cdx.json" >"$out/${program#*/}-$version-$os-$architecture.cdx.json"
done
