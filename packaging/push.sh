#!/bin/sh
# Pushes the images of the directory $1 to a registry, one name for all architectures, and the chart beside them:
#   packaging/push.sh DIRECTORY [REPOSITORY]
# The repository is that of the chart unless another is named. $HELM is helm, $HELM_PUSH further flags of `helm push`, such as
# --plain-http. Log in to the registry before.
set -eu
directory=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
. packaging/names.sh
repository=${2:-$repository}
crane=$PWD/target/packaging/bin/crane
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for image in giveway-operator giveway-webhook giveway-cli; do
    manifests=
    for archive in "$directory/$image-$version"-linux-*.oci.tar; do
        rm -rf "$work/layout"
        mkdir "$work/layout"
        tar --extract --file "$archive" --directory "$work/layout"
        platform=${archive##*-}
        reference=$repository/$image:$version-${platform%.oci.tar}
        "$crane" push "$work/layout" "$reference"
        manifests="$manifests --manifest $reference"
    done
    "$crane" index append $manifests --tag "$repository/$image:$version"
done
"${HELM:-helm}" push "$directory/giveway-$version.tgz" "oci://$repository/charts" ${HELM_PUSH:-}
