//! Arguments of `mode`.

use clap::{Args as ClapArgs, ValueEnum};
use giveway_crds::mode::Mode;

/// Arguments of `mode`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway mode observe         What would it do? kubectl get preemptions, of the state Observed.
  kubectl giveway mode off             In case of problems: gate no pod, and start no eviction.
  kubectl giveway mode chart           Back to what the chart's value `mode` says.

  enforce   Giveway plans and evicts.
  observe   It plans, stores what it would do, and evicts no pod. Groups that fit start together.
  off       It removes its scheduling gate from every gated pod in all namespaces, and evicts no pod. kube-scheduler then places these
            pods one by one, so gangs may be partially scheduled. This cannot be undone: the API server adds no gate to an existing
            pod, so another mode applies only to pods that are created later.
  chart     The chart's value `mode` counts again, which may be any of the three.

`enforce`, `observe` and `off` are written to the ConfigMap giveway-mode in Giveway's namespace, and `chart` deletes it. The operator
applies it within moments, without a restart. Plans with evictions left are cancelled by `observe` and `off`: if some pods of a
PodGroup in mode PodGroup were evicted, its other pods are evicted too, and no other pods are. You need the chart's Role
giveway-switch.

Exit status: 0 when it is written, also when it was so before; 1 when the cluster fails, or `off` was not confirmed; 2 when `off` can
be confirmed neither by --yes nor at a terminal.")]
pub(crate) struct ModeArgs {
    /// What Giveway does from now on.
    #[arg(value_enum, value_name = "MODE")]
    pub(crate) mode: ModeChoice,

    /// Do not ask for a confirmation of `off`.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,

    /// Ask the API server whether it would accept it, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The argument of `mode`. Its help names each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeChoice {
    /// Plan and evict.
    Enforce,
    /// Plan, and evict no pod.
    Observe,
    /// Remove the scheduling gate from all pods, gate no new ones, make no plan, and evict no pod.
    Off,
    /// What the chart's value `mode` says.
    Chart,
}

impl ModeChoice {
    /// Returns the mode that is written to the ConfigMap `giveway-mode`, or `None` for `chart`, which deletes the ConfigMap.
    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Self::Enforce => Some(Mode::Enforce),
            Self::Observe => Some(Mode::Observe),
            Self::Off => Some(Mode::Off),
            Self::Chart => None,
        }
    }
}
