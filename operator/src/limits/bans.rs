//! What is not tried again for a while, because it failed: evictions that were rejected, and placements that kube-scheduler does not bind.
//! Pure: the caller passes the time, as wall-clock time, because bans outlast the leader that learned them.
//!
//! A ban of an eviction is about one pod, for every preemptor. It ends after ten minutes, or when the `Preemption` that has it is deleted. A
//! refusal by a PodDisruptionBudget is not a ban, because a budget changes by itself.
//!
//! A ban of a placement is about one pod, or about all pods that a controller makes from one version of its template: the replacement of a
//! pod that cannot be bound cannot be bound either. It is about one node, and about every node after a second one. It ends after an hour,
//! or earlier when a pod of the controller is bound there by a plan, when the template changes (its hash is another one then), or when an
//! administrator deletes the `Preemption` that has it.

use giveway_crds::ban::{BanType, BannedController, LONGEST_MESSAGE, StoredBan};
use giveway_crds::brief::first_characters;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;

/// How long a placement is banned, in seconds.
const PLACEMENT: i64 = 3_600;
/// How long a pod is not evicted after its eviction was rejected, in seconds.
const EVICTION: i64 = 600;
/// Number of nodes on which the pods of a template are banned from which on they are banned on every node.
const NODES: usize = 2;
/// Maximum number of bans of each type. Those that end first are dropped.
const MOST: usize = 10_000;

/// The pods that a ban is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BanSubject {
    /// One pod without a controller.
    Pod {
        /// Its namespace.
        namespace: SmolStr,
        /// Its UID.
        uid: SmolStr,
    },
    /// The pods of a controller with the same template.
    Template {
        /// Namespace of the controller.
        namespace: SmolStr,
        /// The controller and its template.
        controller: BannedController,
    },
}

impl BanSubject {
    /// Returns the pods that a stored ban is about; `None` if it names neither a pod nor a controller.
    fn of(stored: &StoredBan) -> Option<Self> {
        let namespace = SmolStr::new(&stored.namespace);
        match (&stored.controller, &stored.pod_uid) {
            (Some(controller), _) => Some(Self::Template { namespace, controller: controller.clone() }),
            (None, Some(uid)) => Some(Self::Pod { namespace, uid: SmolStr::new(uid) }),
            (None, None) => None,
        }
    }

    /// Returns true if `self` and `other` are the same pod, or pods of the same controller, even of different versions of its template.
    fn has_the_controller_of(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Template { namespace, controller },
                Self::Template { namespace: other_namespace, controller: other },
            ) => (namespace, &controller.kind, &controller.name) == (other_namespace, &other.kind, &other.name),
            _ => self == other,
        }
    }
}

/// A decision that is not repeated for some time, because the API server or kube-scheduler rejected it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it ends, in seconds since the epoch.
    pub until: i64,
    /// Why, as a sentence.
    pub why: String,
    /// Name of the plan that learned it.
    plan: SmolStr,
}

/// All bans that have not ended: of placements of pods on nodes, and of evictions of pods.
#[derive(Debug, Default)]
pub struct Bans {
    /// By pods and node; `None` for every node.
    placements: BTreeMap<(BanSubject, Option<SmolStr>), Ban>,
    /// By UID and name of the pod that is not evicted.
    evictions: BTreeMap<(SmolStr, ObjectKey), Ban>,
}

impl Bans {
    /// Returns the number of bans: of placements and of evictions.
    pub fn len(&self) -> usize {
        self.placements.len() + self.evictions.len()
    }

    /// Returns true if there is no ban of a placement or an eviction.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bans placing the pods `subject` on `node` for an hour from `second` on, and on every node if they are banned from another node
    /// already. `why` is the reason as a sentence, `plan` the name of the plan that failed because of it, `second` the time since the
    /// epoch. Returns the bans in the form in which the `Preemption` stores them.
    pub fn ban_placement(
        &mut self,
        subject: BanSubject,
        node: &str,
        why: &str,
        plan: &str,
        second: i64,
    ) -> Vec<StoredBan> {
        let ban = Ban { until: second.saturating_add(PLACEMENT), why: shortened(why), plan: plan.into() };
        let mut nodes = vec![Some(SmolStr::new(node))];
        insert(&mut self.placements, (subject.clone(), Some(SmolStr::new(node))), ban.clone());
        if self.of(&subject).filter(|(node, _)| node.is_some()).count() >= NODES {
            insert(&mut self.placements, (subject.clone(), None), ban.clone());
            nodes.push(None);
        }
        nodes.iter().map(|node| stored(BanType::Placement, &subject, node.as_deref(), &ban)).collect()
    }

    /// Bans the eviction of the pod with this UID for ten minutes from `second` on. `why` is the reason as a sentence, `plan` the name of
    /// the plan whose eviction was rejected, `second` the time since the epoch. Returns the ban in the form in which the `Preemption`
    /// stores it.
    pub fn ban_eviction(&mut self, pod: &ObjectKey, uid: &str, why: &str, plan: &str, second: i64) -> StoredBan {
        let ban = Ban { until: second.saturating_add(EVICTION), why: shortened(why), plan: plan.into() };
        insert(&mut self.evictions, (uid.into(), pod.clone()), ban.clone());
        let subject = BanSubject::Pod { namespace: pod.namespace.clone(), uid: uid.into() };
        stored(BanType::Eviction, &subject, None, &ban)
    }

    /// Adds the bans that the `Preemption` named `plan` stores, without those that have ended at `second`, the time since the epoch.
    /// `named` returns the name of the pod with a UID; `None` if it does not exist, then a ban of its eviction is left out.
    pub fn restore(&mut self, plan: &str, bans: &[StoredBan], second: i64, named: impl Fn(&str) -> Option<ObjectKey>) {
        for known in bans {
            let until = known.until.0.as_second();
            if until <= second {
                continue;
            }
            let ban = Ban { until, why: known.message.clone(), plan: plan.into() };
            match (BanType::parse(&known.type_), BanSubject::of(known)) {
                (Some(BanType::Placement), Some(subject)) => {
                    insert(&mut self.placements, (subject, known.node.as_deref().map(SmolStr::new)), ban);
                }
                (Some(BanType::Eviction), Some(BanSubject::Pod { uid, .. })) => {
                    if let Some(pod) = named(&uid) {
                        insert(&mut self.evictions, (uid, pod), ban);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the bans of placements of these pods, each with its node; `None` stands for every node.
    fn of(&self, subject: &BanSubject) -> impl Iterator<Item = (Option<&SmolStr>, &Ban)> {
        let all = self.placements.range((subject.clone(), None)..);
        let subject = subject.clone();
        all.take_while(move |((of, _), _)| *of == subject).map(|((_, node), ban)| (node.as_ref(), ban))
    }

    /// Returns the ban that forbids placing these pods on `node`, which may be one for every node; `None` if they may be placed there.
    pub fn on(&self, subject: &BanSubject, node: &str) -> Option<&Ban> {
        self.everywhere(subject).or_else(|| self.placements.get(&(subject.clone(), Some(node.into()))))
    }

    /// Returns the ban that forbids placing these pods on every node; `None` if there is none.
    pub fn everywhere(&self, subject: &BanSubject) -> Option<&Ban> {
        self.placements.get(&(subject.clone(), None))
    }

    /// Returns the single nodes on which these pods must not be placed, with the ban of each. A ban on every node is not among them.
    pub fn nodes(&self, subject: &BanSubject) -> impl Iterator<Item = (&SmolStr, &Ban)> {
        self.of(subject).filter_map(|(node, ban)| Some((node?, ban)))
    }

    /// Returns the UIDs of the pods whose eviction is banned, so that plans must not have them as victims.
    pub fn victims(&self) -> impl Iterator<Item = &SmolStr> {
        self.evictions.keys().map(|(uid, _)| uid)
    }

    /// Returns the pods whose eviction is banned, with the UID and the ban of each.
    pub fn evictions(&self) -> impl Iterator<Item = (&ObjectKey, &SmolStr, &Ban)> {
        self.evictions.iter().map(|((uid, pod), ban)| (pod, uid, ban))
    }

    /// Returns true if there is no ban of a placement. There may be bans of evictions.
    pub fn has_no_placement(&self) -> bool {
        self.placements.is_empty()
    }

    /// Ends the bans of placements on `node`, and on every node, of the pods of the same controller as `subject`, because one of them was
    /// bound to `node`. Returns true if there were any.
    pub fn bound(&mut self, subject: &BanSubject, node: &str) -> bool {
        let before = self.len();
        self.placements.retain(|(of, on), _| !is_obsolete(of, on.as_deref(), subject, node));
        self.len() < before
    }

    /// Ends the bans that were added because of the plan of this name, whose `Preemption` was deleted. Returns true if there were any.
    pub fn lift(&mut self, plan: &str) -> bool {
        self.retain(|ban| ban.plan != plan)
    }

    /// Removes the bans that have ended at `second`, the time since the epoch. Returns true if there were any.
    pub fn expire(&mut self, second: i64) -> bool {
        self.retain(|ban| ban.until > second)
    }

    /// Removes the bans for which `stays` returns false. Returns true if there were any.
    fn retain(&mut self, stays: impl Fn(&Ban) -> bool) -> bool {
        let before = self.len();
        self.placements.retain(|_, ban| stays(ban));
        self.evictions.retain(|_, ban| stays(ban));
        self.len() < before
    }
}

/// Returns true if a pod of `subject` that is bound to `node` ends a ban of the pods `of` on the node `on`; `on` is `None` for a ban on
/// every node.
fn is_obsolete(of: &BanSubject, on: Option<&str>, subject: &BanSubject, node: &str) -> bool {
    on.is_none_or(|on| on == node) && of.has_the_controller_of(subject)
}

/// Returns true if a stored ban of a placement has not ended at `second`, the time since the epoch, and ends when a pod of `subject` is
/// bound to `node`.
pub fn ends_when_bound(ban: &StoredBan, subject: &BanSubject, node: &str, second: i64) -> bool {
    let lasts = BanType::parse(&ban.type_) == Some(BanType::Placement) && ban.until.0.as_second() > second;
    lasts && BanSubject::of(ban).is_some_and(|of| is_obsolete(&of, ban.node.as_deref(), subject, node))
}

/// Adds a ban. One with the same key that ends later is kept instead. Of more than [`MOST`] bans the one that ends first is removed.
fn insert<K: Ord + Clone>(bans: &mut BTreeMap<K, Ban>, key: K, ban: Ban) {
    if bans.get(&key).is_some_and(|known| known.until > ban.until) {
        return;
    }
    bans.insert(key, ban);
    if bans.len() > MOST
        && let Some(first) = bans.iter().min_by_key(|(_, ban)| ban.until).map(|(key, _)| key.clone())
    {
        bans.remove(&first);
    }
}

/// Returns the reason of a ban, cut to the length that is stored.
fn shortened(why: &str) -> String {
    first_characters(why, LONGEST_MESSAGE).to_owned()
}

/// Converts a ban to the form in which a `Preemption` stores it. `node` is `None` for a ban on every node, and for a ban of an eviction.
fn stored(type_: BanType, subject: &BanSubject, node: Option<&str>, ban: &Ban) -> StoredBan {
    let (namespace, pod_uid, controller) = match subject {
        BanSubject::Pod { namespace, uid } => (namespace, Some(uid.to_string()), None),
        BanSubject::Template { namespace, controller } => (namespace, None, Some(controller.clone())),
    };
    StoredBan {
        type_: type_.as_str().to_owned(),
        namespace: namespace.to_string(),
        pod_uid,
        controller,
        node: node.map(str::to_owned),
        until: Time(Timestamp::from_second(ban.until).unwrap_or_default()),
        message: ban.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> BanSubject {
        BanSubject::Pod { namespace: "default".into(), uid: uid.into() }
    }

    fn template(hash: &str) -> BanSubject {
        let controller = BannedController { kind: "Job".into(), name: "train".into(), template_hash: hash.into() };
        BanSubject::Template { namespace: "default".into(), controller }
    }

    fn nodes(bans: &Bans, subject: &BanSubject) -> Vec<String> {
        bans.nodes(subject).map(|(node, _)| node.to_string()).collect()
    }

    #[test]
    fn a_placement_is_banned_for_an_hour_and_after_a_second_node_on_every_node() {
        let mut bans = Bans::default();
        let first = bans.ban_placement(template("a"), "n1", "Rejected.", "p-1", 100);
        assert_eq!(first.iter().map(|ban| ban.node.as_deref()).collect::<Vec<_>>(), [Some("n1")]);
        assert_eq!(bans.on(&template("a"), "n1").map(|ban| (ban.until, ban.why.as_str())), Some((3_700, "Rejected.")));
        assert_eq!(bans.on(&template("a"), "n2"), None);
        assert_eq!(bans.on(&template("b"), "n1"), None, "the template was changed");
        bans.ban_placement(template("a"), "n1", "Rejected.", "p-2", 200);
        assert_eq!(bans.everywhere(&template("a")), None, "the same node again");
        let second = bans.ban_placement(template("a"), "n2", "Rejected.", "p-3", 300);
        assert_eq!(second.iter().map(|ban| ban.node.as_deref()).collect::<Vec<_>>(), [Some("n2"), None]);
        assert!(bans.on(&template("a"), "n3").is_some());
        assert_eq!(nodes(&bans, &template("a")), ["n1", "n2"]);
        assert!(!bans.expire(3_799));
        assert!(bans.expire(3_800));
        assert_eq!(nodes(&bans, &template("a")), ["n2"]);
        assert!(bans.everywhere(&template("a")).is_some());
        assert!(bans.expire(3_900) && bans.is_empty());
    }

    #[test]
    fn a_new_leader_restores_bans_that_have_not_ended() {
        let mut bans = Bans::default();
        let mut stored = bans.ban_placement(pod("u"), "n1", "Rejected.", "p-1", 100);
        stored.extend(bans.ban_placement(pod("u"), "n2", "Rejected again.", "p-1", 200));
        let victim = ObjectKey::new("default", "victim");
        stored.push(bans.ban_eviction(&victim, "v", "Denied.", "p-1", 100));
        let named = |uid: &str| (uid == "v").then(|| victim.clone());
        let written: Vec<StoredBan> = serde_json::from_value(serde_json::to_value(&stored).unwrap()).unwrap();
        let mut next = Bans::default();
        next.restore("p-1", &written, 300, named);
        assert_eq!((next.placements.clone(), next.evictions.clone()), (bans.placements, bans.evictions));
        let mut without_pod = Bans::default();
        without_pod.restore("p-1", &written, 300, |_| None);
        assert_eq!(
            (without_pod.victims().count(), nodes(&without_pod, &pod("u")).len()),
            (0, 2),
            "the victim was deleted"
        );
        let mut late = Bans::default();
        late.restore("p-1", &written, 3_700, named);
        assert_eq!(nodes(&late, &pod("u")), ["n2"]);
        assert_eq!(late.victims().count(), 0);
        let unknown = StoredBan { type_: "Later".into(), ..written[0].clone() };
        late.restore("p-2", &[unknown], 0, named);
        assert_eq!(late.len(), 2, "this version does not know its type");
    }

    #[test]
    fn what_shows_that_a_ban_is_obsolete_lifts_it() {
        let mut bans = Bans::default();
        for node in ["n1", "n2"] {
            bans.ban_placement(template("a"), node, "Rejected.", "p-1", 0);
        }
        let stored = bans.ban_placement(pod("u"), "n1", "Rejected.", "p-2", 0);
        let ends = |subject: &BanSubject, node: &str, second| ends_when_bound(&stored[0], subject, node, second);
        assert!(ends(&pod("u"), "n1", 3_599));
        assert!(!ends(&pod("u"), "n1", 3_600) && !ends(&pod("u"), "n2", 0) && !ends(&pod("v"), "n1", 0));
        assert!(bans.bound(&template("b"), "n3"), "a pod of the controller was bound");
        assert_eq!(bans.everywhere(&template("a")), None);
        assert_eq!(nodes(&bans, &template("a")), ["n1", "n2"]);
        assert!(bans.bound(&template("b"), "n1"));
        assert_eq!(nodes(&bans, &template("a")), ["n2"]);
        assert!(!bans.lift("p-3"));
        assert!(bans.lift("p-1") && bans.on(&template("a"), "n2").is_none());
        assert!(bans.on(&pod("u"), "n1").is_some());
    }

    #[test]
    fn their_number_is_bounded_and_those_that_end_first_are_dropped() {
        let mut bans = Bans::default();
        for second in 0..=i64::try_from(MOST).unwrap() {
            bans.ban_placement(pod(&format!("u{second}")), "n1", &"x".repeat(5_000), "p", second);
        }
        assert_eq!(bans.len(), MOST);
        assert_eq!(bans.on(&pod("u0"), "n1"), None);
        assert_eq!(bans.on(&pod("u1"), "n1").map(|ban| ban.why.len()), Some(LONGEST_MESSAGE));
    }
}
