#!/bin/sh
# Builds the programs that the scripts of this folder need, of the versions in tools/go.mod, into the directory $1, unless they are there
# and up to date: crane, which assembles images without a container daemon, and krew's two, which check the manifest of the plugin.
set -eu
module=$(cd "$(dirname "$0")/tools" && pwd)
mkdir -p "$1"
bin=$(cd "$1" && pwd)
want=$(cat "$module/go.mod" "$module/go.sum" "$0" | cksum)
if [ -x "$bin/crane" ] && [ -x "$bin/krew" ] && [ -x "$bin/validate-krew-manifest" ] && [ "$(cat "$bin/.built" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
command -v go >/dev/null 2>&1 || { echo "crane and krew are built from source and need Go 1.26 or newer: https://go.dev/dl/" >&2; exit 1; }
(cd "$module" && CGO_ENABLED=0 go build -buildvcs=false -ldflags "-s -w" -o "$bin/" tool)
echo "$want" >"$bin/.built"
