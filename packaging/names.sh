# Names that the scripts beside this file share; to be read with `.` in the root of the repository.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=$(sed -n 's/^  repository: //p' helm/values.yaml)
source=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
images="giveway-operator giveway-webhook giveway-cli"

# Prints the program of an image.
program_of() {
    case $1 in
        giveway-cli) echo kubectl-giveway ;;
        *) echo "$1" ;;
    esac
}
