//! Denials: other people's admission rejects calls of the operator for a while or for ever, with every code. A denial that includes dry runs
//! is known before the first eviction, so no pod is evicted for a preemptor that it affects.

use super::World;
use crate::simulation::calls::{Reply, error};
use crate::simulation::excuses::Touch;
use crate::simulation::object::{Kind, Pod, text};
use crate::simulation::plot::Turn;
use crate::simulation::replica::Call;
use crate::simulation::server::refusal;
use giveway_operator::messages::command::{Command, EvictCall, EvictionCause};
use giveway_tests::random::Random;
use serde_json::Value;
use std::collections::BTreeMap;

/// HTTP codes of a webhook's denial.
const CODES: [u16; 9] = [400, 401, 403, 404, 409, 422, 429, 500, 503];

/// For this time after the beginning of a denial, a plan may have been rehearsed before it, in milliseconds: rehearsal, storing and
/// evictions may each be late.
const REHEARSED: u64 = 20_000;

/// For this time after a denial a victim is left out, in milliseconds.
const LEFT_OUT: u64 = 600_000;

/// The calls that a denial rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Evictions of an owner's pods.
    Evictions,
    /// The removal of the gates of an owner's pods.
    Gates,
    /// Nominations of an owner's pods. Withdrawals are admitted, so that nothing is left behind for ever.
    Nominations,
    /// Creations of `Preemption` objects.
    Plans,
    /// Later writes of the status of `Preemption` objects.
    PlanStatuses,
    /// Writes of the status of an owner's group.
    Statuses,
}

/// A denial, as the plot has it.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    pub target: Target,
    /// Number of the owner.
    pub owner: usize,
    pub code: u16,
    /// True if dry runs are denied, too.
    pub rehearsed: bool,
    /// Number of evictions that are admitted before the first one is denied, if dry runs are not denied.
    pub admits: usize,
    /// True if only some of the owner's pods are concerned.
    pub some: bool,
    /// For how long, in milliseconds; `None` for ever.
    pub time: Option<u64>,
}

impl Denial {
    /// Returns a denial of calls about one of this number of owners.
    fn new(random: &mut Random, owners: usize) -> Self {
        let all = [Target::Evictions, Target::Evictions, Target::Gates, Target::Gates, Target::Nominations];
        let mut target = all[random.below(all.len())];
        if random.percent(20) {
            target = [Target::Plans, Target::PlanStatuses, Target::Statuses][random.below(3)];
        }
        let of_objects = matches!(target, Target::Plans | Target::PlanStatuses | Target::Statuses);
        let for_ever = random.percent(40) && !of_objects;
        let rehearsed = target != Target::Evictions || random.percent(75);
        Self {
            target,
            owner: random.below(owners),
            code: CODES[random.below(CODES.len())],
            rehearsed,
            admits: if rehearsed { 0 } else { random.below(3) },
            some: target == Target::Evictions && random.percent(30),
            time: (!for_ever).then(|| 1_000 + random.below(45_000) as u64),
        }
    }
}

/// A denial in force.
struct Rule {
    target: Target,
    owner: String,
    code: u16,
    rehearsed: bool,
    /// Number of calls that are still admitted.
    admits: usize,
    some: bool,
    from: u64,
    until: u64,
}

impl Rule {
    fn holds(&self, now: u64) -> bool {
        (self.from..self.until).contains(&now)
    }

    fn names(&self, pod: &str) -> bool {
        is_of(&self.owner, pod) && (!self.some || pod.bytes().next_back().is_some_and(|last| last % 2 == 0))
    }
}

/// The denials of a simulation.
#[derive(Default)]
pub struct Denials {
    rules: Vec<Rule>,
    /// The pods whose eviction was denied, by UID, with the time of the last denial.
    victims: BTreeMap<String, u64>,
    /// The time of the first accepted eviction of each plan.
    begun: BTreeMap<String, u64>,
    /// The number of denied calls.
    pub count: usize,
}

/// Returns the denials of a simulation, in one of three, with their times in milliseconds.
pub fn turns(random: &mut Random, owners: usize) -> Vec<(u64, Turn)> {
    if random.percent(67) {
        return Vec::new();
    }
    let turn = |random: &mut Random| {
        let denial = Denial::new(random, owners);
        // Some begin before every plan, others between a rehearsal and its evictions.
        let at = if random.percent(40) { 10_000 } else { 15_000 + random.below(20_000) as u64 };
        (at, Turn::Deny(denial))
    };
    (0..1 + random.below(3)).map(|_| turn(random)).collect()
}

/// Returns true if a pod, or the preemptor of a plan, belongs to this owner.
fn is_of(owner: &str, name: &str) -> bool {
    name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

impl Denials {
    /// Returns the denial that rejects this call.
    fn rule_for(&mut self, call: &Call, now: u64) -> Option<&mut Rule> {
        let matches = |rule: &&mut Rule| match (&call.command, rule.target) {
            (Command::Evict(eviction), Target::Evictions) => {
                // The other calls of an eviction read, mark or delete the pod.
                let evicts = eviction.rehearsal || call.step == 1;
                evicts && (rule.rehearsed || !eviction.rehearsal) && rule.names(&eviction.pod.name)
            }
            (Command::Ungate { pod, .. }, Target::Gates)
            | (Command::Nominate { pod, node: Some(_), .. }, Target::Nominations) => rule.names(&pod.name),
            (Command::StorePlan { .. }, Target::Plans) | (Command::WritePlan { .. }, Target::PlanStatuses) => true,
            (Command::WriteGroupStatus { group, .. }, Target::Statuses) => group.name.as_str() == rule.owner,
            _ => false,
        };
        self.rules.iter_mut().filter(|rule| rule.holds(now)).find(matches)
    }

    /// Returns true if the eviction of this pod was denied so recently that the pod is left out, or is denied.
    pub fn keep(&self, uid: &str, name: &str, now: u64) -> bool {
        let recent = self.victims.get(uid).is_some_and(|at| now < at + LEFT_OUT);
        recent || self.rules.iter().any(|rule| rule.target == Target::Evictions && rule.holds(now) && rule.names(name))
    }

    /// Returns the denials of the gates and the nominations of this preemptor.
    fn about_members_of(&self, preemptor: &str) -> impl Iterator<Item = &Rule> {
        let rules = self.rules.iter().filter(|rule| matches!(rule.target, Target::Gates | Target::Nominations));
        rules.filter(move |rule| rule.names(preemptor))
    }

    /// Returns true if the gates or the nominations of this preemptor are denied, or were.
    pub fn concern(&self, preemptor: &str) -> bool {
        self.about_members_of(preemptor).next().is_some()
    }

    /// Returns true if the gates or the nominations of this preemptor are denied.
    pub fn hold_back(&self, preemptor: &str, now: u64) -> bool {
        self.about_members_of(preemptor).any(|rule| rule.holds(now))
    }

    /// Returns the owners some of whose pods may have been evicted while the evictions of others were denied, with the beginning.
    pub fn split(&self) -> impl Iterator<Item = (&str, u64)> {
        let evictions = self.rules.iter().filter(|rule| rule.target == Target::Evictions);
        evictions.map(|rule| (rule.owner.as_str(), rule.from))
    }
}

impl World {
    /// Begins a denial.
    pub(super) fn deny(&mut self, denial: Denial) {
        let Denial { target, owner, code, rehearsed, admits, some, time } = denial;
        let until = time.map_or(u64::MAX, |time| self.now + time);
        let owner = self.owners[owner].name.clone();
        // What was rehearsed before is rejected after all.
        let is_for_all = matches!(target, Target::Plans | Target::PlanStatuses);
        self.disturb(if is_for_all { Touch::Everybody } else { Touch::Owner(owner.clone()) });
        self.denials.rules.push(Rule { target, owner, code, rehearsed, admits, some, from: self.now, until });
    }

    /// Returns the answer to a call that admission rejects.
    pub(super) fn denied(&mut self, call: &Call) -> Option<Reply> {
        let rule = self.denials.rule_for(call, self.now)?;
        if rule.admits > 0 {
            rule.admits -= 1;
            return None;
        }
        let (code, owner, rehearsed) = (rule.code, rule.owner.clone(), rule.rehearsed);
        self.denials.count += 1;
        if let Command::Evict(eviction) = &call.command {
            if !eviction.rehearsal {
                self.eviction_not_made(&eviction.cause);
            }
            self.denials.victims.insert(eviction.uid.to_string(), self.now);
            if !rehearsed {
                // No rehearsal shows it, so other pods may have been evicted before.
                self.disturb(Touch::Owner(owner));
            }
        }
        let words = "admission webhook \"deny.example.com\" denied the request: not today";
        Some(Reply::Failed(error(refusal(code, words))))
    }

    /// No pod is evicted for a plan whose rehearsal was rejected.
    pub(super) fn judge_denial(&mut self, eviction: &EvictCall) {
        let EvictionCause::Plan { id, .. } = &eviction.cause else { return };
        let now = self.now;
        let began = *self.denials.begun.entry(id.clone()).or_insert(now);
        let Some(plan) = self.server.get(Kind::Preemption, id) else { return };
        let preemptor = text(plan, "/spec/preemptor/name");
        let placed = plan.pointer("/spec/placements").and_then(Value::as_array).into_iter().flatten();
        let pods =
            placed.filter_map(|place| Some((self.server.get(Kind::Pod, text(place, "/pod"))?, text(place, "/node"))));
        let pods: Vec<_> = pods.collect();
        let has_gates = pods.iter().any(|(pod, _)| Pod(pod).gated());
        // A nomination that was made before the denial stays.
        let lacks_nomination = pods.iter().any(|(pod, node)| Pod(pod).nominated() != Some(*node));
        let known = |rule: &&Rule| {
            let rehearsed = match rule.target {
                Target::Gates => has_gates,
                target => target == Target::Nominations && lacks_nomination,
            };
            rehearsed && rule.names(preemptor) && rule.from + REHEARSED < began && began < rule.until
        };
        if let Some(rule) = self.denials.rules.iter().find(known) {
            let message =
                format!("{} was evicted for {preemptor}, whose {:?} are denied", eviction.pod.name, rule.target);
            self.broken.push(message);
        }
    }
}
