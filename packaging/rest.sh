#!/bin/sh
# What is made once for all architectures, into the directory $1, where images and plugins lie already: the chart, everything it
# renders as one file, the plugin's krew manifest and the checksums. $HELM is helm.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
helm=${HELM:-helm}
"$helm" package --destination "$out" helm >/dev/null
HELM=$helm packaging/file.sh >"$out/giveway.yaml"

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
    for archive in "$out"/kubectl-giveway-"$version"-linux-*.tar.gz; do
        file=${archive##*/}
        platform=${file##*-}
        cat <<END
    - selector:
        matchLabels:
          os: linux
          arch: ${platform%.tar.gz}
      uri: $source/releases/download/v$version/$file
      sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)
      bin: kubectl-giveway
END
    done
} >"$out/krew/giveway.yaml"
(cd "$out" && rm -f SHA256SUMS && find . -type f ! -name SHA256SUMS | sed 's,^\./,,' | LC_ALL=C sort | xargs sha256sum >"$out.sums")
mv "$out.sums" "$out/SHA256SUMS"
