//! Removes Giveway's taints from one node. The patch requires the version of the node that was read; on a conflict the
//! node is read again.

use super::own;
use crate::connect::RequestError;
use crate::error::CliError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Maximum number of attempts to patch a node that changes concurrently.
const ATTEMPTS: u32 = 10;

/// API calls for one node.
pub(super) trait NodeClient {
    /// Reads the node `name`; `None` if it does not exist.
    async fn get(&self, name: &str) -> Result<Option<Value>, RequestError>;
    /// Changes the node `name` by a JSON merge patch.
    async fn merge(&self, name: &str, patch: &Value) -> Result<(), RequestError>;
}

/// Removes Giveway's taints from a node: those with one of these UIDs. Returns the removed taints; none if the node does not exist any
/// more.
pub(super) async fn remove_taints(
    nodes: &impl NodeClient,
    node: Value,
    uids: &BTreeSet<String>,
) -> Result<Vec<String>, CliError> {
    let name = own::name(&node).to_owned();
    let failed = |problem: String| CliError::Cluster { what: format!("node/{name}"), problem };
    let mut node = node;
    for _ in 0..ATTEMPTS {
        let Some(split) = own::split(&node, uids) else { return Ok(Vec::new()) };
        match nodes.merge(&name, &patch_to_taints(&node, &split.others)).await {
            Ok(()) => return Ok(split.ours),
            Err(error) if error.code() == Some(404) => return Ok(Vec::new()),
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        match nodes.get(&name).await.map_err(|error| failed(error.to_string()))? {
            Some(now) => node = now,
            None => return Ok(Vec::new()),
        }
    }
    Err(failed(format!(
        "spec.taints: others changed the node between reading and writing it, {ATTEMPTS} times in a row: run `kubectl \
         giveway cleanup taints` again"
    )))
}

/// Returns the merge patch that leaves only the taints `others` on the node, and fails if the node has changed since it was read.
fn patch_to_taints(node: &Value, others: &[Value]) -> Value {
    let taints = if others.is_empty() { Value::Null } else { json!(others) };
    let metadata = &node["metadata"];
    json!({
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        "spec": {"taints": taints}
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use std::cell::RefCell;

    const UID: &str = "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7b";

    /// A node that is changed `rivals` times between the read and the write.
    struct Busy {
        rivals: u32,
        node: RefCell<Option<Value>>,
        patches: RefCell<Vec<Value>>,
        version: RefCell<u32>,
    }

    fn node(version: u32, ours: bool) -> Value {
        let mut taints = vec![json!({"key": "CriticalAddonsOnly", "effect": "NoSchedule", "version": version})];
        if ours {
            taints.push(json!({"key": "CriticalAddonsOnly", "value": UID, "effect": "NoSchedule"}));
        }
        let metadata = json!({"name": "n", "uid": "u", "resourceVersion": version.to_string(), "labels": {"a": "b"}});
        json!({"metadata": metadata, "spec": {"taints": taints, "unschedulable": true}})
    }

    impl Busy {
        fn new(rivals: u32) -> Self {
            let node = RefCell::new(Some(node(1, true)));
            Self { rivals, node, patches: RefCell::default(), version: RefCell::new(1) }
        }

        async fn clear(&self) -> Result<Vec<String>, CliError> {
            remove_taints(self, node(1, true), &BTreeSet::from([UID.to_owned()])).await
        }
    }

    fn refused(code: u16) -> RequestError {
        RequestError::Refused(Box::new(Status { code, message: format!("code {code}"), ..Status::default() }))
    }

    impl NodeClient for Busy {
        async fn get(&self, _: &str) -> Result<Option<Value>, RequestError> {
            Ok(self.node.borrow().clone())
        }

        async fn merge(&self, _: &str, patch: &Value) -> Result<(), RequestError> {
            self.patches.borrow_mut().push(patch.clone());
            let mut version = self.version.borrow_mut();
            if *version > self.rivals {
                return Ok(());
            }
            *version += 1;
            let mut current = self.node.borrow_mut();
            if current.is_some() {
                *current = Some(node(*version, true));
            }
            Err(refused(409))
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_node_that_was_changed_meanwhile_is_read_again_and_what_was_changed_stays() {
        let busy = Busy::new(2);
        assert_eq!(run(busy.clear()).unwrap(), [format!("CriticalAddonsOnly={UID}:NoSchedule")]);
        let last = json!({
            "metadata": {"uid": "u", "resourceVersion": "3"},
            "spec": {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule", "version": 3}]}
        });
        assert_eq!(busy.patches.borrow().len(), 3);
        assert_eq!(busy.patches.borrow().last(), Some(&last));
    }

    #[test]
    fn the_last_taint_takes_the_list_with_it() {
        let mut alone = node(1, true);
        alone["spec"]["taints"].as_array_mut().unwrap().remove(0);
        assert_eq!(patch_to_taints(&alone, &[])["spec"], json!({"taints": null}));
    }

    #[test]
    fn the_attempts_are_bounded_and_a_deleted_node_has_no_taint() {
        let said = run(Busy::new(100).clear()).unwrap_err().to_string();
        let words = "node/n: spec.taints: others changed the node between reading and writing it, 10 times in a row: run `kubectl giveway cleanup taints` again";
        assert_eq!(said, words);
        let deleted = Busy::new(1);
        *deleted.node.borrow_mut() = None;
        assert_eq!(run(deleted.clear()).unwrap(), Vec::<String>::new());
        // Another client removed the taint.
        let done = Busy::new(0);
        let uids = BTreeSet::from([UID.to_owned()]);
        assert_eq!(run(remove_taints(&done, node(1, false), &uids)).unwrap(), Vec::<String>::new());
        assert_eq!(done.patches.borrow().len(), 0, "a node without a taint of Giveway's is not written");
    }
}
