//! The status of Workloads, which summarizes their PodGroups.

use super::Housekeeping;
use crate::clock::Clock;
use crate::messages::command::Command;
use crate::model::Model;
use crate::status;
use giveway_planner::model::ObjectKey;
use kube::ResourceExt;
use std::time::Duration;

/// Minimum interval between two summaries of a Workload, because it may have thousands of PodGroups.
pub(super) const EVERY: Duration = Duration::from_secs(1);

impl Housekeeping {
    /// Returns the call that writes the status of a Workload. `None` if the status does not change, if it was computed less than a second
    /// ago (then a later pass computes it again), or if a call is in flight.
    pub(super) fn summarize(&mut self, model: &Model, workload: ObjectKey, clock: Clock) -> Option<Command> {
        let object = model.workloads.get(&workload)?;
        if self.summarized.contains_key(&workload) {
            self.again_workloads.insert(workload);
            return None;
        }
        self.summarized.insert(workload.clone(), clock.now);
        let wanted = status::workload_status(model, &workload, clock.time());
        if object.status.as_ref() == Some(&wanted) {
            return None;
        }
        self.again_workloads.insert(workload.clone());
        let uid = object.uid().unwrap_or_default().into();
        let write = Command::WriteWorkloadStatus { workload, uid, status: Box::new(wanted) };
        self.calls.start(write, clock.now)
    }
}
