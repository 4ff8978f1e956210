//! Why a request has no answer.

use crate::error::CliError;
use http::StatusCode;
use serde::Serialize;

/// Why a request of the page has no answer: an HTTP status and a sentence.
#[derive(Debug)]
pub(super) struct PageError {
    /// Status of the response.
    pub(super) status: StatusCode,
    /// The sentence.
    pub(super) message: String,
}

impl PageError {
    /// Creates the error of a request of the page: its HTTP status, and the sentence that the page shows.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl From<CliError> for PageError {
    /// Returns the status 422 for invalid input, and 502 for an error of the cluster, with the error's message.
    fn from(error: CliError) -> Self {
        let status = if error.exit_status() == 2 { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_GATEWAY };
        Self::new(status, error.to_string())
    }
}

/// Encodes a value as JSON for the body of a response.
pub(super) fn json(value: &impl Serialize) -> Result<Vec<u8>, PageError> {
    serde_json::to_vec(value).map_err(|error| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
