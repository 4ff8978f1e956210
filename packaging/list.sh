#!/bin/sh
# Writes images.txt into the directory $1, where the archives of the images lie: the digest of each image, for each platform, and that of
# the index by which a registry serves all platforms under one name.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
. packaging/registry.sh
serve_images
{
    echo "# The images of Giveway $version: name, platform, digest, archive. The platform \`index\` is what a registry serves under the name."
    for image in $images; do
        manifests=
        for archive in "$out/$image-$version"-linux-*.oci.tar; do
            [ -f "$archive" ] || { echo "$archive is missing: run \`packaging/images.sh $1\` first." >&2; exit 1; }
            rm -rf "$work/layout"
            mkdir "$work/layout"
            tar -xf "$archive" -C "$work/layout"
            architecture=${archive##*-}
            architecture=${architecture%.oci.tar}
            "$crane" push "$work/layout" "$address/$image:$architecture" >/dev/null 2>&1
            echo "$repository/$image:$version linux/$architecture $("$crane" digest "$address/$image:$architecture") ${archive##*/}"
            manifests="$manifests --manifest $address/$image:$architecture"
        done
        "$crane" index append $manifests --tag "$address/$image:$version" >/dev/null 2>&1
        echo "$repository/$image:$version index $("$crane" digest "$address/$image:$version") -"
    done
} >"$work/images.txt"
mv "$work/images.txt" "$out/images.txt"
