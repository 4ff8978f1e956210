#!/bin/sh
# Builds operator, webhook and CLI as static programs, the same bytes wherever the checkout lies:
#   packaging/static.sh [TARGET]
# TARGET is a triple of rustc, this machine's by default. The programs are in target/TARGET/ship.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
# Paths of this machine, which messages of panics would tell otherwise.
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
sources=
for folder in "$registry"/*; do
    sources="$sources --remap-path-prefix=$folder=crates"
done
flags="-C target-feature=+crt-static --remap-path-prefix=$PWD=giveway$sources"
# For the target only: what builds it, such as macros, is loaded by the compiler and cannot be static.
variable=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_RUSTFLAGS
exec env "$variable=$flags" "$cargo" build --profile ship --target "$target" \
    -p giveway-operator -p giveway-webhook -p kubectl-giveway
