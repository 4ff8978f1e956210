//! Arguments of `ui`.

use clap::Args as ClapArgs;

/// Arguments of `ui`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway ui
  kubectl giveway ui -n research             With rights in one namespace: its PodGroups and pods.
  kubectl giveway ui --no-open --port 8080   Prints the URL only; for `ssh -L 8080:127.0.0.1:8080`.

The page is served at 127.0.0.1 and reads the cluster with your kubeconfig and your rights. It writes nothing, and loads nothing
from elsewhere. The printed URL has a token that one browser can exchange for a session. The page shows changes of the
cluster within about a second.

Exit status: 0 when it is interrupted; 1 when the cluster cannot be read at the start, or the port is in use.")]
pub(crate) struct UiArgs {
    /// Print the URL, and do not open it in the browser.
    #[arg(long)]
    pub(crate) no_open: bool,

    /// Port of the page; 0 is a free one.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) port: u16,
}
