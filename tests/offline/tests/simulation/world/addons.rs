//! Critical add-ons: their pods have the priority of critical pods, and the operator evicts pods for them. They tolerate no taint, so that a
//! node is set aside for them by a nomination only.

use super::World;
use crate::simulation::object::Kind;
use giveway_crds::critical;
use giveway_tests::audit::ADMIN;
use serde_json::json;

impl World {
    /// Creates a critical add-on.
    pub(super) fn add_on(&mut self, cpus: usize) {
        let name = format!("addon-{}", self.now);
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpus.to_string()}}}]);
        let spec = json!({"priority": critical::PRIORITY, "preemptionPolicy": "Never",
            "schedulerName": "default-scheduler", "containers": containers});
        let metadata = json!({"name": name, "labels": {"app": "addon"}});
        let pod = json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": []}});
        drop(self.server.create(ADMIN, Kind::Pod, pod));
    }
}
