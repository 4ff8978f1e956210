//! The summary in the status of workloads.

use super::Housekeeping;
use crate::command::Command;
use crate::ledger::Clock;
use crate::model::Model;
use crate::status;
use giveway_planner::model::ObjectKey;
use kube::ResourceExt;

impl Housekeeping {
    /// Writes it when it differs from what is there.
    pub(super) fn summarize(&mut self, model: &Model, workload: ObjectKey, clock: Clock) -> Option<Command> {
        let record = model.workloads.get(&workload)?;
        let wanted = status::workload_status(model, &workload, clock.time());
        if record.object.status.as_ref() == Some(&wanted) {
            return None;
        }
        self.again_workloads.insert(workload.clone());
        let due = self.calls.start(format!("status of workload {workload}"), clock.now);
        let uid = record.object.uid().unwrap_or_default().into();
        due.then(|| Command::WriteWorkloadStatus { workload, uid, status: Box::new(wanted) })
    }
}
