# A registry of this machine, for scripts that assemble images; to be read with `.` in the root of the repository.
crane=$PWD/target/packaging/bin/crane
work=$(mktemp -d)
registry=
trap '[ -z "$registry" ] || kill $registry; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Starts the registry, which ends with the script, and sets $address. Its images are kept in memory.
serve_images() {
    [ -x "$crane" ] || { echo "$crane is missing: run \`make packaging-tools\` first." >&2; exit 1; }
    "$crane" registry serve --address 127.0.0.1:0 >"$work/registry.log" 2>&1 &
    registry=$!
    naps=0
    until port=$(sed -n 's/.*serving on port \([0-9]*\).*/\1/p' "$work/registry.log" 2>/dev/null) && [ -n "$port" ]; do
        naps=$((naps + 1))
        [ $naps -lt 100 ] || { echo "crane does not serve: $(cat "$work/registry.log")" >&2; exit 1; }
        sleep 0.1
    done
    address=127.0.0.1:$port
}
