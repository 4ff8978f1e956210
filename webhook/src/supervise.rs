//! Tasks that run as long as the process.
//!
//! Guarantee: a task that returns or panics ends the process with an error that names it. A webhook without one of its
//! watches, or with a certificate that is not renewed, would answer wrongly and appear healthy.

use crate::error::Error;
use std::collections::HashMap;
use std::future::Future;
use tokio::task::{Id, JoinError, JoinSet};

/// The tasks of the process. They are aborted when this is dropped.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    /// Starts a task that must run as long as the process. `name` names it in the error if it ends.
    pub fn start(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits until one of the tasks ends, and returns an error with its name and the reason. Without tasks it waits forever.
    pub async fn first_to_end(&mut self) -> Error {
        match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => self.error(id, "it returned".to_owned()),
            Some(Err(error)) => self.error(error.id(), reason(error)),
            None => std::future::pending().await,
        }
    }

    /// Returns the error which says that the task with this ID has ended, with its name and this reason.
    fn error(&self, id: Id, reason: String) -> Error {
        Error::TaskEnded { name: self.names.get(&id).copied().unwrap_or_default(), reason }
    }
}

/// Returns the reason why a task ended with this error: the text of its panic, or that it was cancelled.
fn reason(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.as_deref().unwrap_or("no reason is known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_that_ends_is_reported_with_the_reason() {
        let mut tasks = Tasks::default();
        tasks.start("the watch of nothing", std::future::pending());
        tasks.start("the certificate", async {});
        assert_eq!(
            tasks.first_to_end().await.to_string(),
            "a task has ended that must not: the certificate: it returned"
        );
        tasks.start("the notices", async { panic!("on purpose, {}", 5) });
        let error = tasks.first_to_end().await.to_string();
        assert_eq!(error, "a task has ended that must not: the notices: it panicked: on purpose, 5");
    }
}
