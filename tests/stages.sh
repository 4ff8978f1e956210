#!/bin/sh
# Runs the stages of `make test` or of `make test-release`, all of them whatever fails, and ends with a table of what each cost:
#   tests/stages.sh test
#   tests/stages.sh release [STAGE...]
# MAKE and THREADS (end-to-end tests at a time) come from the Makefile. The table is kept in target/test-KIND.md.
set -u
kind=$1
shift
make=${MAKE:-make}
threads=${THREADS:-4}
logs=target/stages/$kind
table=target/test-$kind.md

# Jiffies that the cores of this machine worked so far; nothing where that is not known.
busy() { awk '/^cpu /{ print $2 + $3 + $4 + $7 + $8 }' /proc/stat 2>/dev/null; }
now() { date +%s.%N | sed 's/N$/0/'; }

# row NAME STARTED BUSY STATUS: a line of the table.
row() {
    result=passed
    [ "$4" = 0 ] || result="**failed**"
    awk -v name="$1" -v from="$2" -v to="$(now)" -v before="$3" -v after="$(busy)" -v result="$result" 'BEGIN {
        seconds = to - from
        cores = before == "" || seconds < 0.5 ? "-" : sprintf("%.1f", (after - before) / 100 / seconds)
        printf "| %s | %.0f | %s | %s |\n", name, seconds, cores, result }' >>"$logs/rows"
    [ "$4" = 0 ] || [ "$1" = all ] || echo "$1" >>"$logs/failed"
}

# stage NAME COMMAND...: runs one stage, with its output here and in its log.
stage() {
    name=$1
    shift
    echo
    echo "== $name"
    started=$(now)
    before=$(busy)
    { "$@" 2>&1; echo $? >"$logs/$name.status"; } | tee "$logs/$name.log"
    row "$name" "$started" "$before" "$(cat "$logs/$name.status")"
}

# background NAME COMMAND...: starts a stage that waits more than it works; `join NAME` waits for it and prints its log.
background() {
    name=$1
    shift
    now >"$logs/$name.started"
    ("$@" >"$logs/$name.log" 2>&1; echo $? >"$logs/$name.status"; now >"$logs/$name.ended") &
}
join() {
    wait
    echo
    echo "== $1, which ran beside the stages before"
    cat "$logs/$1.log"
    status=$(cat "$logs/$1.status" 2>/dev/null || echo 1)
    result=passed
    [ "$status" = 0 ] || { result="**failed**"; echo "$1" >>"$logs/failed"; }
    seconds=$(awk -v from="$(cat "$logs/$1.started")" -v to="$(cat "$logs/$1.ended")" 'BEGIN { printf "%.0f", to - from }')
    echo "| $1, beside the others | $seconds | - | $result |" >>"$logs/rows"
}

target() { "$make" --no-print-directory "$@"; }

skip() {
    echo "== $1 is skipped: $2"
    echo "| $1 | - | - | skipped: $2 |" >>"$logs/rows"
}

test_stages() {
    stage controlplane target controlplane
    if sh tests/node/can.sh; then stage node-build target node; fi
    stage format target format subjects
    stage build target compile
    stage generated target crds-check chart-check
    if grep -qx build "$logs/failed"; then
        for one in unit e2e node; do skip "$one" "the build failed"; done
        return
    fi
    background node target run-node
    stage unit target unit
    stage e2e target run-e2e E2E_THREADS="$threads"
    join node
}

# Each stage of a release, with what it needs that may be missing here.
# `scale` is `make bench-scale` with a fifth of its pods; SCALE_NODES, SCALE_PODS and SCALE_GROUPS set other numbers.
RELEASE="e2e-release oldest alerts dist install rehearsal newcomer book deny scale versions kinds upgrade mutants mutants-operator mutants-e2e soak"
release_stage() {
    case $1 in
    e2e-release) stage "$1" target e2e-release E2E_THREADS="$threads" ;;
    oldest) stage "$1" target test-oldest ;;
    alerts) stage "$1" target test-alerts ;;
    dist) stage "$1" target dist ;;
    install) if [ -f "$logs/dist.status" ]; then stage "$1" target run-install; else stage "$1" target test-install; fi ;;
    rehearsal) stage "$1" target release-rehearsal ;;
    newcomer) stage "$1" target newcomer ;;
    book) stage "$1" target docs ;;
    deny)
        if command -v cargo-deny >/dev/null 2>&1; then stage "$1" target deny; else
            skip "$1" "there is no cargo-deny (\`cargo install --locked cargo-deny\`); \`install\` checks licences and sources of what ships"
        fi ;;
    scale)
        stage "$1" target bench-scale NODES="${SCALE_NODES:-1000}" PODS="${SCALE_PODS:-20000}" GROUPS="${SCALE_GROUPS:-400}" ;;
    versions) stage "$1" target test-versions ;;
    kinds) stage "$1" target test-kinds ;;
    upgrade) stage "$1" target test-upgrade ;;
    mutants | mutants-operator | mutants-e2e | soak) stage "$1" target "$1" ;;
    esac
}
for one in "$@"; do
    case " $RELEASE " in *" $one "*) ;; *) echo "There is no stage $one; the stages are: $RELEASE" && exit 2 ;; esac
done
# A shell without job control starts its background jobs deaf to Ctrl-C.
trap 'trap - INT TERM; kill -TERM 0; exit 130' INT TERM

rm -rf "$logs"
mkdir -p "$logs"
: >"$logs/rows"
: >"$logs/failed"
began=$(now)
began_busy=$(busy)
if [ "$kind" = test ]; then
    test_stages
    left_out="What only a release needs is left out: \`make test-release\` ($RELEASE)."
else
    for one in ${*:-$RELEASE}; do release_stage "$one"; done
    left_out=
    for one in $RELEASE; do
        case " ${*:-$RELEASE} " in *" $one "*) ;; *) left_out="$left_out $one" ;; esac
    done
    [ -z "$left_out" ] || left_out="Left out, because ONLY names other stages:$left_out."
fi
row "all" "$began" "$began_busy" "$([ -s "$logs/failed" ] && echo 1 || echo 0)"

{
    echo "| stage | seconds | cores | result |"
    echo "|---|---|---|---|"
    cat "$logs/rows"
    for log in "$logs"/e2e*.log; do
        [ -f "$log" ] || continue
        echo
        sed -n '/^Control planes: /,$p' "$log"
    done
    [ -z "$left_out" ] || { echo; echo "$left_out"; }
} >"$table"
echo
cat "$table"
if [ -s "$logs/failed" ]; then
    echo
    echo "What failed: $(tr '\n' ' ' <"$logs/failed")"
    for name in $(cat "$logs/failed"); do
        [ -f "$logs/$name.log" ] || continue
        grep -hE '^(test .* FAILED|error(\[.*\])?:|---- )' "$logs/$name.log" | sed "s/^/$name: /"
        grep -h -A 8 -E "^thread '.*' .*panicked at" "$logs/$name.log" | grep -v -E '^(stack backtrace:| +[0-9]+: | +at )'
    done
    exit 1
fi
