#!/bin/sh
# Checks the plugin's krew manifest in the directory $1 as the CI of krew-index does: krew's own validate-krew-manifest reads it and
# installs the plugin for each platform with krew. The archives are those in the directory; nothing is downloaded.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
bin=$PWD/target/packaging/bin
[ -x "$bin/validate-krew-manifest" ] || { echo "$bin/validate-krew-manifest is missing: run \`make packaging-tools\` first." >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# validate-krew-manifest runs `kubectl krew install --manifest FILE -v=4` with a platform in KREW_OS and KREW_ARCH. Without
# -v=0 an error would be one line of 140, and without its folder in PATH krew would print how to add it.
cat >"$work/kubectl" <<END
#!/bin/sh
shift
PATH=\$KREW_ROOT/bin:\$PATH
exec "$bin/krew" "\$@" -v=0 --archive "$out/kubectl-giveway-$version-\$KREW_OS-\$KREW_ARCH.tar.gz"
END
chmod +x "$work/kubectl"
PATH=$work:$PATH "$bin/validate-krew-manifest" -skip_headers -manifest "$out/krew/giveway.yaml"
