//! Delayed plans (`preemptionDelaySeconds`): no pod is evicted before the delay has passed, which is counted from the first plan, also when
//! the plan is renewed. A delayed plan reserves nothing: its members are not nominated, and a gang of the same or a lower priority starts on
//! free capacity meanwhile.

use super::{Event, World};
use crate::simulation::excuses::Touch;
use crate::simulation::object::{Kind, Pod, number, text};
use crate::simulation::owners::Owner;
use crate::simulation::plot::Turn;
use crate::simulation::scheduler::takes_pods;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_operator::messages::command::{Command, EvictionCause};
use giveway_planner::Preemptor;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// A gang that fits on free capacity starts within this time, in milliseconds.
const SOON: u64 = 6_000;

/// The reservations of a plan that has ended may last for this time, in seconds.
const KEPT: i64 = 15;

/// The delayed plans of a simulation.
#[derive(Default)]
pub struct Delays {
    /// By name of the preemptor.
    plans: BTreeMap<String, Delayed>,
    /// The gangs that began beside a delayed plan and fit on free capacity at that time, with the state of the operator then.
    begun: BTreeMap<usize, Calm>,
    /// The number of plans that replaced a delayed plan.
    pub renewed: usize,
    /// The number of gangs that had to start beside a delayed plan.
    pub meanwhile: usize,
}

/// The last plan of a preemptor, and the delay that is counted from the first one.
struct Delayed {
    plan: String,
    term: String,
    /// Its `plannedAt`, in seconds since the epoch.
    planned_at: Option<i64>,
    /// When it was made, in milliseconds.
    made: u64,
    /// When the first plan was made, in milliseconds: the one after the last plan with an eviction.
    first: u64,
    /// In milliseconds.
    delay: u64,
    /// Number of evictions that were requested for it and not denied.
    evicts: usize,
    /// True if members were nominated without a delayed plan since it was made: they fit on free capacity, so the delay starts again.
    fitted: bool,
}

impl Delayed {
    /// Returns true if the delay is not over at this time. A clock shows whole seconds, and the clocks of two leaders may differ by `skew`
    /// milliseconds.
    fn lasts(&self, now: u64, skew: u64) -> bool {
        now + 1_000 + skew < self.first + self.delay
    }
}

/// The state of the operator while it works without a fault.
#[derive(PartialEq)]
struct Calm {
    /// The term of the leader.
    term: String,
    /// The number of faults until now.
    faults: usize,
}

impl World {
    /// Judges a command of the operator for a preemptor with a delay.
    pub(super) fn judge_delay(&mut self, term: &str, command: &Command) {
        let (now, skew) = (self.now, self.skew_of_leaders());
        match command {
            Command::StorePlan { plan, status, .. } if status.state == PlanState::Planned => {
                self.judge_delayed_plan(term, plan);
                self.judge_needless_plan(plan);
            }
            Command::Nominate { preemptor: Preemptor::Group(group), plan, node: Some(_), .. } => {
                let Some(delayed) = self.delays.plans.get_mut(group.name.as_str()) else { return };
                if delayed.plan != *plan {
                    delayed.fitted = true;
                } else if delayed.lasts(now, skew) {
                    self.broken.push(format!("plan {plan} is delayed and nominates a member of {}", group.name));
                }
            }
            Command::Evict(call) if !call.rehearsal => {
                let EvictionCause::Plan { preemptor: Preemptor::Group(group), id } = &call.cause else { return };
                let known = self.delays.plans.get_mut(group.name.as_str());
                let Some(delayed) = known.filter(|delayed| delayed.plan == *id) else { return };
                delayed.evicts += 1;
                if delayed.lasts(now, skew) {
                    self.broken.push(format!("plan {id} is delayed and evicts {}", call.pod.name));
                }
            }
            _ => {}
        }
    }

    /// Records that an eviction for a plan was denied or withdrawn: it evicted no pod.
    pub(super) fn eviction_not_made(&mut self, cause: &EvictionCause) {
        let EvictionCause::Plan { preemptor: Preemptor::Group(group), id } = cause else { return };
        let known = self.delays.plans.get_mut(group.name.as_str());
        if let Some(delayed) = known.filter(|delayed| delayed.plan == *id) {
            delayed.evicts = delayed.evicts.saturating_sub(1);
        }
    }

    /// Returns the largest difference between the clocks of the leaders, in milliseconds.
    fn skew_of_leaders(&self) -> u64 {
        (self.skew[0] - self.skew[1]).unsigned_abs() * 1_000
    }

    /// Notes a new plan of a preemptor with a delay. If it replaces a delayed plan, its delay must count from the same time.
    fn judge_delayed_plan(&mut self, term: &str, plan: &StoredPlan) {
        let (now, name) = (self.now, &plan.preemptor.name);
        let delay = self.owners.iter().find(|owner| owner.name == *name).map_or(0, |owner| owner.delay * 1_000);
        if delay == 0 || plan.preemptor.kind != "PodGroup" || !plan.cause.is_plan() {
            return;
        }
        let planned_at = plan.planned_at.as_ref().map(|time| time.0.as_second());
        let mut new = Delayed {
            plan: plan.id.clone(),
            term: term.to_owned(),
            planned_at,
            made: now,
            first: now,
            delay,
            evicts: 0,
            fitted: false,
        };
        if let Some(last) = self.delays.plans.get(name) {
            if last.plan == plan.id {
                return;
            }
            if last.evicts == 0 {
                new.first = last.first;
                let mut disturbed = self.disturbed.iter().filter(|it| it.at >= last.made);
                // A gang whose members were deleted is not pending for a moment, and what is known about it is dropped.
                let touched = disturbed.any(|it| matches!(&it.touch, Touch::Owner(owner) if owner == name));
                // The preemptor has one plan at a time, so the last one ended before its delay was over.
                if last.term == term && !last.fitted && !touched && last.lasts(now, 0) {
                    self.delays.renewed += 1;
                    if last.planned_at != planned_at {
                        let (id, before) = (&plan.id, &last.plan);
                        self.broken.push(format!("plan {id} replaces the delayed plan {before} and is delayed again"));
                    }
                }
            }
        }
        self.delays.plans.insert(name.clone(), new);
    }

    /// Begins a gang beside a delayed plan.
    pub(super) fn begin_meanwhile(&mut self, owner: usize) {
        self.turn(&Turn::Begin(owner));
        if self.has_capacity_for(&self.owners[owner])
            && let Some(calm) = self.calm()
        {
            self.delays.begun.insert(owner, calm);
        }
        self.after(SOON, Event::Turn(Turn::Started(owner)));
    }

    /// Judges that a gang has started that fits on free capacity beside a delayed plan.
    pub(super) fn judge_meanwhile(&mut self, owner: usize) {
        if !self.fits_beside_delayed_plans(owner) {
            return;
        }
        self.delays.meanwhile += 1;
        let Owner { name, pods, .. } = &self.owners[owner];
        let members = self.server.list(Kind::Pod).map(|pod| Pod(pod)).filter(|pod| pod.owner() == name);
        let bound = members.filter(|pod| pod.node().is_some()).count();
        if bound < *pods {
            let message = format!("{bound} of {pods} pods of {name} are bound, which fits beside a delayed plan");
            self.broken.push(message);
        }
    }

    /// Judges that no pod is evicted for a gang that fits on free capacity beside a delayed plan.
    fn judge_needless_plan(&mut self, plan: &StoredPlan) {
        let delayed = self.delays.begun.keys().find(|owner| self.owners[**owner].name == plan.preemptor.name);
        if delayed.is_some_and(|owner| self.fits_beside_delayed_plans(*owner)) {
            let (id, name) = (&plan.id, &plan.preemptor.name);
            self.broken.push(format!("plan {id} evicts pods for {name}, which fits beside a delayed plan"));
        }
    }

    /// Returns true if this gang has fitted on free capacity since it began, the operator worked without a fault, and nothing but delayed
    /// plans for preemptors of at least its priority is in flight.
    fn fits_beside_delayed_plans(&self, owner: usize) -> bool {
        let calm = self.delays.begun.get(&owner).is_some_and(|before| self.calm().as_ref() == Some(before));
        let owner = &self.owners[owner];
        calm && !self.others_may_reserve(owner)
            && self.has_capacity_for(owner)
            && self.only_delayed_plans(owner)
            && !self.denials.concern(&owner.name)
    }

    /// Returns the state of the operator; `None` if it cannot be expected to decide at once.
    fn calm(&self) -> Option<Calm> {
        let now = self.now;
        let mut processes = self.replicas.iter().filter_map(|replica| replica.process.as_ref());
        let works = processes.find(|it| it.leads(now) && it.paused_until <= now && it.watches(Kind::Preemption));
        let lags = self.lag.values().any(|until| *until > now);
        if !self.mode.evicts() || lags || !self.cuts.is_empty() {
            return None;
        }
        Some(Calm { term: works?.term.clone(), faults: self.faults.count.values().sum() })
    }

    /// Returns true if a delayed plan is in flight whose preemptor has at least the priority of this owner, and no other plan that may
    /// reserve capacity.
    fn only_delayed_plans(&self, owner: &Owner) -> bool {
        let (now, skew, second) = (self.now, self.skew_of_leaders(), self.server.second());
        let mut delayed = false;
        for plan in self.server.list(Kind::Preemption) {
            let (id, preemptor) = (text(plan, "/metadata/name"), text(plan, "/spec/preemptor/name"));
            let known = self.delays.plans.get(preemptor).filter(|known| known.evicts == 0);
            let finished: Option<Timestamp> = text(plan, "/status/finishedAt").parse().ok();
            if let Some(at) = finished {
                if known.is_none() && second - at.as_second() < KEPT {
                    return false;
                }
            } else if known.is_some_and(|known| known.plan == id && known.lasts(now, skew)) {
                if number(plan, "/spec/preemptor/priority") < i64::from(owner.priority) {
                    return false;
                }
                delayed = true;
            } else if preemptor != owner.name {
                return false;
            }
        }
        delayed
    }

    /// Returns true if a plan that is not stored yet, or has no victims, may reserve capacity: for pending pods of another owner of at least
    /// this priority, of which no delayed plan is known.
    fn others_may_reserve(&self, owner: &Owner) -> bool {
        let others = self.owners.iter().filter(|other| other.name != owner.name && other.priority >= owner.priority);
        others.filter(|other| !self.delays.plans.contains_key(&other.name)).any(|other| {
            let mut pods = self.server.list(Kind::Pod).map(|pod| Pod(pod)).filter(|pod| pod.owner() == other.name);
            pods.any(|pod| !pod.ended() && pod.node().is_none())
        })
    }

    /// Returns true if all pods of an owner fit on free capacity, without the capacity that is set aside by nominations. They have the same
    /// size, so that it is enough to count them on each node.
    fn has_capacity_for(&self, owner: &Owner) -> bool {
        let free = |node: &Value| {
            let name = text(node, "/metadata/name");
            let size: i64 = text(node, "/status/allocatable/cpu").parse().unwrap_or(0);
            let others = self.server.list(Kind::Pod).map(|pod| Pod(pod)).filter(|pod| pod.owner() != owner.name);
            let there = others.filter(|pod| !pod.ended() && pod.node().or(pod.nominated()) == Some(name));
            (size - there.map(Pod::cpus).sum::<i64>()).max(0)
        };
        let nodes = self.server.list(Kind::Node).filter(|node| takes_pods(node));
        nodes.map(|node| free(node) / owner.cpus as i64).sum::<i64>() >= owner.pods as i64
    }
}
