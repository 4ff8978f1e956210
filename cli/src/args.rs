//! The command line: commands, flags and their help.

use crate::connect::ClusterConnection;
use crate::names;
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use giveway_crds::kinds::{KINDS, Kind, OwnerLink};
use giveway_planner::{ObjectKey, Preemptor, Strategy};
use std::path::PathBuf;

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
  kubectl giveway why podgroup/training -n research          Why is it pending, or what preempted it?
  kubectl giveway history podgroup/training -n research      Which preemptions had it as preemptor or victim?
  kubectl giveway snapshot -o cluster.json --anonymize       Something to attach to a bug report.
  kubectl giveway check                                      Is Giveway installed, and which classes preempt without it?
  kubectl giveway adopt priorityclass high                   From now on Giveway preempts for this class.
  kubectl giveway pause                                      Gate no pod and start no eviction, until `resume`.

Only `adopt`, `release`, `pause`, `observe`, `resume`, `cleanup`, `uninstall` and `check --gang` write to the cluster.

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
    /// Prints one page about a group or pod: its state, why it is pending, the last decision and what would change it;
    /// for a victim, the preemptor and the time. Without a name: lists everything that is pending.
    Why(WhyArgs),
    /// Lists preemptions with time, preemptor, victims and number of pods: all, or those of a namespace, group or pod.
    History(HistoryArgs),
    /// Saves what the planner reads of the cluster, for `plan --snapshot` and for bug reports.
    Snapshot(SnapshotArgs),
    /// Makes Giveway preempt for priority classes: kube-scheduler never preempts for them any more.
    Adopt(AdoptArgs),
    /// Makes kube-scheduler preempt for priority classes again; or removes the operator's taints from all nodes.
    Release(ReleaseArgs),
    /// Removes what Giveway left on other objects, after its operator was removed; --dry-run shows what an uninstall
    /// removes.
    Uninstall(UninstallArgs),
    /// Lets the deletion of a namespace, or of its groups, end while no operator runs: removes Giveway's finalizer.
    Cleanup(CleanupArgs),
    /// Switches Giveway off: the operator removes its gate from all pods, and starts no eviction.
    Pause(SwitchFlags),
    /// Lets Giveway only observe: it plans, stores what it would do, and starts no eviction. Groups that fit start.
    Observe(SwitchFlags),
    /// Undoes `pause` or `observe`: the chart's value `mode` counts again.
    Resume(SwitchFlags),
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
    /// Whether it changes the cluster.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Adopt(args) => !args.flags.dry_run,
            Self::Release(args) => !args.flags.dry_run,
            Self::Uninstall(args) => !args.dry_run,
            Self::Cleanup(args) => !args.dry_run,
            Self::Pause(args) | Self::Observe(args) | Self::Resume(args) => !args.dry_run,
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
  kubectl get nodes,namespaces,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses,pv,pvc,storageclasses,csidrivers,csinodes -A -o yaml

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

    /// How to print the answer.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// How to search: least-cost (victims and placement chosen together; never worse than the other), or kep5710
    /// (KEP-5710 step by step, with one placement).
    #[arg(long, value_name = "NAME", default_value = Strategy::default().as_str(), value_parser = strategy)]
    pub(crate) strategy: Strategy,

    /// Tables also say how the plan was found and why each victim was chosen.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Decide as the operator does for a critical add-on that kube-scheduler cannot place: by budgets and grace
    /// periods, whatever the priorities. With --for pod/NAME only.
    #[arg(long, requires = "preemptor", conflicts_with_all = ["files", "strategy"])]
    pub(crate) critical: bool,

    /// What makes a pod critical, and what may be done for it.
    #[command(flatten)]
    pub(crate) critical_flags: CriticalFlags,
}

/// What the operator's flags --critical-addons-namespaces and --critical-addons-stranded say.
#[derive(ClapArgs, Debug)]
pub(crate) struct CriticalFlags {
    /// Namespaces of critical add-ons, separated by commas: the operator's --critical-addons-namespaces.
    /// [default: kube-system]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "critical", value_parser = names::label)]
    pub(crate) critical_namespaces: Option<Vec<String>>,

    /// A critical add-on that can run on one node only may displace critical pods of its own priority that fit on
    /// another node: the operator's --critical-addons-stranded.
    #[arg(long, requires = "critical")]
    pub(crate) stranded: bool,
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

Exit status: 0 with an answer; 1 when the cluster cannot be read; 2 when there is no such group or pod.")]
pub(crate) struct WhyArgs {
    /// podgroup/NAME or pod/NAME, or an owner of groups, such as job/NAME.
    #[arg(value_name = "KIND/NAME", value_parser = WhyTarget::parse)]
    pub(crate) target: Option<WhyTarget>,

    /// All namespaces; without a name only.
    #[arg(long, short = 'A', conflicts_with = "target")]
    pub(crate) all_namespaces: bool,
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
    #[arg(long, short, value_enum, default_value_t = CheckFormat::Table)]
    pub(crate) output: CheckFormat,
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
  kubectl giveway adopt priorityclass high
  kubectl giveway adopt priorityclass high batch --dry-run     What would be created; nothing is written.

The preemptionPolicy of a class is immutable, so the class is deleted and created again, with the same value, description,
globalDefault, labels and annotations, with preemptionPolicy Never, and with its own policy in the annotation
scheduling.giveway.dev/preemption-policy. Until it exists again, usually within a second, new pods that name it are rejected;
existing pods are not changed.

The class is first written to the ConfigMap giveway-class-NAME in Giveway's namespace. When this command is interrupted,
the next adopt or release of the class finishes its work, and check reports it.

Exit status: 0 when the classes are managed, also when they were before; 1 when the cluster fails; 2 when there is no such
class, or it belongs to the cluster itself (system-).")]
pub(crate) struct AdoptArgs {
    /// What to adopt.
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: ClassKind,

    /// Names of the classes.
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
  kubectl giveway release priorityclass high
  kubectl giveway release --all                What uninstalling the chart does first.
  kubectl giveway release --taints             What it does as well.

The class gets its preemptionPolicy back from the annotation scheduling.giveway.dev/preemption-policy; it loses this
annotation and scheduling.giveway.dev/managed, and keeps everything else. Where the installation makes every new class a
managed one, it is marked scheduling.giveway.dev/managed: \"false\" instead. It is deleted and created again, as safely as
by `adopt`.

While the operator evicts pods for a critical add-on, it reserves the node with the taint CriticalAddonsOnly=UID:NoSchedule,
with the UID of the add-on, and removes it afterwards. --taints removes the taints that an operator left which does not run
any more: those with the UID of a pod for which a Preemption of the strategy critical-addon exists. It changes no other taint,
also not with this key. It needs the right to get, list and patch nodes, and to list preemptions.

Exit status: as of `adopt`.")]
pub(crate) struct ReleaseArgs {
    /// What to release.
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: Option<ClassKind>,

    /// Names of the classes.
    #[arg(value_name = "NAME", value_parser = names::subdomain)]
    pub(crate) names: Vec<String>,

    /// Every managed class.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,

    /// No class: the operator's taints, from all nodes.
    #[arg(long, conflicts_with_all = ["kind", "names", "all", "giveway_namespace"])]
    pub(crate) taints: bool,

    /// How.
    #[command(flatten)]
    pub(crate) flags: ChangeFlags,

    /// In a Job of the chart.
    #[command(flatten)]
    pub(crate) job: JobFlags,
}

/// Flags of the chart's Jobs.
#[derive(ClapArgs, Clone, Debug, Default)]
pub(crate) struct JobFlags {
    /// ClusterRoleBinding of the account that runs this command, and RoleBinding of the same name in Giveway's namespace. With
    /// it, the command is retried when it fails, and deletes both as its last act, also after a failure. The chart's Jobs
    /// use it.
    #[arg(long, value_name = "NAME", value_parser = names::subdomain, conflicts_with = "dry_run")]
    pub(crate) own_binding: Option<String>,
}

/// Flags of `adopt` and `release`.
#[derive(ClapArgs, Debug)]
pub(crate) struct ChangeFlags {
    /// Print what would be created or removed, and write nothing. Of a class the API server is asked whether it would
    /// accept it.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Namespace in which Giveway is installed: the class is kept in a ConfigMap there while it does not exist.
    #[arg(long, value_name = "NAME", default_value = "giveway-system", value_parser = names::label)]
    pub(crate) giveway_namespace: String,
}

/// Flags of `uninstall`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway uninstall --dry-run          What `helm uninstall` will remove, give back and leave.
  kubectl giveway uninstall                    What it runs last, after the operator was deleted.

From pods: nominations, annotations of Giveway, and with --release-held-pods the gate. Without that flag, gated pods are
listed and stay gated: otherwise gangs would start in parts. From PodGroups: the finalizer. From nodes: taints, as `release
--taints` does. Placeholder pods and ProvisioningRequests of PodGroups are deleted, and in Giveway's namespace the Secrets and
the Lease that the operator created, and the ConfigMap of `pause` and `observe`. Labels of pods and owners belong to their
users, and stay. A running operator would write most of this again, and the chart's policies would reject the changes: so the
command fails while an operator's Deployment has replicas, or its Lease is renewed.

Exit status: 0 when everything is removed; 1 when the cluster fails, an operator runs, or a taint stays because the kind
Preemption is not installed any more, and only its objects show which taints are Giveway's.")]
pub(crate) struct UninstallArgs {
    /// Print what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Also remove the gate of gated pods, so that they start without waiting for the rest of their group.
    #[arg(long)]
    pub(crate) release_held_pods: bool,

    /// Do not ask whether an operator runs. The Job of `helm uninstall` does not: the operator has lost its rights by then.
    #[arg(long)]
    pub(crate) force: bool,

    /// Name of the operator's Lease.
    #[arg(long, value_name = "NAME", default_value = "giveway-operator", value_parser = names::subdomain)]
    pub(crate) lease_name: String,

    /// Namespace in which Giveway is installed.
    #[arg(long, value_name = "NAME", default_value = "giveway-system", value_parser = names::label)]
    pub(crate) giveway_namespace: String,

    /// In a Job of the chart.
    #[command(flatten)]
    pub(crate) job: JobFlags,
}

/// Flags of `cleanup`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway cleanup -n team --dry-run
  kubectl giveway cleanup -n team              After `kubectl delete namespace team`, which does not end.

A PodGroup that has pods has the finalizer scheduling.giveway.dev/pod-group-protection, which the operator removes when the last
of them has ended. While no operator runs, the deletion of such a PodGroup, and that of its namespace, does not end. This command
removes the finalizer from the PodGroups of one namespace that are being deleted and have no pod left. You need the right to
update podgroups/breakglass, which cluster administrators have, and that to list pods. It fails while an operator leads.

Exit status: 0 when no such PodGroup has the finalizer any more; 1 when one has pods that have not ended, an operator leads, or the
cluster fails.")]
pub(crate) struct CleanupArgs {
    /// Print what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Name of the operator's Lease.
    #[arg(long, value_name = "NAME", default_value = "giveway-operator", value_parser = names::subdomain)]
    pub(crate) lease_name: String,

    /// Namespace in which Giveway is installed.
    #[arg(long, value_name = "NAME", default_value = "giveway-system", value_parser = names::label)]
    pub(crate) giveway_namespace: String,
}

/// Flags of `pause`, `observe` and `resume`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway pause            In case of problems: gate no pod, and start no eviction.
  kubectl giveway observe          What would it do? kubectl get preemptions, of the state Observed.
  kubectl giveway resume           As the chart says.

`pause` and `observe` write `mode: off` or `mode: observe` to the ConfigMap giveway-mode in Giveway's namespace, and `resume`
deletes it. The operator applies it within moments, without a restart. Plans with evictions left are cancelled: if some pods
of a PodGroup in mode PodGroup were evicted, its other pods are evicted too, and no other pods are. You need the chart's Role
giveway-switch.

Exit status: 0 when it is written, also when it was so before; 1 when the cluster fails.")]
pub(crate) struct SwitchFlags {
    /// Ask the API server whether it would accept it, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Name of the operator's Lease, which is there too where the operator runs outside of the cluster.
    #[arg(long, value_name = "NAME", default_value = "giveway-operator", value_parser = names::subdomain)]
    pub(crate) lease_name: String,

    /// Namespace in which Giveway is installed.
    #[arg(long, value_name = "NAME", default_value = "giveway-system", value_parser = names::label)]
    pub(crate) giveway_namespace: String,
}

/// What can be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassKind {
    /// A PriorityClass.
    #[value(
        name = "priorityclass",
        aliases = ["priorityclasses", "pc", "priorityclass.scheduling.k8s.io", "priorityclasses.scheduling.k8s.io"]
    )]
    PriorityClass,
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
    fn ours(text: &str) -> Result<(Self, String), String> {
        Self::parse(text, "scheduling.giveway.dev")
    }

    fn theirs(text: &str) -> Result<(Self, String), String> {
        Self::parse(text, "scheduling.k8s.io")
    }

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

    /// Namespace in which Giveway is installed.
    #[arg(long, value_name = "NAME", default_value = "giveway-system", value_parser = names::label)]
    pub(crate) giveway_namespace: String,
}

/// How to print findings, and history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// A table for people.
    Table,
    /// One JSON object.
    Json,
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

    /// Returns the PodGroup that is created for an owner, if its kind has one PodGroup for each object.
    fn of_owner(kind: &str, name: &str) -> Result<Self, String> {
        match row_of(kind) {
            Some(row) if row.has_groups() && row.replica.is_empty() => {
                Ok(Self::Group(giveway_crds::kinds::name::of(name, &[])))
            }
            Some(row) => Err(match row.owner_link {
                OwnerLink::ByChild(child) => {
                    format!("a {} has no pod groups: name the {child} that it makes", row.kind)
                }
                _ => format!("a {} has several pod groups: name one as podgroup/NAME", row.kind),
            }),
            None => Err(format!("unknown kind \"{kind}\": must be podgroup or pod")),
        }
    }

    /// Returns the preemptor of this name in a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Preemptor {
        match self {
            Self::Group(name) => Preemptor::Group(ObjectKey::new(namespace, name)),
            Self::Pod(name) => Preemptor::Pod(ObjectKey::new(namespace, name)),
        }
    }
}

/// Returns the row of a kind in the notation of kubectl: singular or plural, with or without its API group.
fn row_of(text: &str) -> Option<&'static Kind> {
    let lower = text.to_lowercase();
    let named = |row: &&Kind| {
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
    GroupOf(&'static Kind, String),
    /// All PodGroups of an owner of a kind that has several for each object.
    GroupsOf(&'static Kind, String),
}

impl WhyTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let owner = text.split_once('/').filter(|(_, name)| !name.is_empty());
        let has_groups = |row: &&Kind| row.has_groups();
        match owner.and_then(|(kind, name)| Some((row_of(kind).filter(has_groups)?, name))) {
            Some((row, name)) if row.replica.is_empty() => Ok(Self::GroupOf(row, names::subdomain(name)?)),
            Some((row, name)) => Ok(Self::GroupsOf(row, names::subdomain(name)?)),
            None => Target::parse(text).map(Self::One),
        }
    }
}

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
        for command in ["adopt", "release", "pause", "observe", "resume", "cleanup", "uninstall", "check --gang"] {
            assert!(line.contains(&format!("`{command}`")), "{command} is not in: {line}");
        }
    }
}
