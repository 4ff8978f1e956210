//! Arguments of `capacity`.

use super::{CheckFormat, SchedulerArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Arguments of `capacity`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway capacity -f job.yaml                               How many of its pods fit, and what must be evicted?
  kubectl giveway capacity -f job.yaml --max-victims 10              Also: how many fit if at most 10 pods are evicted?
  kubectl giveway capacity -f job.yaml --members 500                 As if the file asked for 500 pods.
  kubectl giveway capacity -f job.yaml --snapshot cluster.json -o json | jq .atAll.members

The pods of one PodGroup are planned as a gang of 1, 2, 3 and more members; the largest gang of each line is found by bisection.
Pods without a PodGroup, and several PodGroups, are decided one after another in the operator's order. Each line counts what
Giveway would do: it evicts more pods of a low priority rather than one of a higher priority.

Exit status: 0 with an answer, also when no pod fits; 1 when the cluster cannot be read; 2 when the input cannot be used.")]
pub(crate) struct CapacityArgs {
    /// Manifests with the pods to place: pods, anything with a pod template, PodGroups, Workloads. `-` reads standard input. May
    /// be repeated.
    #[arg(long = "filename", short = 'f', value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Number of pods, instead of that in the file, which must have exactly one pod template.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) members: Option<u32>,

    /// Also print how many pods fit if at most this many others are evicted.
    #[arg(long, value_name = "N")]
    pub(crate) max_victims: Option<usize>,

    /// Use this snapshot instead of the live cluster: a v1 List in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) scheduler: SchedulerArgs,

    /// How to print the answer.
    #[arg(long, short, value_enum, default_value_t = CheckFormat::Table)]
    pub(crate) output: CheckFormat,
}
