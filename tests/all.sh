#!/bin/sh
# Runs every test of the workspace: CARGO and THREADS say with what, and how many at a time.
#
# The tests on the real node wait for containers most of the time, so they run beside those that compute. All are run whatever
# fails, and what failed, and why, is told once more at the end.
set -u
cargo=${CARGO:-cargo}
threads=${THREADS:-3}
node_log=target/node-tests.log
log=target/tests.log
status=target/tests.status

all() {
    failed=0
    "$cargo" test --workspace --no-run || return 1

    "$cargo" test --workspace --test node >"$node_log" 2>&1 &
    node=$!
    trap 'kill $node 2>/dev/null; exit 1' INT TERM

    # All but `e2e` and `node`, and `mutants`, which `make mutants` runs. Cargo matches names, and knows no exceptions: no other test
    # may begin like these.
    for test in */tests/*; do
        case ${test##*/} in
        e2e | node) ;;
        e2* | m* | no*) echo "$test would not be run (tests/all.sh): give it another name." && failed=1 ;;
        esac
    done
    "$cargo" test --workspace --no-fail-fast --lib --bins --test '[!emn]*' --test 'e[!2]*' --test 'n[!o]*' -- \
        --test-threads="$threads" || failed=1
    "$cargo" test --workspace --doc || failed=1

    echo "The tests on the real node, which ran meanwhile:"
    wait $node || failed=1
    cat "$node_log"

    "$cargo" test --workspace --test e2e -- --test-threads="$threads" || failed=1
    return $failed
}

mkdir -p target
rm -f "$status"
{
    all 2>&1
    echo $? >"$status"
} | tee "$log"
failed=$(cat "$status" 2>/dev/null || echo 1)
if [ "$failed" != 0 ]; then
    echo "What failed:"
    grep -E '^(test .* FAILED|error(\[.*\])?:)' "$log"
    grep -A 8 -E "^thread '.*' .*panicked at" "$log" | grep -v -E '^(stack backtrace:| +[0-9]+: | +at )'
fi
exit "$failed"
