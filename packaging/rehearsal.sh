#!/bin/sh
# Runs each step of .github/workflows/release.yml that needs no network, against a registry of this machine:
#   packaging/rehearsal.sh OUT
# Builds the files of a release for this machine's architecture, pushes them, verifies what the registry serves, signs with a key that is
# made for this run, and verifies the signatures. It names what is not rehearsed. $HELM is helm.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
. packaging/target.sh
. packaging/registry.sh
helm=${HELM:-helm}
left=
step() { printf '\n== %s\n' "$1"; }
fail() { printf 'error: %s\n' "$1" >&2; exit 1; }
leave() { echo "Not rehearsed: $1"; left="$left
  $1"; }

step "Tag and versions"
chart_version=$(sed -n 's/^version: //p' helm/Chart.yaml)
app_version=$(sed -n 's/^appVersion: "\(.*\)"/\1/p' helm/Chart.yaml)
[ "$version $version" = "$chart_version $app_version" ] ||
    fail "Cargo.toml has version $version, helm/Chart.yaml $chart_version and $app_version: set all three to the same."
echo "v$version"

step "Programs, images, plugin and SBOM for $architecture"
rm -rf "$out"
mkdir -p "$out"
packaging/static.sh "$target"
packaging/images.sh "$out"
packaging/plugin.sh "$out"
if packaging/sbom.sh "$out"; then :; else leave "SBOM: packaging/sbom.sh failed (cargo-cyclonedx is installed from a registry the first time)"; fi
leave "the other architecture and macOS: only the runners of the workflow build them"

step "Chart with the digests of the images, manifest, krew manifest, checksums"
PIN_DIGESTS=1 HELM=$helm packaging/rest.sh "$out"
(cd "$out" && sha256sum --check --strict --quiet SHA256SUMS)
pinned=$("$helm" template giveway "$out/giveway-$version.tgz" --namespace giveway-system |
    sed -n 's/^ *image: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' | grep "^$repository/" | sort -u)
[ -n "$pinned" ] || fail "The chart names no image of $repository."
echo "$pinned"
if echo "$pinned" | grep -v '@sha256:[0-9a-f]\{64\}$'; then fail "The chart names an image without a digest."; fi

step "Push to a registry, and pull"
serve_images
CRANE=$crane HELM=$helm HELM_PUSH=--plain-http packaging/push.sh "$out" "$address/giveway"
for image in $images; do
    digest=$(sed -n "s,^$repository/$image:$version index \([^ ]*\) .*,\1,p" "$out/images.txt")
    "$crane" manifest "$address/giveway/$image@$digest" >"$work/index.json" || fail "The registry does not serve $image@$digest."
    [ "sha256:$(sha256sum "$work/index.json" | cut -d ' ' -f 1)" = "$digest" ] || fail "The registry serves other bytes for $image@$digest."
    "$crane" validate --remote "$address/giveway/$image@$digest" --fast
done
"$helm" pull "oci://$address/giveway/charts/giveway" --version "$version" --plain-http --destination "$work" >/dev/null
cmp "$work/giveway-$version.tgz" "$out/giveway-$version.tgz" || fail "The registry serves another chart."

step "Signatures"
# What `cosign sign-blob --key` makes and `cosign verify-blob --key` verifies for a file: ECDSA over P-256 and SHA-256.
if command -v openssl >/dev/null 2>&1; then
    openssl ecparam -name prime256v1 -genkey -noout -out "$work/key.pem"
    openssl ec -in "$work/key.pem" -pubout -out "$work/key.pub" 2>/dev/null
    openssl dgst -sha256 -sign "$work/key.pem" -out "$work/sums.sig" "$out/SHA256SUMS"
    openssl dgst -sha256 -verify "$work/key.pub" -signature "$work/sums.sig" "$out/SHA256SUMS"
    sed 's/^./x/' "$out/SHA256SUMS" >"$work/forged"
    if openssl dgst -sha256 -verify "$work/key.pub" -signature "$work/sums.sig" "$work/forged" >/dev/null 2>&1; then
        fail "A forged SHA256SUMS passes."
    fi
else
    leave "the signature of SHA256SUMS: there is no openssl"
fi
if command -v cosign >/dev/null 2>&1; then
    (cd "$work" && COSIGN_PASSWORD='' cosign generate-key-pair >/dev/null 2>&1)
    COSIGN_PASSWORD='' COSIGN_KEY=$work/cosign.key COSIGN_FLAGS=--allow-http-registry packaging/sign.sh "$out" "$address/giveway"
    grep -v '^#' "$out/images.txt" >"$work/list"
    while read -r name _ digest _; do
        image=${name##*/}
        cosign verify --key "$work/cosign.pub" --insecure-ignore-tlog --allow-http-registry "$address/giveway/${image%:*}@$digest" >/dev/null
    done <"$work/list"
else
    leave "signatures of images and chart, SBOM as attestations: there is no cosign"
fi
leave "keyless signatures and build provenance: they need the identity of a workflow"
leave "\`gh release create\`, and the downloads of \`kubectl krew install\`: krew took the archives from $out"

step "Rehearsed; the files are in $out"
echo "Not rehearsed:$left"
