//! The manifests of `examples/`, applied as users apply them, and functions that wait for their pods.

use crate::audit::History;
use crate::cluster::Shaped;
use crate::paths;
use crate::wait::wait_for;
use crate::world::World;
use giveway_crds::keys::LABEL_POD_GROUP;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Deadline of every wait. The Job controller delays the recreation of failed pods.
const LIMIT: Duration = Duration::from_secs(120);

/// An example whose pods are gangs.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its file in `examples/`.
    pub file: &'static str,
    /// Label selector of the members of its gangs.
    pub selector: &'static str,
    /// Number of its gangs.
    pub groups: usize,
    /// Number of pods of each gang. Each pod requests 1 CPU.
    pub size: usize,
}

impl Example {
    /// Returns the number of members of all its gangs.
    pub fn pods(&self) -> usize {
        self.groups * self.size
    }

    /// Returns the path of its file.
    pub fn path(&self) -> String {
        path(self.file)
    }

    /// Fills a cluster of the size of this example with gangs of lower priority, applies the example, waits until it is bound and
    /// calls `check`. Then creates a gang of higher priority, for which one gang of the example is evicted completely and no
    /// other, and checks that all gangs of the example are bound again after that gang was deleted.
    ///
    /// # Panics
    /// If one of these steps fails.
    pub async fn preempts_and_is_preempted(&self, world: &World, check: impl AsyncFn(&World)) {
        world.class("background", 10).managed().create().await;
        world.class("urgent", 5000).managed().create().await;
        // Half a CPU more per gang, for pods that are not members.
        let nodes = world.nodes(self.groups).resource("cpu", &format!("{}500m", self.size)).create().await;
        world.fill(&nodes).prefix("filler").priority("background").whole().groups_of(self.size).await;
        let before = world.audit().await;
        world.kubectl(&["apply", "-f", &self.path()]).await.unwrap();
        wait_bound(world, self.selector, self.pods()).await;
        let now = world.audit().await;
        let evicted = evicted_by_group(&now, &before);
        assert_eq!(evicted.len(), self.groups, "one gang is evicted for each gang of the example: {evicted:?}");
        let whole = evicted.iter().all(|(group, count)| group.starts_with("filler-") && *count == self.size);
        assert!(whole, "each of them is evicted completely: {evicted:?}");
        check(world).await;
        let members = members(world, self.selector).await;
        let urgent = world.gang("urgent", 2).priority("urgent").create().await;
        urgent.wait_bound(LIMIT).await;
        // Some members may be deleted by their own controller, which recreates the whole gang when one pod is removed.
        let after = world.audit().await;
        let is_removed = |uid: &String| after.pods.get(uid).is_some_and(|pod| pod.removed.is_some());
        let removed =
            members.iter().map(|(group, uids)| (group.as_str(), uids.iter().filter(|uid| is_removed(uid)).count()));
        let removed: BTreeMap<&str, usize> = removed.filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            removed.values().copied().collect::<Vec<_>>(),
            [self.size],
            "one gang of the example is removed completely: {removed:?}"
        );
        let evicted = evicted_by_group(&after, &now);
        assert!(evicted.keys().eq(removed.keys()), "Giveway evicted pods of another gang: {evicted:?}");
        for pod in &urgent.pods {
            pod.delete().await;
        }
        urgent.delete().await;
        wait_bound(world, self.selector, self.pods()).await;
    }
}

/// Returns the UIDs of the live members of each group.
async fn members(world: &World, selector: &str) -> BTreeMap<String, Vec<String>> {
    let pods = world.kit().api::<Pod>().list(&ListParams::default().labels(selector)).await.unwrap();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let group = pod.labels().get(LABEL_POD_GROUP).cloned().expect("the pod has a group label");
        groups.entry(group).or_default().extend(pod.uid());
    }
    groups
}

/// Returns the path of a file in `examples/`.
pub fn path(file: &str) -> String {
    paths::repository().join("examples").join(file).display().to_string()
}

/// Returns the number of pods of each group that Giveway has evicted between the two histories.
pub fn evicted_by_group(now: &History, before: &History) -> BTreeMap<String, usize> {
    let earlier: BTreeSet<&str> = before.evicted().into_iter().map(|removal| removal.uid.as_str()).collect();
    let mut groups = BTreeMap::new();
    let uids: BTreeSet<&str> = now.evicted().into_iter().map(|removal| removal.uid.as_str()).collect();
    for uid in uids.difference(&earlier) {
        let group = now.pods.get(*uid).and_then(|pod| pod.group.clone());
        *groups.entry(group.unwrap_or_else(|| "none".to_owned())).or_default() += 1;
    }
    groups
}

/// Waits until exactly `count` live pods match the selector and all of them are bound.
///
/// # Panics
/// If the deadline has passed.
pub async fn wait_bound(world: &World, selector: &str, count: usize) {
    wait_for(&format!("{count} pods with {selector} are bound"), LIMIT, async || {
        let path =
            "jsonpath={range .items[*]}{.metadata.name}={.spec.nodeName} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
        let text = world.kubectl(&["get", "pods", "-l", selector, "-o", path]).await?;
        let live: Vec<&str> = text.lines().filter(|line| line.ends_with(' ')).collect();
        let bound = live.iter().filter(|line| !line.contains("= ")).count();
        if (bound, live.len()) == (count, count) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// Waits until a group has this `minCount` and this owner, as `KIND/NAME`.
///
/// # Panics
/// If the deadline has passed.
pub async fn wait_group(world: &World, name: &str, min_count: usize, owner: &str) {
    let wanted = format!("{min_count} {owner}");
    wait_for(&format!("group {name} is {wanted}"), LIMIT, async || {
        let reference = "{.metadata.ownerReferences[0]";
        let path = format!("jsonpath={{.spec.schedulingPolicy.gang.minCount}} {reference}.kind}}/{reference}.name}}");
        let text = world.kubectl(&["get", "gpg", name, "-o", &path]).await?;
        if text == wanted { Ok(()) } else { Err(text) }
    })
    .await;
}
