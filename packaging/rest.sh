#!/bin/sh
# What is made once for all architectures, into the directory $1, where images and plugins lie already: the list of images, the chart,
# everything it renders as one file, the plugin's krew manifest, which krew checks, the scripts that load and push the images, and the
# checksums. $HELM is helm. With PIN_DIGESTS=1, as in a release, the chart names the images by their digests.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
helm=${HELM:-helm}
packaging/list.sh "$out"
cp packaging/load.sh packaging/push.sh "$out/"

chart=helm
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
trap 'exit 1' INT TERM
if [ -n "${PIN_DIGESTS:-}" ]; then
    digest() { sed -n "s,^$repository/$1:$version index \([^ ]*\) .*,\1,p" "$out/images.txt"; }
    cp -R helm "$staged/giveway"
    chart=$staged/giveway
    pinned="{operator: \"$(digest giveway-operator)\", webhook: \"$(digest giveway-webhook)\", cli: \"$(digest giveway-cli)\"}"
    sed "s|^  digests: {}|  digests: $pinned|" helm/values.yaml >"$chart/values.yaml"
    grep -q '^  digests: {operator: "sha256:[0-9a-f]*", webhook: "sha256:[0-9a-f]*", cli: "sha256:[0-9a-f]*"}' "$chart/values.yaml" ||
        { echo "The line \`digests\` of helm/values.yaml has changed: adapt packaging/rest.sh." >&2; exit 1; }
fi
"$helm" package --destination "$out" "$chart" >/dev/null
HELM=$helm CHART=$chart packaging/file.sh >"$out/giveway.yaml"

mkdir -p "$out/krew"
{
    cat <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: giveway
spec:
  version: v$version
  homepage: $source
  shortDescription: What would be evicted for a group of pods, and why
  description: |
    Asks Giveway's planner about a live cluster or a snapshot of one: what would happen if a job was submitted, what a group
    waits for, which preemptor evicted which pods. Adopts and releases priority classes, and checks an installation.
  platforms:
END
    for archive in "$out"/kubectl-giveway-"$version"-*.tar.gz; do
        file=${archive##*/}
        platform=${file#"kubectl-giveway-$version-"}
        platform=${platform%.tar.gz}
        cat <<END
    - selector:
        matchLabels:
          os: ${platform%-*}
          arch: ${platform#*-}
      uri: $source/releases/download/v$version/$file
      sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)
      bin: kubectl-giveway
END
    done
} >"$out/krew/giveway.yaml"
packaging/krew.sh "$out"
(cd "$out" && rm -f SHA256SUMS && find . -type f ! -name SHA256SUMS | sed 's,^\./,,' | LC_ALL=C sort | xargs sha256sum >"$out.sums")
mv "$out.sums" "$out/SHA256SUMS"
