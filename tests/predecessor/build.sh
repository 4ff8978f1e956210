#!/bin/sh
# The release before this one, for the tests of upgrades: `build.sh DIRECTORY` puts its sources (chart and kinds among them) into
# DIRECTORY/source and its operator and webhook into DIRECTORY/bin. There is no release yet: it is the commit in `commit`.
set -eu
cd "$(dirname "$0")/../.."
directory=$1
commit=$(cat tests/predecessor/commit)
cargo=${CARGO:-cargo}

if [ "$(cat "$directory/commit" 2>/dev/null)" = "$commit" ]; then exit 0; fi
git cat-file -e "$commit^{commit}" 2>/dev/null || {
    echo "The commit $commit is not in this clone: \`git fetch --unshallow\` brings it."; exit 1; }
echo "Building the predecessor ($commit): some minutes, once."
rm -rf "$directory/source" "$directory/bin" "$directory/commit"
mkdir -p "$directory/source" "$directory/bin" "$directory/target/debug/deps"
git archive "$commit" | tar -x -C "$directory/source"

# Most dependencies are those of this checkout and are already built: links to them save minutes.
if [ -d target/debug/deps ] && [ ! -d "$directory/target/debug/build" ]; then
    cp -a target/debug/build target/debug/.fingerprint "$directory/target/debug/"
    find target/debug/deps -maxdepth 1 -type f \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' -o -name '*.d' \) ! -name '*giveway*' \
        -exec ln -f -t "$directory/target/debug/deps" {} +
fi
CARGO_TARGET_DIR="$(pwd)/$directory/target" $cargo build --manifest-path "$directory/source/Cargo.toml" --workspace \
    --bin giveway-operator --bin giveway-webhook
cp "$directory/target/debug/giveway-operator" "$directory/target/debug/giveway-webhook" "$directory/bin/"
rm -rf "$directory/target"
echo "$commit" >"$directory/commit"
