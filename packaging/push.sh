#!/bin/sh
# Pushes the images of a release to a registry, one name for all architectures, and the chart beside them:
#   packaging/push.sh DIRECTORY [REPOSITORY]      as ./push.sh of the files of a release: ./push.sh . REPOSITORY
# The repository is that of the chart unless another is named. $CRANE is crane, or one is looked for on the PATH; without crane, docker,
# podman or nerdctl pushes the images of this machine's architecture. $HELM is helm, $HELM_PUSH further flags of `helm push`, such as
# --plain-http. Log in to the registry before.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
directory=$(cd "${1:-$here}" && pwd)
list=$directory/images.txt
[ -f "$list" ] || { echo "$list is missing: name the directory that \`make dist\` wrote, or the files of a release." >&2; exit 1; }
first=$(grep -v '^#' "$list" | head -n 1 | cut -d ' ' -f 1)
version=${first##*:}
repository=${2:-${first%/*}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

crane=${CRANE:-$here/../target/packaging/bin/crane}
[ -x "$crane" ] || crane=$(command -v crane || true)
container=
for one in docker podman nerdctl; do
    if [ -z "$crane$container" ] && command -v $one >/dev/null 2>&1 && $one info >/dev/null 2>&1; then container=$one; fi
done
[ -n "$crane$container" ] || {
    echo "There is no crane, and no docker, podman or nerdctl that runs. Install crane: https://github.com/google/go-containerregistry" >&2
    exit 1
}
case $(uname -m) in
    aarch64 | arm64) machine=linux/arm64 ;;
    *) machine=linux/amd64 ;;
esac

# Lines of images.txt: name, platform, digest, archive. The line of an index follows those of its platforms.
manifests=
grep -v '^#' "$list" >"$work/list"
while read -r name platform digest archive; do
    image=${name##*/}
    image=${image%:*}
    if [ -n "$crane" ]; then
        if [ "$platform" = index ]; then
            "$crane" index append $manifests --tag "$repository/$image:$version"
            manifests=
            pushed=$("$crane" digest "$repository/$image:$version")
            [ "$pushed" = "$digest" ] || {
                echo "$repository/$image:$version has the digest $pushed, and images.txt says $digest: the archives are not those of the list." >&2
                exit 1
            }
        else
            rm -rf "$work/layout"
            mkdir "$work/layout"
            tar -xf "$directory/$archive" -C "$work/layout"
            "$crane" push "$work/layout" "$repository/$image:$version-${platform#linux/}"
            manifests="$manifests --manifest $repository/$image:$version-${platform#linux/}"
        fi
    elif [ "$platform" = "$machine" ]; then
        "$container" load --input "$directory/$archive"
        "$container" tag "$name" "$repository/$image:$version"
        "$container" push "$repository/$image:$version"
    fi
done <"$work/list"

digests=
[ -n "$crane" ] || digests=" --set image.digests.operator=,image.digests.webhook=,image.digests.cli="
if command -v "${HELM:-helm}" >/dev/null 2>&1; then
    "${HELM:-helm}" push "$directory/giveway-$version.tgz" "oci://$repository/charts" ${HELM_PUSH:-}
    chart=oci://$repository/charts/giveway
else
    echo "There is no helm, so the chart was not pushed." >&2
    chart=giveway-$version.tgz
fi
echo "helm install giveway $chart --namespace giveway-system --create-namespace --set image.repository=$repository$digests"
