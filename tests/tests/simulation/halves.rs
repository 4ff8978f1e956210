//! Gangs that are bound by half: some members have a node, and others are free to get one and have none. Who goes without a plan
//! because of that is counted here, by what the API server knows: only after the time, and only who was there when it began.

use crate::object::{Kind, Pod, number, text};
use crate::server::Server;
use giveway_crds::condition::Reason;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// For how long a gang has to be bound by half before it is taken down, in milliseconds.
pub const TIMEOUT: u64 = 20_000;

/// So long an eviction is on its way when nothing goes wrong, and so long the leader has not heard of a binding, in milliseconds.
const UNDER_WAY: u64 = 500;

/// The gangs that are bound by half.
#[derive(Default)]
pub struct Halves {
    /// How many members have a node, and since when, in milliseconds.
    since: BTreeMap<String, (usize, u64)>,
    /// The pods that may go because their gangs were bound by half for long enough, by UID, with the names of these.
    pub may_go: BTreeMap<String, String>,
    /// When a gang was bound by half for the last time, in milliseconds.
    until: BTreeMap<String, u64>,
    /// Those of them whose gang had become whole a moment before they were asked to go, by UID.
    pub crossed: BTreeSet<String>,
    /// How often a gang was taken down.
    pub taken_down: usize,
}

impl Halves {
    /// Notes what became of the pods.
    pub fn note(&mut self, server: &Server, now: u64) {
        let half: BTreeMap<String, usize> = server.list(Kind::Group).filter_map(|group| half(server, group)).collect();
        let over = self.since.keys().filter(|group| !half.contains_key(*group));
        self.until.extend(over.map(|group| (group.clone(), now)));
        self.since.retain(|group, _| half.contains_key(group));
        for (group, bound) in half {
            let known = self.since.entry(group).or_insert((bound, now));
            if bound > known.0 {
                known.1 = now;
            }
            known.0 = bound;
        }
    }

    /// A pod of this group is about to be evicted without a plan. Returns what is wrong with that.
    pub fn ask(&mut self, server: &Server, group: &str, uid: &str, now: u64) -> Option<String> {
        let told = server.get(Kind::Group, group).is_some_and(|group| is_told(group));
        let just_now = self.until.get(group).is_some_and(|until| now - until < UNDER_WAY);
        if told && just_now && !self.since.contains_key(group) {
            self.crossed.insert(uid.to_owned());
        }
        if !told || self.may_go.contains_key(uid) {
            return None;
        }
        let since = self.since.get(group).map(|(_, since)| now - since);
        if since.is_none_or(|since| since < TIMEOUT) {
            return Some(format!("group {group} is taken down, although it is bound by half for {since:?} ms only"));
        }
        self.taken_down += 1;
        self.may_go.extend(members(server, group).map(|pod| (pod.uid().to_owned(), group.to_owned())));
        None
    }
}

/// Whether a group says that it goes because it is bound by half.
fn is_told(group: &Value) -> bool {
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let target = conditions.into_iter().flatten().find(|it| text(it, "/type") == "DisruptionTarget");
    target.is_some_and(|it| text(it, "/status") == "True" && text(it, "/reason") == Reason::HalfBound.as_str())
}

fn members<'s>(server: &'s Server, group: &'s str) -> impl Iterator<Item = Pod<'s>> {
    let pods = server.list(Kind::Pod).map(|pod| Pod(pod));
    pods.filter(move |pod| pod.group() == Some(group) && pod.live())
}

/// The name of a group of which some members have a node and others wait for one, and how many have.
fn half(server: &Server, group: &Value) -> Option<(String, usize)> {
    let name = text(group, "/metadata/name");
    let needed = number(group, "/spec/schedulingPolicy/gang/minCount") as usize;
    let bound = members(server, name).filter(|pod| pod.node().is_some()).count();
    let waits = members(server, name).any(|pod| pod.node().is_none() && !pod.gated());
    (0 < bound && bound < needed && waits).then(|| (name.to_owned(), bound))
}
