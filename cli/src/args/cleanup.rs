//! Arguments of `cleanup` and its subjects.

use super::JobFlags;
use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `cleanup`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway cleanup all --dry-run            What `helm uninstall` will remove, give back and leave.
  kubectl giveway cleanup taints --dry-run
  kubectl giveway cleanup finalizers -n team       After `kubectl delete namespace team`, which does not end.

Each command removes what an operator left that does not run any more; a running operator removes it itself.")]
pub(crate) struct CleanupArgs {
    /// What to remove.
    #[command(subcommand)]
    pub(crate) subject: CleanupSubject,
}

/// What `cleanup` removes.
#[derive(Debug, Subcommand)]
pub(crate) enum CleanupSubject {
    /// Removes everything that Giveway left on other objects, after the chart was uninstalled; --dry-run shows what an uninstall
    /// removes.
    All(CleanAllArgs),
    /// Removes the taints that the operator left on nodes for critical add-ons.
    Taints(CleanTaintsArgs),
    /// Removes the finalizer from the PodGroups of one namespace that are being deleted, so that their deletion ends.
    Finalizers(CleanFinalizersArgs),
}

impl CleanupSubject {
    /// Returns true if the command changes the cluster.
    pub(crate) fn writes(&self) -> bool {
        !match self {
            Self::All(args) => args.dry_run,
            Self::Taints(args) => args.dry_run,
            Self::Finalizers(args) => args.dry_run,
        }
    }
}

/// Arguments of `cleanup all`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway cleanup all --dry-run        What `helm uninstall` will remove, give back and leave.
  kubectl giveway cleanup all                  What it runs last, after the operator was deleted.

From pods: nominations, annotations of Giveway, and with --ungate-pods the gate. Without that flag, gated pods are
listed and stay gated: otherwise gangs would start in parts. From PodGroups: the finalizer. From nodes: taints, as `cleanup
taints` does. Placeholder pods and ProvisioningRequests of PodGroups are deleted, and in Giveway's namespace the Secrets and
the Lease that the operator created, and the ConfigMap of `mode`. Labels of pods and owners belong to their users, and stay. A
running operator would write most of this again, and the chart's policies would reject the changes: so the command fails while an
operator's Deployment has replicas, or its Lease is renewed.

Exit status: 0 when everything is removed; 1 when the cluster fails, an operator runs, or a taint stays because the kind
Preemption is not installed any more, and only its objects show which taints are Giveway's.")]
pub(crate) struct CleanAllArgs {
    /// Print what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Also remove the gate of gated pods, so that they start without waiting for the rest of their group.
    #[arg(long)]
    pub(crate) ungate_pods: bool,

    /// Do not ask whether an operator runs. The Job of `helm uninstall` does not: the operator has lost its rights by then.
    #[arg(long)]
    pub(crate) force: bool,

    /// Flags that only the Jobs of the chart use.
    #[command(flatten)]
    pub(crate) job: JobFlags,
}

/// Arguments of `cleanup taints`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway cleanup taints --dry-run

While the operator evicts pods for a critical add-on, it reserves the node with the taint CriticalAddonsOnly=UID:NoSchedule,
with the UID of the add-on, and removes it afterwards. This command removes the taints that an operator left which does not run
any more: those with the UID of a pod for which a Preemption of the strategy critical-addon exists. It changes no other taint,
also not with this key. It needs the right to get, list and patch nodes, and to list preemptions.

Exit status: 0 when no such taint is left; 1 when the cluster fails, or a taint stays because the kind Preemption is not installed
any more, and only its objects show which taints are Giveway's.")]
pub(crate) struct CleanTaintsArgs {
    /// Print what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Flags that only the Jobs of the chart use.
    #[command(flatten)]
    pub(crate) job: JobFlags,
}

/// Arguments of `cleanup finalizers`.
#[derive(ClapArgs, Debug)]
#[command(after_help = "\
Examples:
  kubectl giveway cleanup finalizers -n team --dry-run
  kubectl giveway cleanup finalizers -n team       After `kubectl delete namespace team`, which does not end.

A PodGroup that has pods has the finalizer scheduling.giveway.dev/pod-group-protection, which the operator removes when the last
of them has ended. While no operator runs, the deletion of such a PodGroup, and that of its namespace, does not end. This command
removes the finalizer from the PodGroups of one namespace that are being deleted and have no pod left. You need the right to
update podgroups/breakglass, which cluster administrators have, and that to list pods. It fails while an operator leads.

Exit status: 0 when no such PodGroup has the finalizer any more; 1 when one has pods that have not ended, an operator leads, or the
cluster fails.")]
pub(crate) struct CleanFinalizersArgs {
    /// Print what would be removed, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
