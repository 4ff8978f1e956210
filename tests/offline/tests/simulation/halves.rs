//! Partially scheduled gangs: some members are bound, others are pending, and not enough members have been bound since the first one was.
//! The definition is that of the design (section 5, "Partially scheduled gangs") and uses no code of the operator: a gang has some bound
//! members, but fewer than `minCount`, others are pending, and it has not had `minCount` bound members since the oldest of its bound members
//! was bound. The members that have succeeded would reduce the number that it needs, but no pod succeeds here.
//!
//! This module checks the evictions that the operator requests for such gangs against the state of the API server: only after the time limit,
//! and only of pods that existed when the time began. At rest no gang is left in this state.
//!
//! One eviction of another gang is excused. The gang had enough bound members and lost some before a leader began, and nothing stored showed
//! that leader that it had had enough: its status was not written since, and no completed plan placed one of the members that are left.

use crate::simulation::object::{Kind, Pod, number, text};
use crate::simulation::server::Server;
use giveway_crds::condition::types::SCHEDULED;
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
    /// The current runs of the gangs that have had enough bound members.
    had_enough: BTreeMap<String, Run>,
    /// The pods that may be evicted, by UID, with the names of their gangs.
    pub may_go: BTreeMap<String, String>,
    /// The last time at which a gang was partially scheduled, in milliseconds.
    until: BTreeMap<String, u64>,
    /// The pods whose gang became completely bound just before their eviction, by UID.
    pub crossed: BTreeSet<String>,
    /// The number of evicted gangs.
    pub taken_down: usize,
    /// The number of evicted gangs of which the leader could not know that they had had enough bound members.
    pub unknown: usize,
}

/// The current run of a gang that has had enough bound members.
#[derive(Default)]
struct Run {
    /// UIDs of the members that were bound when it last had enough. The run ends when none of them is bound any more.
    members: BTreeSet<String>,
    /// True if the status of the PodGroup has shown it since it had enough.
    is_told: bool,
    /// True if nothing stored showed it to the leader when that began, and the gang had lost members by then.
    is_unknown: bool,
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
                let run = self.had_enough.entry(name.to_owned()).or_default();
                (run.members, run.is_unknown) = (bound().collect(), false);
                run.is_told |= is_scheduled(group);
                continue;
            }
            if let Some(run) = self.had_enough.get_mut(name) {
                run.is_told |= is_scheduled(group);
                if !bound().any(|uid| run.members.contains(&uid)) {
                    self.had_enough.remove(name);
                }
            }
            if members.bound > 0 && members.pending && !self.had_enough.contains_key(name) {
                half.insert(name.to_owned(), members.bound);
            }
        }
        for (group, (_, since, _)) in self.since.iter().filter(|(group, _)| !half.contains_key(*group)) {
            self.until.insert(group.clone(), now);
            // Another plan may evict the bound members while the `Preemption` of the gang is being stored.
            if now - since >= TIMEOUT && !self.had_enough.contains_key(group) {
                self.may_go.extend(members(server, group).map(|pod| (pod.uid().to_owned(), group.clone())));
            }
        }
        self.since.retain(|group, _| half.contains_key(group));
        for (group, bound) in half {
            let known = self.since.entry(group).or_insert((bound, now, now));
            if bound > known.0 {
                (known.1, known.2) = (now, known.1);
            }
            known.0 = bound;
        }
    }

    /// Notes that a leader begins, which knows only what is stored.
    pub fn begin_term(&mut self, server: &Server) {
        for (name, run) in &mut self.had_enough {
            let Some(group) = server.get(Kind::Group, name) else { continue };
            let members = Members::of(server, group);
            run.is_unknown = members.bound < members.needed && !run.is_told && !was_placed(server, name);
        }
    }

    /// Returns the gangs that should have been completed or disrupted already, with the number of their bound members. A gang that was
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
        if self.had_enough.get(group).is_some_and(|run| run.is_unknown) {
            self.unknown += 1;
            self.permit(server, group, uid);
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
        self.permit(server, group, uid);
        None
    }

    /// Permits the evictions of this pod and of the present members.
    fn permit(&mut self, server: &Server, group: &str, uid: &str) {
        self.may_go.insert(uid.to_owned(), group.to_owned());
        self.may_go.extend(members(server, group).map(|pod| (pod.uid().to_owned(), group.to_owned())));
    }
}

/// Returns true if the status of a PodGroup says that it is scheduled.
fn is_scheduled(group: &Value) -> bool {
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let scheduled = |condition: &Value| text(condition, "/type") == SCHEDULED && text(condition, "/status") == "True";
    conditions.into_iter().flatten().any(scheduled)
}

/// Returns true if a completed plan of the gang placed one of its bound members.
fn was_placed(server: &Server, group: &str) -> bool {
    let is_bound = |uid: &str| members(server, group).any(|pod| pod.node().is_some() && pod.uid() == uid);
    let completed = server
        .list(Kind::Preemption)
        .filter(|plan| text(plan, "/status/state") == "Completed" && text(plan, "/spec/preemptor/name") == group);
    let placements = completed.filter_map(|plan| plan["spec"]["placements"].as_array());
    placements.flatten().any(|place| is_bound(text(place, "/uid")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::keys;
    use giveway_tests::audit::{ADMIN, OPERATOR};
    use serde_json::json;

    fn pod(name: &str, node: Option<&str>) -> Value {
        let labels = json!({keys::LABEL_POD_GROUP: "high"});
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
    }

    /// Returns the API server with a gang of two pods, the second of which has this node.
    fn gang(node: Option<&str>) -> (Server, Halves) {
        let (mut server, mut halves) = (Server::default(), Halves::default());
        let gang = json!({"metadata": {"name": "high"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
        server.create(ADMIN, Kind::Group, gang).unwrap();
        for (name, node) in [("high-0", Some("n1")), ("high-1", node)] {
            server.create(ADMIN, Kind::Pod, pod(name, node)).unwrap();
        }
        halves.note(&server, 0);
        (server, halves)
    }

    /// Returns the API server after a gang of two pods was bound, one of them was evicted, and another leader began. `written`: the status
    /// was written. `plan`: the state of the stored plan that placed both pods.
    fn after_a_loss(written: bool, plan: &str) -> (Server, Halves) {
        let (mut server, mut halves) = gang(Some("n1"));
        let uid_of = |name: &str| text(server.get(Kind::Pod, name).unwrap(), "/metadata/uid").to_owned();
        let placements = ["high-0", "high-1"].map(|name| json!({"pod": name, "uid": uid_of(name), "node": "n1"}));
        let plan = json!({"metadata": {"name": "plan"}, "status": {"state": plan},
            "spec": {"preemptor": {"name": "high"}, "placements": placements}});
        server.create(OPERATOR, Kind::Preemption, plan).unwrap();
        if written {
            let scheduled = json!([{"type": "Scheduled", "status": "True"}]);
            server.change(Kind::Group, "high", |group| group["status"] = json!({"conditions": scheduled}));
            halves.note(&server, 0);
        }
        server.remove(Kind::Pod, "high-1");
        server.create(ADMIN, Kind::Pod, pod("high-2", None)).unwrap();
        halves.note(&server, 0);
        halves.begin_term(&server);
        (server, halves)
    }

    #[test]
    fn pending_pods_may_be_evicted_if_the_bound_ones_were_evicted_after_the_time_limit() {
        for (evicted, permitted) in [(TIMEOUT - 1, false), (TIMEOUT, true)] {
            let (mut server, mut halves) = gang(None);
            server.remove(Kind::Pod, "high-0");
            halves.note(&server, evicted);
            let uid = text(server.get(Kind::Pod, "high-1").unwrap(), "/metadata/uid");
            let breach = halves.ask(&server, "high", uid, 2 * TIMEOUT);
            assert_eq!(breach.is_none(), permitted, "after {evicted} ms: {breach:?}");
        }
    }

    #[test]
    fn the_eviction_of_a_gang_that_had_enough_members_is_excused_only_if_nothing_stored_shows_that_to_the_leader() {
        for (written, plan, excused) in
            [(false, "Cancelled", true), (true, "Cancelled", false), (false, "Completed", false)]
        {
            let (server, mut halves) = after_a_loss(written, plan);
            let uid = text(server.get(Kind::Pod, "high-0").unwrap(), "/metadata/uid");
            let breach = halves.ask(&server, "high", uid, 60_000);
            assert_eq!(
                (breach.is_none(), halves.unknown),
                (excused, usize::from(excused)),
                "{written} {plan}: {breach:?}"
            );
        }
    }
}
