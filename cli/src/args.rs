//! The command line: commands, flags and their help.

pub(crate) mod capacity;
pub(crate) mod cleanup;
pub(crate) mod mode;
pub(crate) mod top;
pub(crate) mod ui;

use crate::connect::ClusterConnection;
use crate::names;
use capacity::CapacityArgs;
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use cleanup::CleanupArgs;
use giveway_cluster::scheduler_config;
use giveway_crds::kinds::{KINDS, OwnerKind, OwnerLink};
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_planner::{ObjectKey, Preemptor, Strategy};
use mode::ModeArgs;
use std::path::PathBuf;
use top::TopArgs;
use ui::UiArgs;

/// Shows what Giveway would decide and why, sets the priority classes that it preempts for, and checks its
/// installation.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-giveway",
    bin_name = "kubectl giveway",
    version,
    after_help = "\
Examples:
  kubectl giveway plan -f job.yaml                           What would happen if I submitted this?
  kubectl giveway capacity -f job.yaml                       How many of its pods fit, now and with evictions?
  kubectl giveway why podgroup/training -n research          Why is it pending, or what preempted it?
  kubectl giveway history podgroup/training -n research      Which preemptions had it as preemptor or victim?
  kubectl giveway ui                                         The same and more, as a page in the browser.
  kubectl giveway top                                        The capacity and the queue, in the terminal.
  kubectl giveway snapshot -o cluster.json --anonymize       Something to attach to a bug report.
  kubectl giveway check                                      Is Giveway installed, and which classes preempt without it?
  kubectl giveway adopt high                                 From now on Giveway preempts for this PriorityClass.
  kubectl giveway mode observe                               Plan, and evict no pod, until `mode chart`.

Only `adopt`, `release`, `mode`, `cleanup` and `check --gang` write to the cluster.

Exit status: 0 with an answer, also when it is \"unschedulable\"; 1 when the cluster or a file for output fails, or
a check failed; 2 when the input cannot be used."
)]
pub(crate) struct Args {
    /// How to reach the cluster.
    #[command(flatten)]
    pub(crate) connection: ClusterConnection,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows what would happen: the nodes of pods, and the pods that would be evicted for them. Nothing is written.
    Plan(PlanArgs),
    /// Shows how many pods of a manifest fit: now, after terminating pods are removed, and with evictions. Nothing is written.
    Capacity(CapacityArgs),
    /// Prints one page about a group or pod: its state, why it is pending, the last decision and what would change it;
    /// for a victim, the preemptor and the time. Without a name: lists everything that is pending.
    Why(WhyArgs),
    /// Lists preemptions with time, preemptor, victims and number of pods: all, or those of a namespace, group or pod.
    History(HistoryArgs),
    /// Shows the queue, plans, the history and the capacity of the cluster in the browser, until it is interrupted.
    Ui(UiArgs),
    /// Shows the capacity, the plans in progress and the queue in the terminal, until it is interrupted.
    Top(TopArgs),
    /// Saves what the planner reads of the cluster, for `plan --snapshot` and for bug reports.
    Snapshot(SnapshotArgs),
    /// Makes Giveway preempt for priority classes: kube-scheduler never preempts for them any more.
    Adopt(AdoptArgs),
    /// Makes kube-scheduler preempt for priority classes again.
    Release(ReleaseArgs),
    /// Switches Giveway's mode: enforce; observe (it evicts no pod); off (it also removes its gate from every pod, which cannot be
    /// undone); or chart (what the chart says).
    Mode(ModeArgs),
    /// Removes what Giveway left on other objects, while no operator runs.
    Cleanup(CleanupArgs),
    /// Checks the installation, and reports classes that still preempt through kube-scheduler and the pods they expose.
    Check(CheckArgs),
    /// Prints a group or Workload of Giveway as one of Kubernetes itself. Nothing is written.
    Export(ExportArgs),
    /// Prints groups and Workloads of Kubernetes itself, or groups of coscheduling, as Giveway's. Nothing is written.
    Import(ImportArgs),
    /// Prints the completion script of a shell.
    #[command(after_help = "\
Examples:
  kubectl-giveway completion bash > /etc/bash_completion.d/kubectl-giveway
  kubectl-giveway completion fish > ~/.config/fish/completions/kubectl-giveway.fish")]
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: ShellName,
    },
}

impl Command {
    /// Returns true if the command changes the cluster.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Adopt(args) => !args.flags.dry_run,
            Self::Release(args) => !args.flags.dry_run,
            Self::Mode(args) => !args.dry_run,
            Self::Cleanup(args) => args.subject.writes(),
            Self::Check(args) => args.gang.is_some(),
            _ => false,
        }
    }
}

/// Flags of `plan`.
#[derive(ClapArgs, Debug)]
#[command(
    group = ArgGroup::new("subject").required(true).args(["files", "preemptor"]),
    after_help = "\
Examples:
  kubectl giveway plan -f job.yaml                                   What would happen if I submitted this?
  helm template ./training | kubectl giveway plan -f - -n research
  kubectl giveway plan --for podgroup/training -n research           What would be decided for it now?
  kubectl giveway plan -f job.yaml --snapshot cluster.json           The same, without a cluster.
  kubectl giveway plan --for pod/vip -o dot | dot -Tsvg > plan.svg
  kubectl giveway plan --for pod/dns -n kube-system --critical        Which pods would be evicted for it?

A snapshot is what `kubectl giveway snapshot` writes, or
  kubectl get nodes,namespaces,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses,pv,pvc,storageclasses,csidrivers,csinodes,runtimeclasses -A -o yaml

Exit status: 0 with an answer, also when it is \"unschedulable\"; 1 when the cluster cannot be read; 2 when the input
cannot be used."
)]
pub(crate) struct PlanArgs {
    /// Manifests to plan for as if they were submitted: pods, anything with a pod template, PodGroups, Workloads.
    /// `-` reads standard input. May be repeated.
    #[arg(long = "filename", short = 'f', value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// An existing group or pod to plan for: podgroup/NAME or pod/NAME.
    #[arg(long = "for", value_name = "KIND/NAME", value_parser = Target::parse)]
    pub(crate) preemptor: Option<Target>,

    /// Plan in this snapshot instead of the live cluster: a v1 List in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,

    /// The configuration of kube-scheduler.
    #[command(flatten)]
    pub(crate) scheduler: SchedulerArgs,

    /// How to print the answer.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// How to search: least-cost (victims and placement chosen together; never worse than the other), or kep5710
    /// (KEP-5710 step by step, with one placement).
    #[arg(long, hide = true, value_name = "NAME", default_value = Strategy::default().as_str(), value_parser = strategy)]
    pub(crate) strategy: Strategy,

    /// Tables also say how the plan was found and why each victim was chosen.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Decide as the operator does for a critical add-on that kube-scheduler cannot place: by budgets and grace
    /// periods, whatever the priorities. With --for pod/NAME only.
    #[arg(long, requires = "preemptor", conflicts_with_all = ["files", "strategy"])]
    pub(crate) critical: bool,
}

/// The flag for the configuration of kube-scheduler.
#[derive(ClapArgs, Clone, Debug, Default)]
pub(crate) struct SchedulerArgs {
    /// Configuration of kube-scheduler, a KubeSchedulerConfiguration in YAML or JSON, instead of the one that the chart
    /// has (operator.schedulerConfig).
    #[arg(long = "scheduler-config", value_name = "FILE", value_parser = scheduler_config::read)]
    pub(crate) config: Option<SchedulerConfig>,
}

/// Flags of `why`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway why podgroup/training -n research
  kubectl giveway why job/training             Of the group that is made for a Job with the label gang.
  kubectl giveway why jobset/training          A page for each of the groups of a JobSet.
  kubectl giveway why pod/web-7d9f-x2x4k       Also of a deleted pod, while its events or Preemptions exist.
  kubectl giveway why -A                       Everything that is pending, in all namespaces.
  kubectl giveway why -o name                  The same in this namespace, as arguments for other commands.

Exit status: 0 with an answer; 1 when the cluster cannot be read; 2 when there is no such group or pod.")]
pub(crate) struct WhyArgs {
    /// podgroup/NAME or pod/NAME, or an owner of groups, such as job/NAME.
    #[arg(value_name = "KIND/NAME", value_parser = WhyTarget::parse)]
    pub(crate) target: Option<WhyTarget>,

    /// All namespaces; without a name only.
    #[arg(long, short = 'A', conflicts_with = "target")]
    pub(crate) all_namespaces: bool,

    /// The configuration of kube-scheduler.
    #[command(flatten)]
    pub(crate) scheduler: SchedulerArgs,

    /// How to print the list; without a name only.
    #[arg(long, short, value_enum, default_value_t = ListFormat::Table, conflicts_with = "target")]
    pub(crate) output: ListFormat,
}

/// Flags of `history`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway history                      Every preemption that is kept, the oldest first.
  kubectl giveway history -n research          Those with a preemptor or victim in namespace research.
  kubectl giveway history pod/web-7d9f-x2x4k   Those with this pod as preemptor or victim.
  kubectl giveway history -o json | jq '.items[] | select(.state == \"Completed\") | .pods'

It reads the objects of kind Preemption, which the operator keeps for a week, and at most 1,000 (its flags
--preemption-history and --preemption-history-limit). What kube-scheduler preempts by itself is not among them.

Exit status: 0 with an answer, also when there is none; 1 when the cluster cannot be read.")]
pub(crate) struct HistoryArgs {
    /// podgroup/NAME or pod/NAME.
    #[arg(value_name = "KIND/NAME", value_parser = Target::parse)]
    pub(crate) target: Option<Target>,

    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = ListFormat::Table)]
    pub(crate) output: ListFormat,
}

/// Flags of `snapshot`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway snapshot -o cluster.json
  kubectl giveway snapshot -o - | gzip > cluster.json.gz
  kubectl giveway snapshot -o report.json --anonymize

Exit status: 0 when it is written; 1 when the cluster cannot be read or the file cannot be written.")]
pub(crate) struct SnapshotArgs {
    /// The file to write, as JSON; `-` is standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Rename namespaces, names and label values, each always to the same and in the same order, so that plans are
    /// the same but for the names. Label keys, resource names, amounts and the namespace kube-system stay.
    #[arg(long)]
    pub(crate) anonymize: bool,
}

/// Flags of `adopt`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway adopt high
  kubectl giveway adopt high batch --dry-run     What would be created; nothing is written.

The preemptionPolicy of a class is immutable, so the class is deleted and created again, with the same value, description,
globalDefault, labels and annotations, with preemptionPolicy Never, and with its own policy in the annotation
scheduling.giveway.dev/preemption-policy. Until it exists again, usually within a second, new pods that name it are rejected;
existing pods are not changed.

The class is first written to the ConfigMap giveway-class-NAME in Giveway's namespace. When this command is interrupted,
the next adopt or release of the class finishes its work, and check reports it.

Exit status: 0 when the classes are managed, also when they were before; 1 when the cluster fails; 2 when there is no such
class, or it belongs to the cluster itself (system-).")]
pub(crate) struct AdoptArgs {
    /// Names of the PriorityClasses.
    #[arg(value_name = "NAME", required = true, value_parser = names::subdomain)]
    pub(crate) names: Vec<String>,

    /// How.
    #[command(flatten)]
    pub(crate) flags: ChangeFlags,
}

/// Flags of `release`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway release high
  kubectl giveway release --all                What uninstalling the chart does first.

The class gets its preemptionPolicy back from the annotation scheduling.giveway.dev/preemption-policy; it loses this
annotation and scheduling.giveway.dev/managed, and keeps everything else. Where the installation makes every new class a
managed one, it is marked scheduling.giveway.dev/managed: \"false\" instead. It is deleted and created again, as safely as
by `adopt`.

Exit status: as of `adopt`.")]
pub(crate) struct ReleaseArgs {
    /// Names of the PriorityClasses.
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = names::subdomain)]
    pub(crate) names: Vec<String>,

    /// Every managed class.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,

    /// How.
    #[command(flatten)]
    pub(crate) flags: ChangeFlags,

    /// Flags that only the Jobs of the chart use.
    #[command(flatten)]
    pub(crate) job: JobFlags,
}

/// Flags of the chart's Jobs.
#[derive(ClapArgs, Clone, Debug, Default)]
pub(crate) struct JobFlags {
    /// ClusterRoleBinding of the account that runs this command, and RoleBinding of the same name in Giveway's namespace. With
    /// it, the command is retried when it fails, and deletes both as its last act, also after a failure. The chart's Jobs
    /// use it.
    #[arg(long, hide = true, value_name = "NAME", value_parser = names::subdomain, conflicts_with = "dry_run")]
    pub(crate) own_binding: Option<String>,
}

/// Flags of `adopt` and `release`.
#[derive(ClapArgs, Debug)]
pub(crate) struct ChangeFlags {
    /// Print what would be created, after asking the API server whether it would accept it, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Flags of `export`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway export podgroup/training -n research
  kubectl giveway export workload/training | kubectl apply --dry-run=server -f -

Prints scheduling.k8s.io/v1beta1. What has no counterpart there is named on standard error.

Exit status: 0 when it is printed; 1 when the cluster cannot be read; 2 when there is no such object.")]
pub(crate) struct ExportArgs {
    /// podgroup/NAME or workload/NAME.
    #[arg(value_name = "KIND/NAME", value_parser = SourceKind::ours)]
    pub(crate) target: (SourceKind, String),
}

/// Flags of `import`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway import podgroup/training -n research       Of Kubernetes itself; if there is none, of coscheduling.
  kubectl giveway import podgroup.scheduling.x-k8s.io/training
  kubectl giveway import -f manifests.yaml > ours.yaml       Groups, and the pods and templates that name them.

It reads PodGroup and Workload of scheduling.k8s.io in every version, and PodGroup of scheduling.x-k8s.io (coscheduling). In
files pods and pod templates that name a group in spec.schedulingGroup, or in the label scheduling.x-k8s.io/pod-group, get
the label scheduling.giveway.dev/pod-group instead; everything else is printed as it is. What has no counterpart is named on
standard error.

Exit status: 0 when it is printed; 1 when the cluster cannot be read; 2 when there is no such object, or the file cannot be
used.")]
pub(crate) struct ImportArgs {
    /// podgroup/NAME, workload/NAME or podgroup.scheduling.x-k8s.io/NAME.
    #[arg(value_name = "KIND/NAME", value_parser = SourceKind::theirs, required_unless_present = "file")]
    pub(crate) target: Option<(SourceKind, String)>,

    /// A manifest instead; `-` reads standard input.
    #[arg(long = "filename", short = 'f', value_name = "FILE", conflicts_with = "target")]
    pub(crate) file: Option<PathBuf>,
}

/// A kind that can be exported or imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A PodGroup.
    PodGroup,
    /// A Workload.
    Workload,
    /// A PodGroup of coscheduling.
    Coscheduling,
}

impl SourceKind {
    /// Parses the argument of `export`: `podgroup/NAME` or `workload/NAME` of Giveway. Returns kind and name; the error says what is
    /// valid.
    fn ours(text: &str) -> Result<(Self, String), String> {
        Self::parse(text, "scheduling.giveway.dev")
    }

    /// Parses the argument of `import`: a PodGroup or Workload of Kubernetes itself, or a PodGroup of coscheduling. Returns kind and
    /// name; the error says what is valid.
    fn theirs(text: &str) -> Result<(Self, String), String> {
        Self::parse(text, "scheduling.k8s.io")
    }

    /// Parses `KIND/NAME` or `KIND.GROUP/NAME` into kind and name. `group` is the API group of a kind without one. The error says what
    /// is valid.
    fn parse(text: &str, group: &str) -> Result<(Self, String), String> {
        let native = group == "scheduling.k8s.io";
        let known = if native {
            "podgroup/NAME, workload/NAME or podgroup.scheduling.x-k8s.io/NAME"
        } else {
            "podgroup/NAME or workload/NAME"
        };
        let (kind, name) =
            text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(|| format!("must be {known}"))?;
        let (plain, of) = kind.split_once('.').unwrap_or((kind, group));
        let kind = match plain {
            "podgroup" | "podgroups" | "gpg" if of == group => Self::PodGroup,
            "workload" | "workloads" | "gwl" if of == group => Self::Workload,
            "podgroup" | "podgroups" if native && of == "scheduling.x-k8s.io" => Self::Coscheduling,
            _ => return Err(format!("unknown kind \"{kind}\": must be {known}")),
        };
        Ok((kind, names::subdomain(name)?))
    }
}

/// Flags of `check`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway check
  kubectl giveway check --pre -f values-gke.yaml                   Can Giveway be installed here with these values?
  kubectl giveway check -o json | jq -r '.findings[] | select(.status != \"OK\") | .message'

Each line is OK (passed), WARN (a warning, or unknown) or FAIL (failed), with what to do. Admission is tried out with a
server-side dry run; nothing is written without --gang. Guarded pods are those with the annotation
scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal that a PodDisruptionBudget selects; a class that
preempts through kube-scheduler exposes those of lower priority whose threshold it does not reach.

Exit status: 0 when no line says FAIL; 1 when one does, or the cluster cannot be reached.")]
pub(crate) struct CheckArgs {
    /// Check a cluster before the installation: what the chart needs there, which of its values must be set, and which port the
    /// API servers must reach, from where.
    #[arg(long, conflicts_with = "gang")]
    pub(crate) pre: bool,

    /// Values with which the chart will be installed, as `helm install -f` reads them; a later file overrides an earlier one.
    #[arg(long, short = 'f', value_name = "FILE", requires = "pre")]
    pub(crate) values: Vec<PathBuf>,

    /// Also start a gang of two pods of this image of the command line, in the namespace of -n, and remove it again: what
    /// `helm test` does.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) gang: Option<String>,

    /// How to print the findings.
    #[arg(long, short, value_enum, default_value_t = CheckFormat::Table)]
    pub(crate) output: CheckFormat,
}

/// How to print findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// A table for people.
    Table,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How to print a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// A table for people.
    Table,
    /// The table with more columns.
    Wide,
    /// One KIND/NAME per line, for other commands.
    Name,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    Table,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
    /// A graph for Graphviz.
    Dot,
}

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellName {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
}

impl From<ShellName> for Shell {
    /// Converts the argument of `completion` to the shell for which clap generates the script.
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Zsh => Self::Zsh,
            ShellName::Fish => Self::Fish,
            ShellName::Powershell => Self::PowerShell,
        }
    }
}

/// `podgroup/NAME` or `pod/NAME`, or an owner whose group has its name, such as `job/NAME`.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A PodGroup.
    Group(String),
    /// A pod.
    Pod(String),
}

impl Target {
    /// Parses `podgroup/NAME`, `pod/NAME`, or an owner such as `job/NAME`, which stands for its PodGroup. The error says what is valid.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, name)) = text.split_once('/').filter(|(_, name)| !name.is_empty()) {
            names::subdomain(name)?;
        }
        match text.split_once('/') {
            Some((_, "")) | None => Err("must be podgroup/NAME or pod/NAME".to_owned()),
            Some(("podgroup" | "podgroups" | "podgroups.scheduling.giveway.dev" | "gpg", name)) => {
                Ok(Self::Group(name.to_owned()))
            }
            Some(("pod" | "pods" | "po", name)) => Ok(Self::Pod(name.to_owned())),
            Some((kind, name)) => Self::of_owner(kind, name),
        }
    }

    /// Returns the PodGroup that Giveway creates for an owner, such as kind `job` with this name. It is an error if the kind has none,
    /// or several for each object.
    fn of_owner(kind: &str, name: &str) -> Result<Self, String> {
        match row_of(kind) {
            Some(row) if row.has_groups() && row.replica.is_empty() => {
                Ok(Self::Group(giveway_crds::kinds::name::of(name, &[])))
            }
            Some(row) => Err(match row.owner_link {
                OwnerLink::ByChild(child) => {
                    format!("a {} has no pod groups: name the {child} that it creates", row.kind)
                }
                _ => format!("a {} has several pod groups: name one as podgroup/NAME", row.kind),
            }),
            None => Err(format!("unknown kind \"{kind}\": must be podgroup or pod")),
        }
    }

    /// Returns the PodGroup or pod of this name in `namespace`, as a preemptor.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Preemptor {
        match self {
            Self::Group(name) => Preemptor::Group(ObjectKey::new(namespace, name)),
            Self::Pod(name) => Preemptor::Pod(ObjectKey::new(namespace, name)),
        }
    }
}

/// Returns the kind of owners that `text` names as in kubectl: singular or plural, with or without its API group. `None` if Giveway
/// does not know the kind.
fn row_of(text: &str) -> Option<&'static OwnerKind> {
    let lower = text.to_lowercase();
    let named = |row: &&OwnerKind| {
        let rest = [row.kind.to_lowercase(), row.plural.to_owned()].into_iter().find_map(|name| {
            let rest = lower.strip_prefix(&name)?;
            (rest.is_empty() || rest.starts_with('.')).then(|| rest.to_owned())
        });
        rest.is_some_and(|rest| rest.is_empty() || rest[1..] == *row.group)
    };
    KINDS.iter().find(named)
}

/// The argument of `why`.
#[derive(Clone, Debug)]
pub(crate) enum WhyTarget {
    /// A group or a pod.
    One(Target),
    /// The PodGroup of an owner of a kind that has one for each object.
    GroupOf(&'static OwnerKind, String),
    /// All PodGroups of an owner of a kind that has several for each object.
    GroupsOf(&'static OwnerKind, String),
}

impl WhyTarget {
    /// Parses the argument of `why`: a PodGroup, a pod, or an owner of PodGroups. The error says what is valid.
    fn parse(text: &str) -> Result<Self, String> {
        let owner = text.split_once('/').filter(|(_, name)| !name.is_empty());
        let has_groups = |row: &&OwnerKind| row.has_groups();
        match owner.and_then(|(kind, name)| Some((row_of(kind).filter(has_groups)?, name))) {
            Some((row, name)) if row.replica.is_empty() => Ok(Self::GroupOf(row, names::subdomain(name)?)),
            Some((row, name)) => Ok(Self::GroupsOf(row, names::subdomain(name)?)),
            None => Target::parse(text).map(Self::One),
        }
    }
}

/// Parses the name of a planning algorithm, `least-cost` or `kep5710`. The error says what is valid.
fn strategy(text: &str) -> Result<Strategy, String> {
    Strategy::parse(text).ok_or_else(|| {
        let known = ["least-cost", "kep5710"].into_iter().filter(|name| Strategy::parse(name).is_some());
        format!("must be {}", known.collect::<Vec<_>>().join(" or "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_names_everything_that_writes() {
        let help = Args::command().render_long_help().to_string();
        let line = help.lines().find(|line| line.ends_with("write to the cluster.")).unwrap();
        for command in ["adopt", "release", "mode", "cleanup", "check --gang"] {
            assert!(line.contains(&format!("`{command}`")), "{command} is not in: {line}");
        }
    }
}
