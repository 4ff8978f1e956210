//! Arguments of `top`.

use clap::Args as ClapArgs;

/// Arguments of `top`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway top
  kubectl giveway top -n research         With rights in one namespace: its PodGroups and pods.
  kubectl giveway top --once | head -20   Printed once, with all rows.

It reads the cluster with your kubeconfig and your rights, all namespaces as far as you may, and writes nothing. It shows
changes within about a second. If the cluster cannot be read, the last state stays with the error. Ctrl+C ends it. Rows that do
not fit the terminal are cut; the last line says how many are not shown.

Exit status: 0 when it is interrupted, or has printed once; 1 when the cluster cannot be read at the start.")]
pub(crate) struct TopArgs {
    /// Print it once with all rows and exit, as without a terminal on standard output.
    #[arg(long)]
    pub(crate) once: bool,
}
