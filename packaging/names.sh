# Names that the scripts beside this file share; to be read with `.` in the root of the repository.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=$(sed -n 's/^  repository: //p' helm/values.yaml)
source=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) echo "No images are built for $target." >&2; exit 1 ;;
esac
# The same files make the same archive for every user and at any time: `pack FOLDER` writes it to standard output.
pack() {
    tar --create --directory "$1" --format ustar --sort name --mtime @0 --owner 0 --group 0 --numeric-owner --mode a+rX,u+w,go-w .
}
