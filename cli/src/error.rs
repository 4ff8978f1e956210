//! What can be wrong with the input. Every message names the file, and the object, field and value where there is one.

use giveway_planner::{ModelError, Preemptor};

/// An input that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{file}: cannot be read: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: is neither JSON nor YAML: {problem}")]
    Syntax { file: String, problem: String },
    #[error(
        "{file}: kind: Invalid value: \"{kind}\": must be a v1 List, as `kubectl get nodes,pods,podgroups.scheduling.giveway.dev,poddisruptionbudgets,priorityclasses -A -o yaml` prints it"
    )]
    NotAList { file: String, kind: String },
    #[error("{file}: items[{index}]: {field}: Required value: every object has one")]
    NotAnObject { file: String, index: usize, field: &'static str },
    #[error("{file}: {kind} {object}: {field}: {problem}")]
    Object { file: String, kind: String, object: String, field: String, problem: String },
    #[error("{file}: {source}")]
    Model { file: String, source: Box<ModelError> },
    #[error("{file}: {preemptor} is not in it")]
    NoPreemptor { file: String, preemptor: Preemptor },
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}
