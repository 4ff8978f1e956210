//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use giveway_planner::{ObjectKey, Preemptor, Strategy};
use std::path::PathBuf;

/// What Giveway would decide, and why.
#[derive(Debug, Parser)]
#[command(name = "kubectl-giveway", bin_name = "kubectl giveway", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Plan for one pending pod or group in a snapshot of a cluster: where it would go, and who would have to go.
    Plan(PlanArgs),
}

#[derive(ClapArgs, Debug)]
#[command(after_help = "Example:
  kubectl get nodes,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses -A -o yaml > cluster.yaml
  kubectl giveway plan --snapshot cluster.yaml --for podgroup/training -n research -o json

Exit status: 0 with an answer, also when it is \"unschedulable\"; 2 when the input cannot be used.")]
pub(crate) struct PlanArgs {
    /// A v1 List of nodes, pods, podgroups, poddisruptionbudgets and priorityclasses, in JSON or YAML; `-` reads
    /// standard input. Objects of other kinds are ignored.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: PathBuf,

    /// Who needs room: podgroup/NAME or pod/NAME.
    #[arg(long = "for", value_name = "KIND/NAME", value_parser = Target::parse)]
    pub(crate) preemptor: Target,

    /// Namespace of the group or pod.
    #[arg(long, short, default_value = "default")]
    pub(crate) namespace: String,

    /// How to print the answer.
    #[arg(long, short, value_enum, default_value_t = Format::Json)]
    #[allow(dead_code, reason = "JSON is the only format yet")]
    pub(crate) output: Format,

    /// How to search: least-cost (victims and placement chosen together; never worse than the other), or kep5710
    /// (KEP-5710 step by step, with one placement).
    #[arg(long, value_name = "NAME", default_value = "least-cost", value_parser = strategy)]
    pub(crate) strategy: Strategy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object.
    Json,
}

/// `podgroup/NAME` or `pod/NAME`.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Group(String),
    Pod(String),
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((_, "")) | None => Err("must be podgroup/NAME or pod/NAME".to_owned()),
            Some(("podgroup" | "podgroups" | "gpg", name)) => Ok(Self::Group(name.to_owned())),
            Some(("pod" | "pods" | "po", name)) => Ok(Self::Pod(name.to_owned())),
            Some((kind, _)) => Err(format!("unknown kind \"{kind}\": must be podgroup or pod")),
        }
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Preemptor {
        match self {
            Self::Group(name) => Preemptor::Group(ObjectKey::new(namespace, name)),
            Self::Pod(name) => Preemptor::Pod(ObjectKey::new(namespace, name)),
        }
    }
}

fn strategy(text: &str) -> Result<Strategy, String> {
    Strategy::parse(text).ok_or_else(|| "must be least-cost or kep5710".to_owned())
}
