//! The manifests of `examples/`: applied as their readers apply them, and what becomes of their pods.

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

/// The deadline of a wait. A Job takes its time after pods that failed.
const LIMIT: Duration = Duration::from_secs(120);

/// An example whose pods are gangs.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its file in `examples/`.
    pub file: &'static str,
    /// Selects the members of its gangs.
    pub selector: &'static str,
    /// How many gangs it has.
    pub groups: usize,
    /// Pods of each, of 1 CPU.
    pub size: usize,
}

impl Example {
    /// How many members its gangs have together.
    pub fn pods(&self) -> usize {
        self.groups * self.size
    }

    /// The path of its file.
    pub fn path(&self) -> String {
        path(self.file)
    }

    /// Fills a cluster that is as large as this example with less important gangs and applies it: it ends bound, in the place of
    /// whole gangs. `check` sees it there. Then a more important gang comes: one gang of the example goes whole and the others
    /// stay, and all of them run again when that gang has gone.
    ///
    /// # Panics
    /// It does not.
    pub async fn preempts_and_is_preempted(&self, world: &World, check: impl AsyncFn(&World)) {
        world.class("background", 10).managed().create().await;
        world.class("urgent", 5000).managed().create().await;
        // A little more than the gangs need, for pods that are no members.
        let nodes = world.nodes(self.groups).resource("cpu", &format!("{}500m", self.size)).create().await;
        world.fill(&nodes).prefix("filler").priority("background").whole().groups_of(self.size).await;
        let before = world.audit().await;
        world.kubectl(&["apply", "-f", &self.path()]).await.unwrap();
        wait_bound(world, self.selector, self.pods()).await;
        let now = world.audit().await;
        let gone = evicted_by_group(&now, &before);
        assert_eq!(gone.len(), self.groups, "as many gangs as it needs the place of: {gone:?}");
        let whole = gone.iter().all(|(group, count)| group.starts_with("filler-") && *count == self.size);
        assert!(whole, "every one of them whole: {gone:?}");
        check(world).await;
        let members = members(world, self.selector).await;
        let urgent = world.gang("urgent", 2).priority("urgent").create().await;
        urgent.wait_bound(LIMIT).await;
        // Some of a gang may be deleted by its own controller, which makes the whole anew when one pod has gone.
        let after = world.audit().await;
        let is_gone = |uid: &String| after.pods.get(uid).is_some_and(|pod| pod.removed.is_some());
        let gone = members.iter().map(|(group, uids)| (group.as_str(), uids.iter().filter(|uid| is_gone(uid)).count()));
        let gone: BTreeMap<&str, usize> = gone.filter(|(_, count)| *count > 0).collect();
        assert_eq!(gone.values().copied().collect::<Vec<_>>(), [self.size], "one gang of the example, whole: {gone:?}");
        let evicted = evicted_by_group(&after, &now);
        assert!(evicted.keys().eq(gone.keys()), "Giveway evicted no other: {evicted:?}");
        for pod in &urgent.pods {
            pod.delete().await;
        }
        urgent.delete().await;
        wait_bound(world, self.selector, self.pods()).await;
    }
}

/// The UIDs of the live members of each group.
async fn members(world: &World, selector: &str) -> BTreeMap<String, Vec<String>> {
    let pods = world.kit().api::<Pod>().list(&ListParams::default().labels(selector)).await.unwrap();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let group = pod.labels().get(LABEL_POD_GROUP).cloned().expect("it is a member");
        groups.entry(group).or_default().extend(pod.uid());
    }
    groups
}

/// The path of a file in `examples/`.
pub fn path(file: &str) -> String {
    paths::repository().join("examples").join(file).display().to_string()
}

/// How many pods of each group Giveway has evicted since then.
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

/// Waits until exactly so many live pods with this label have a node.
///
/// # Panics
/// The time is up.
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
/// The time is up.
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
