# The target of a build, and functions that make archives; to be read with `.` in the root of the repository. $TARGET is a triple of
# rustc, this machine's by default.
target=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
case $target in
    x86_64-*) architecture=amd64 ;;
    aarch64-*) architecture=arm64 ;;
    *) echo "Nothing is built for $target: set TARGET to a triple that begins with x86_64 or aarch64." >&2; exit 1 ;;
esac
case $target in
    *-apple-darwin) os=darwin ;;
    *) os=linux ;;
esac
# `pack FOLDER` writes an archive to standard output: the same files make the same archive for every user and at any time. It needs GNU
# tar, which is called gtar on macOS.
tar=$(command -v gtar || echo tar)
pack() {
    "$tar" --create --directory "$1" --format ustar --sort name --mtime @0 --owner 0 --group 0 --numeric-owner --mode a+rX,u+w,go-w .
}
