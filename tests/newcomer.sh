#!/bin/sh
# Times the path of a newcomer who has Rust and a C compiler, from a clone to a visible preemption:
#   tests/newcomer.sh CONTROLPLANE
# The control plane of the tests, in the folder CONTROLPLANE, is built already, so that Go is not needed: a `go` that fails stands before any
# other one. Nothing else is taken from this tree: the programs are compiled in the clone. Fails if a step fails; the goal of ten minutes is
# compared and not enforced, because machines differ.
set -eu
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
clone=$PWD/target/newcomer/giveway
rm -rf target/newcomer
mkdir -p target/newcomer/path
printf '#!/bin/sh\necho "error: Go was used." >&2\nexit 1\n' >target/newcomer/path/go
chmod +x target/newcomer/path/go
PATH=$PWD/target/newcomer/path:$PATH
unset CARGO_TARGET_DIR MAKEFLAGS MAKELEVEL 2>/dev/null || :

seconds() { echo $(($(date +%s) - began)); }
began=$(date +%s)
git clone --quiet . "$clone"
cd "$clone"
mkdir -p target/controlplane
ln -s "$bin" target/controlplane/bin
echo "cloned after $(seconds) s"
make demo 2>&1 | tee ../demo.log
# What make says is lost behind tee; the last line of a good run is this.
grep -q "Every promise was kept" ../demo.log || { echo "error: the demo did not end well." >&2; exit 1; }
total=$(seconds)
echo
echo "From the clone to a gang that preempted: $total s on $(getconf _NPROCESSORS_ONLN) cores (goal: 600 s)."
