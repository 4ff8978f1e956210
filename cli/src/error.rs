//! Errors. Every message about input names the file and, if there is one, the object, field and value.

use crate::nesting::DEEPEST;
use giveway_planner::{ModelError, Preemptor};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{file}: cannot be read: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: is neither JSON nor YAML: {problem}")]
    Syntax { file: String, problem: String },
    #[error("{file}: is nested too deeply: at most {DEEPEST} levels are read")]
    TooDeep { file: String },
    #[error(
        "{file}: kind: Invalid value: \"{kind}\": must be a v1 List, as `kubectl giveway snapshot` writes it, or `kubectl get nodes,namespaces,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses,pv,pvc,storageclasses,csidrivers,csinodes,runtimeclasses -A -o yaml` prints it"
    )]
    NotAList { file: String, kind: String },
    #[error("{file}: {place}: {field}: Required value: every object has one")]
    NotAnObject { file: String, place: String, field: &'static str },
    #[error("{file}: {kind} {object}: {field}: {problem}")]
    Object { file: String, kind: String, object: String, field: String, problem: String },
    #[error("{file}: {source}")]
    Model { file: String, source: Box<ModelError> },
    #[error("{file}: {preemptor} is not in it")]
    NoPreemptor { file: String, preemptor: Preemptor },
    #[error("the argument '--critical' cannot be used with '--for podgroup/{0}': a critical add-on is a pod")]
    CriticalGroup(String),
    #[error(
        "the argument '--filename -' cannot be used with '--snapshot -': standard input can be read only once: save the manifests or the snapshot to a file, and name that file"
    )]
    StandardInputTwice,
    #[error("{file}: {why}")]
    NotCritical { file: String, why: String },
    #[error("{preemptor} does not exist, and no event or plan that is kept mentions it")]
    Unknown { preemptor: Preemptor },
    #[error(
        "{files}: there is nothing to plan for: it has no pod and no object with a pod template (spec.template); found {found}"
    )]
    NoTemplate { files: String, found: String },
    #[error(
        "the argument '--members' needs files with exactly one pod template, of an object with one PodGroup at most: {files}: found {found}"
    )]
    NotOneTemplate { files: String, found: String },
    #[error(
        "{file}: {kind} {object}: metadata.namespace: Invalid value: \"{namespace}\": does not match the namespace \"{flag}\" of the flag -n"
    )]
    OtherNamespace { file: String, kind: String, object: String, namespace: String, flag: String },
    #[error("{file}: {kind} {object}: {problem}")]
    Refused { file: String, kind: String, object: String, problem: String },
    #[error("{0}: use '--yes' where standard input is not a terminal")]
    NoConfirmation(&'static str),
    #[error("the mode was not changed, because the answer was not yes")]
    NotConfirmed,
    #[error("{0}")]
    NoSuchObject(String),
    #[error("{0}")]
    UnknownClass(String),
    #[error(
        "PriorityClass {0}: a class whose name starts with system- cannot be managed, because the cluster's own components depend on how kube-scheduler preempts for it"
    )]
    SystemClass(String),
    #[error("PriorityClass {class}: {problem}")]
    Class { class: String, problem: String },
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("{what}: {problem}")]
    Cluster { what: String, problem: String },
    #[error("the page cannot be served: {0}")]
    Page(String),
    #[error(
        "nothing was removed, because Giveway still runs: {0}. It would put back what is removed from pods, groups and nodes, and what `kubectl giveway mode` wrote would be undone: uninstall the chart first, or let this happen all the same with '--force'"
    )]
    StillRuns(String),
    #[error(
        "nothing was removed, because an operator runs: {0}. It removes the finalizer of a PodGroup when the last pod of it has ended: `kubectl get pods -l scheduling.giveway.dev/pod-group` shows which have not"
    )]
    OperatorLeads(String),
    #[error("{file}: cannot be written: {source}")]
    Write { file: String, source: std::io::Error },
}

impl CliError {
    /// Returns the exit status of the command: 2 for invalid input, 1 for everything else.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Kubeconfig(_)
            | Self::Cluster { .. }
            | Self::Page(_)
            | Self::StillRuns(_)
            | Self::OperatorLeads(_)
            | Self::NotConfirmed
            | Self::Class { .. }
            | Self::Write { .. } => 1,
            _ => 2,
        }
    }

    /// Returns true if standard output could not be written because its reader closed the pipe, as `head` does.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Creates the error that standard output could not be written, because of `source`.
    pub(crate) fn stdout(source: std::io::Error) -> Self {
        Self::Write { file: "standard output".to_owned(), source }
    }
}
