#!/bin/sh
# Builds promtool, of the version in go.mod, into the directory $1, unless it is there and up to date: it checks the alerts and the
# queries of the dashboard. Called by `make promtool`; Prometheus' service discovery, which is most of it, is left out.
set -eu
module=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
bin=$(cd "$1" && pwd)
stamp=$bin/.built

want=$(cat "$module/go.mod" "$module/go.sum" "$module/build.sh" | cksum)
if [ -x "$bin/promtool" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
command -v go >/dev/null 2>&1 || {
    echo "promtool is built from source and needs Go 1.26 or newer, and there is no \`go\`." >&2
    exit 1
}
echo "Building promtool: a minute or two on 2 cores, only this once."
started=$(date +%s)
(cd "$module" && CGO_ENABLED=0 exec go build -buildvcs=false -tags remove_all_sd -ldflags "-s -w" -o "$bin/" tool)
echo "$want" >"$stamp"
echo "  done after $(($(date +%s) - started)) s"
