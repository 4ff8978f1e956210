#!/bin/sh
# Signs what `packaging/push.sh DIRECTORY` has pushed, and SHA256SUMS in the directory:
#   packaging/sign.sh DIRECTORY [REPOSITORY]
# Each index and each image gets a signature, each image its SBOM as an attestation (a referrer of the image), the chart a signature. In a
# workflow the signatures are keyless; with $COSIGN_KEY they are made with that key, and recorded in no transparency log. $COSIGN_FLAGS
# are further flags for the registry. It needs cosign 3.
set -eu
directory=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
to=${2:-$repository}
crane=$PWD/target/packaging/bin/crane
cosign() {
    command=$1
    shift
    if [ -n "${COSIGN_KEY:-}" ]; then set -- --key "$COSIGN_KEY" --tlog-upload=false --use-signing-config=false "$@"; fi
    command cosign "$command" --yes ${COSIGN_FLAGS:-} "$@"
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
grep -v '^#' "$directory/images.txt" >"$work/list"
while read -r name platform digest _; do
    image=${name##*/}
    image=${image%:*}
    cosign sign "$to/$image@$digest" </dev/null
    [ "$platform" != index ] || continue
    bill=$directory/$(program_of "$image")-$version-linux-${platform#linux/}.cdx.json
    cosign attest --type cyclonedx --predicate "$bill" "$to/$image@$digest" </dev/null
done <"$work/list"
cosign sign "$to/charts/giveway@$("$crane" digest "$to/charts/giveway:$version")"
(
    unset COSIGN_FLAGS
    cosign sign-blob --bundle "$directory/SHA256SUMS.sigstore.json" "$directory/SHA256SUMS"
)
