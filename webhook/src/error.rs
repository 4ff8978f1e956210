//! What can keep the webhook from starting, or its certificate from being used.

use std::path::PathBuf;

/// Errors of this crate. Refused requests are not errors but [verdicts](giveway_admission::verdict).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate or key file cannot be read.
    #[error("{}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What should be PEM holds no usable block.
    #[error("{place}: {message}")]
    Pem {
        /// The file, or the key of a Secret.
        place: String,
        /// What is missing or wrong.
        message: String,
    },
    /// The certificate and the key are unusable, or do not belong together.
    #[error("the certificate and the key cannot be used together: {0}")]
    KeyPair(rustls::Error),
    /// The TLS library refuses its configuration.
    #[error("TLS configuration: {0}")]
    Tls(rustls::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address from the command line.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A task ended that runs as long as the process does.
    #[error("a task has ended that must not: {name}: {reason}")]
    TaskEnded {
        /// What it did.
        name: &'static str,
        /// Why it ended.
        reason: String,
    },
}
