//! Partially scheduled gangs: some members are bound, others are pending, and not enough members have been bound since the first one was.
//! The definition is that of the design (section 5, "Partially scheduled gangs") and uses no code of the operator: a gang has some bound
//! members, but fewer than `minCount`, others are pending, and it has not had `minCount` bound members since the oldest of its bound members
//! was bound. The members that have succeeded would reduce the number that it needs, but no pod succeeds here.
//!
//! This module checks the evictions that the operator requests for such gangs against the state of the API server: only after the time limit,
//! and only of pods that existed when the time began. At rest no gang is left in this state.

use crate::simulation::object::{Kind, Pod, number, text};
use crate::simulation::server::Server;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A gang is evicted after it was partially scheduled for this time, in milliseconds.
pub const TIMEOUT: u64 = 20_000;

/// The longest transit time of an eviction, and of the observation of a binding, without a fault, in milliseconds.
const UNDER_WAY: u64 = 500;

/// The partially scheduled gangs of a simulation.
#[derive(Default)]
pub struct Halves {
    /// The number of bound members, and the times of the last binding and the one before in milliseconds.
    since: BTreeMap<String, (usize, u64, u64)>,
    /// The gangs that had enough bound members, with the UIDs of these members: a gang's current run ends when none of them is bound any
    /// more.
    had_enough: BTreeMap<String, BTreeSet<String>>,
    /// The pods that may be evicted, by UID, with the names of their gangs.
    pub may_go: BTreeMap<String, String>,
    /// The last time at which a gang was partially scheduled, in milliseconds.
    until: BTreeMap<String, u64>,
    /// The pods whose gang became completely bound just before their eviction, by UID.
    pub crossed: BTreeSet<String>,
    /// The number of evicted gangs.
    pub taken_down: usize,
}

impl Halves {
    /// Updates the state of the gangs after a write.
    pub fn note(&mut self, server: &Server, now: u64) {
        let mut half: BTreeMap<String, usize> = BTreeMap::new();
        for group in server.list(Kind::Group) {
            let (name, members) = (name(group), Members::of(server, group));
            let bound =
                || self::members(server, name).filter(|pod| pod.node().is_some()).map(|pod| pod.uid().to_owned());
            if members.bound > 0 && members.bound >= members.needed {
                self.had_enough.insert(name.to_owned(), bound().collect());
                continue;
            }
            if self.had_enough.get(name).is_some_and(|known| !bound().any(|uid| known.contains(&uid))) {
                self.had_enough.remove(name);
            }
            if members.bound > 0 && members.pending && !self.had_enough.contains_key(name) {
                half.insert(name.to_owned(), members.bound);
            }
        }
        let over = self.since.keys().filter(|group| !half.contains_key(*group));
        self.until.extend(over.map(|group| (group.clone(), now)));
        self.since.retain(|group, _| half.contains_key(group));
        for (group, bound) in half {
            let known = self.since.entry(group).or_insert((bound, now, now));
            if bound > known.0 {
                (known.1, known.2) = (now, known.1);
            }
            known.0 = bound;
        }
    }

    /// Returns the gangs that should have been completed or disrupted by now, with the number of their bound members. A gang that was
    /// partially scheduled just before the world came to rest has still time.
    pub fn overdue(&self, now: u64) -> impl Iterator<Item = (&str, usize)> {
        let late = self.since.iter().filter(move |(_, (_, since, _))| now - since >= 2 * TIMEOUT);
        late.map(|(group, (bound, ..))| (group.as_str(), *bound))
    }

    /// Checks an eviction of a pod of this PodGroup that is requested because the gang is partially scheduled. Returns a message if the
    /// eviction is not permitted.
    pub fn ask(&mut self, server: &Server, group: &str, uid: &str, now: u64) -> Option<String> {
        let just_now = self.until.get(group).is_some_and(|until| now - until < UNDER_WAY);
        if just_now && !self.since.contains_key(group) {
            self.crossed.insert(uid.to_owned());
            self.may_go.insert(uid.to_owned(), group.to_owned());
        }
        if self.may_go.contains_key(uid) {
            return None;
        }
        // An eviction may be in transit when another member is bound.
        let since = self.since.get(group).map(
            |(_, since, before)| {
                if now - since < UNDER_WAY { now - before } else { now - since }
            },
        );
        if since.is_none_or(|since| since < TIMEOUT) {
            return Some(format!(
                "PodGroup {group} is evicted although it was partially scheduled for {since:?} ms only"
            ));
        }
        self.taken_down += 1;
        self.may_go.insert(uid.to_owned(), group.to_owned());
        self.may_go.extend(members(server, group).map(|pod| (pod.uid().to_owned(), group.to_owned())));
        None
    }
}

fn members<'s>(server: &'s Server, group: &'s str) -> impl Iterator<Item = Pod<'s>> {
    let pods = server.list(Kind::Pod).map(|pod| Pod(pod));
    pods.filter(move |pod| pod.group() == Some(group) && pod.live())
}

fn name(group: &Value) -> &str {
    text(group, "/metadata/name")
}

/// The members of a gang.
struct Members {
    bound: usize,
    needed: usize,
    pending: bool,
}

impl Members {
    fn of(server: &Server, group: &Value) -> Self {
        let live = || members(server, name(group));
        Self {
            bound: live().filter(|pod| pod.node().is_some()).count(),
            needed: number(group, "/spec/schedulingPolicy/gang/minCount") as usize,
            pending: live().any(|pod| pod.node().is_none()),
        }
    }
}
