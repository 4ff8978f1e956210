#!/bin/sh
# Assembles the images of the static programs as OCI archives, without a container daemon:
#   packaging/images.sh OUT
# One layer with one program and the licence, no shell, and nothing that depends on time or machine. $TARGET is a triple of rustc.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
. packaging/target.sh
. packaging/registry.sh
# Compressed bytes of an image, at most.
limit=12000000
serve_images

for image in $images; do
    program=$(program_of "$image")
    root=$work/$image
    mkdir -p "$root/usr/bin"
    cp "target/$target/ship/$program" "$root/usr/bin/"
    cp LICENSE "$root/"
    pack "$root" >"$work/layer.tar"
    gzip --best --no-name --force "$work/layer.tar"
    reference=$address/$image:$version
    "$crane" append --oci-empty-base --new_layer "$work/layer.tar.gz" --new_tag "$reference" >/dev/null 2>&1
    "$crane" mutate "$reference" --tag "$reference" --set-platform "linux/$architecture" --user 65532:65532 \
        --entrypoint "/usr/bin/$program" --env PATH=/usr/bin \
        --label "org.opencontainers.image.title=$image" \
        --label "org.opencontainers.image.source=$source" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.licenses=Apache-2.0" >/dev/null 2>&1
    rm -rf "$work/layout"
    "$crane" pull --format oci "$reference" "$work/layout"
    # The name that `ctr images import` and `docker load` give it; crane's own would tell the registry's port.
    digest=$("$crane" digest "$reference")
    manifest=$work/layout/blobs/sha256/${digest#sha256:}
    size=$(($(wc -c <"$manifest")))
    cat >"$work/layout/index.json" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":$size,"digest":"$digest","platform":{"architecture":"$architecture","os":"linux"},"annotations":{"io.containerd.image.name":"$repository/$image:$version","org.opencontainers.image.ref.name":"$version"}}]}
END
    archive=$out/$image-$version-linux-$architecture.oci.tar
    pack "$work/layout" >"$archive"
    bytes=$(($(wc -c <"$work/layer.tar.gz")))
    echo "$image:$version linux/$architecture $digest, $((bytes / 1000)) kB compressed"
    [ $bytes -lt $limit ] || { echo "$image is larger than $limit bytes compressed" >&2; exit 1; }
done
