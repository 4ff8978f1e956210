#!/bin/sh
# Builds operator, webhook and CLI as static programs, the same bytes wherever the checkout lies:
#   packaging/static.sh [TARGET]
# TARGET is a triple of rustc, this machine's by default. The programs are in target/TARGET/ship. With AUDITABLE=1, as in a release, each
# program contains the list of its crates, which `cargo audit bin` reads; cargo-auditable is installed into target/tools the first time.
# For macOS, where programs cannot be static, only the plugin is built.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
# Paths of this machine, which messages of panics would tell otherwise.
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
# On a new machine the folder exists only after a download.
[ -d "$registry" ] || "$cargo" fetch --locked --target "$target"
sources=
for folder in "$registry"/*; do
    sources="$sources --remap-path-prefix=$folder=crates"
done
flags="--remap-path-prefix=$PWD=giveway$sources"
packages="-p giveway-operator -p giveway-webhook -p kubectl-giveway"
case $target in
    *-apple-darwin) packages="-p kubectl-giveway" ;;
    *) flags="-C target-feature=+crt-static $flags" ;;
esac
build=build
if [ -n "${AUDITABLE:-}" ]; then
    pinned=0.6.6
    "$cargo" install cargo-auditable --version "$pinned" --locked --debug --quiet --root target/tools
    PATH=$PWD/target/tools/bin:$PATH
    export PATH
    build="auditable build"
fi
# For the target only: what builds it, such as macros, is loaded by the compiler and cannot be static.
variable=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_RUSTFLAGS
exec env "$variable=$flags" "$cargo" $build --locked --profile ship --target "$target" $packages
