//! Whose evictions may have been in vain: what took room or pods away from a preemptor between the first eviction of its last plan
//! and the moment at which all its pods were bound. What is there from the start, what makes room, and what happens elsewhere
//! excuses nobody.

use crate::server::time_of;
use crate::world::World;
use giveway_crds::plan::StoredPlan;
use giveway_tests::audit::promises::Helped;
use giveway_tests::audit::{History, PlanRecord, PodRecord};
use jiff::Timestamp;

/// So long before the first eviction something may have happened that the leader had not heard of, in milliseconds: a watch lags
/// by 8.5 s, and a call is under way for 10 s.
const UNHEARD: i64 = 20_000;

/// From whom something was taken.
#[derive(Clone, Debug)]
pub enum Touch {
    /// From everybody.
    Everybody,
    /// From an owner of pods, whether they wait for room or give it.
    Owner(String),
    /// From whoever is to get a place on this node, or to leave it.
    Node(String),
}

/// Something that happened from outside.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// When, in milliseconds.
    pub at: u64,
    pub touch: Touch,
}

/// What excuses a preemptor, if anything does.
pub fn excuse(world: &World, history: &History, helped: &Helped) -> Option<String> {
    let plan = last_of(history, &helped.plan)?;
    let end = helped.whole.unwrap_or(Timestamp::MAX);
    let from = Timestamp::from_millisecond(helped.first.as_millisecond() - UNHEARD).unwrap_or(helped.first);
    let disturbed = world.disturbed.iter().filter(|it| it.touch.concerns(&plan.plan));
    let mut disturbed = disturbed.filter(|it| (from..=end).contains(&time_of(it.at)));
    if let Some(it) = disturbed.next() {
        return Some(format!("{:?} at {} s", it.touch, it.at / 1_000));
    }
    // Who came after the plan was made, but of whom the leader need not have heard before the first one went.
    let made =
        history.plans.iter().find(|record| record.plan.id == helped.plan).map_or(helped.first, |made| made.asked);
    let during = |at: Timestamp| (made.min(helped.first)..=end).contains(&at);
    overtaken(history, plan, during)
}

/// The plan as it was stored last.
fn last_of<'h>(history: &'h History, plan: &str) -> Option<&'h PlanRecord> {
    history.plans.iter().rev().find(|record| record.plan.id == plan)
}

impl Touch {
    fn concerns(&self, plan: &StoredPlan) -> bool {
        let victims = || plan.victims.iter().flat_map(|unit| &unit.pods);
        match self {
            Self::Everybody => true,
            Self::Owner(owner) => {
                let own = |name: &str| name.strip_prefix(owner.as_str()).is_some_and(|rest| rest.starts_with('-'));
                let preemptor = &plan.preemptor.name;
                preemptor == owner || own(preemptor) || victims().any(|pod| own(&pod.name))
            }
            Self::Node(node) => {
                plan.placements.iter().any(|place| place.node == *node) || victims().any(|pod| pod.node == *node)
            }
        }
    }
}

/// Whether somebody more important came: took the preemptor's own pods, was bound or nominated to one of its places, or had a plan for one.
fn overtaken(history: &History, plan: &PlanRecord, during: impl Fn(Timestamp) -> bool) -> Option<String> {
    let (name, priority) = (&plan.plan.preemptor.name, plan.plan.preemptor.priority);
    let own =
        |uid: &str| history.pods.get(uid).is_some_and(|pod| pod.group.as_ref() == Some(name) || pod.key.1 == *name);
    let place = |node: &str| plan.plan.placements.iter().any(|place| place.node == node);
    let taken = history.evicted().into_iter().find(|removal| during(removal.at) && own(&removal.uid));
    if let Some(removal) = taken {
        return Some(format!("{} was evicted itself", removal.pod.1));
    }
    let binding = history.bindings.iter().find(|binding| {
        let higher = history.effective_priority(&binding.uid).is_some_and(|of| of > priority);
        during(binding.at) && higher && !own(&binding.uid) && place(&binding.node)
    });
    if let Some(binding) = binding {
        return Some(format!("{} was bound to {}", binding.pod.1, binding.node));
    }
    // A plan for which nobody goes is not stored, and holds its places by nominations.
    let nominated = history.nominations.iter().find(|nomination| {
        let of_name = |pod: &PodRecord| pod.key == nomination.pod;
        let uid = history.pods.iter().find(|(_, pod)| of_name(pod)).map_or("", |(uid, _)| uid.as_str());
        let higher = history.effective_priority(uid).is_some_and(|of| of > priority);
        during(nomination.at) && higher && !own(uid) && nomination.node.as_deref().is_some_and(place)
    });
    if let Some(nomination) = nominated {
        return Some(format!(
            "{} was nominated to {}",
            nomination.pod.1,
            nomination.node.as_deref().unwrap_or_default()
        ));
    }
    let higher = history.plans.iter().find(|other| {
        let same = other.plan.placements.iter().any(|other| place(&other.node));
        during(other.at) && other.plan.preemptor.priority > priority && same
    });
    higher.map(|other| format!("plan {} is more important", other.plan.id))
}
