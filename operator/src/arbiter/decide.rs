//! Decisions: passes each pending preemptor to the planner, in order, and stores, reports or carries out the decision.

use super::Arbiter;
use super::plan::stored_form;
use crate::clock::Clock;
use crate::departures::plan_store::Record;
use crate::messages::command::Command;
use crate::observability::metrics::catalogue;
use crate::plans::{self, Flight, RejectedCall};
use crate::status::{self, WaitReason};
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::plan::{StoredPlan, StoredPreemptor};
use giveway_crds::wording::conditions::pending;
use giveway_crds::wording::conditions::pod_group::{self, ExistingMembers};
use giveway_planner::Shortfall;
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::{Context, Decision, Placement, Plan, Preemptor, SmolStr, UnitKind, Unknown, Victim};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After this time the scheduling gate is removed again from members that were ungated without a placement and are still gated.
const UNGATE_AGAIN: Duration = Duration::from_secs(5);

/// Returns a unique name for a `Preemption`: the last 8 characters of `term` (the identity of the leading process, new at every start), `-`
/// and a number. Increments `made`, the number of names that were made in this term.
pub(super) fn next_id(made: &mut u64, term: &str) -> String {
    *made += 1;
    let suffix: String = term.chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{suffix}-{made}")
}

impl Arbiter {
    /// Decides, with the planner, for each pending preemptor whose turn it is in this pass, and applies the decisions.
    pub(super) fn decide(&mut self, clock: Clock) {
        let start = Instant::now();
        self.store_observed_later(clock.now);
        self.preemption.candidates.note(&self.model, &self.statuses.dirty);
        if !self.preemption.round.begin(clock.now, self.model.arrivals) {
            return;
        }
        let (candidates, schedulers) = (&mut self.preemption.candidates, &self.config.scheduler_names);
        let order = candidates.preemptors(&self.model, &self.plans.flights, schedulers);
        let critical: Vec<Preemptor> = self.critical_addons.queue.preemptors().collect();
        let present: BTreeSet<&Preemptor> = order.iter().chain(&critical).collect();
        let is_present = |preemptor: &Preemptor| present.contains(preemptor) || self.plans.flights.contains(preemptor);
        self.preemption.waiting.retain(|preemptor, waiting| {
            let waits = is_present(preemptor) || waiting.not_before.is_some_and(|until| until > clock.now);
            if !waits && waiting.wait_reason.take().is_some() {
                // The status of the PodGroup still shows the old reason.
                self.statuses.touch(preemptor);
            }
            // While kube-scheduler tries to schedule the preemptor, it is not in our queue. What is remembered about it is kept meanwhile.
            waits || (waiting.remembers(clock.now) && self.model.uid_of(preemptor).is_some())
        });
        self.preemption.observed.retain(is_present);
        let mut in_flight = None;
        for preemptor in order {
            match self.obstacle(&preemptor, clock) {
                None => self.decide_one(&preemptor, &mut in_flight, start, clock),
                Some((wait_reason, again)) => {
                    if wait_reason.is_some() {
                        self.set_wait_reason(&preemptor, wait_reason, clock.now);
                    }
                    if again {
                        self.preemption.waiting.entry(preemptor).or_default().seen = None;
                    }
                }
            }
        }
        self.preemption.round.end(clock.now, start.elapsed());
    }

    /// Returns `None` if the planner decides for this preemptor. Otherwise returns the wait reason to report, if there is one, and true if
    /// the preemptor is examined again in the next pass although nothing changes.
    fn obstacle(&mut self, preemptor: &Preemptor, clock: Clock) -> Option<(Option<WaitReason>, bool)> {
        if self.restraint.switch.mode() == Mode::Off {
            return Some((Some(Self::off_reason()), false));
        }
        if self.is_unserved(preemptor) {
            return Some((Some(Self::unserved_reason(preemptor.key())), false));
        }
        if let Preemptor::Group(group) = preemptor
            && let Some(wait_reason) = self.group_obstacle(group, clock.now)
        {
            return Some((wait_reason, true));
        }
        if let Some(until) = self.preemption.waiting.get_mut(preemptor)?.disruption_back_off(clock.now) {
            let message = pending::backs_off_after_disruption(clock.at(until));
            return Some((Some(WaitReason::new(Reason::PartiallyScheduled, message)), false));
        }
        self.waits_for_rehearsal(preemptor, clock).map(|wait_reason| (Some(wait_reason), false))
    }

    /// Returns `None` if the PodGroup needs to wait for no other pods or objects. Otherwise returns the wait reason to report, or
    /// `Some(None)` while it waits only for a moment, which is not reported.
    fn group_obstacle(&self, group: &ObjectKey, now: Instant) -> Option<Option<WaitReason>> {
        let waits = |message: String| Some(Some(WaitReason::new(Reason::WaitingForPods, message)));
        if self.model.has_members_of_another_owner(group) {
            return waits(pod_group::pods_of_newer_job().to_owned());
        }
        if self.may_be_of_another_size(group, now) {
            return Some(None);
        }
        // It is decided again when these pods are terminating, and also when only the time limit has passed.
        let left = self.departures.pods_to_wait_for(&self.model, group, now)
            + self.plans.flights.pods_to_wait_for(&self.model.cluster, group, now);
        if left > 0 {
            return waits(pod_group::replacements_wait(left));
        }
        let predecessor = self.gangs.labelled.predecessor(&self.model, group, now)?;
        waits(pod_group::predecessor_may_be_deleted(predecessor))
    }

    /// Asks the planner about a preemptor and applies the decision, if it is the turn of this preemptor. `in_flight` is the context of the
    /// last decision with the version of the model and the priority for which it holds: it is used again if they are the same. The pass
    /// began at `start`.
    fn decide_one(
        &mut self,
        preemptor: &Preemptor,
        in_flight: &mut Option<((u64, i32), Context)>,
        start: Instant,
        clock: Clock,
    ) {
        let version = self.model.version;
        let waiting = self.preemption.waiting.entry(preemptor.clone()).or_default();
        // During a back-off the planner only looks for free capacity, so the preemptor does not count as a new one.
        let new = waiting.seen.is_none() && waiting.not_before.is_none_or(|until| until <= clock.now);
        if !self.preemption.round.admits(preemptor, new, || start.elapsed()) {
            return;
        }
        let excluded_victims = waiting.excluded_victims(clock.now);
        let Some(only_free_capacity) = waiting.turn(version, clock.now) else { return };
        let state = (version, self.model.priority_of(preemptor).unwrap_or(0));
        let known = in_flight.take().filter(|(known, _)| *known == state).map(|(_, context)| context);
        let mut context =
            known.unwrap_or_else(|| Context { lingering: self.model.overdue().clone(), ..self.context(state.1) });
        context.exempt = excluded_victims;
        context.now = clock.epoch_seconds.checked_mul(1_000_000_000);
        context.exempt.extend(self.model.pods_of_unknown_groups().iter().chain(self.restraint.bans.victims()).cloned());
        let started = Instant::now();
        let mut decision = self.ask_the_planner(preemptor, &context);
        if let Decision::Preempt(plan) = &decision
            && let Some(on_banned_nodes) = self.pods_on_banned_nodes(preemptor, &plan.placements)
        {
            context.exempt.extend(on_banned_nodes);
            decision = self.ask_the_planner(preemptor, &context);
        }
        *in_flight = Some((state, context));
        self.metrics.observe(&catalogue::DECISION_SECONDS, &[], started.elapsed());
        if only_free_capacity && !matches!(decision, Decision::Fits { .. }) {
            return;
        }
        self.apply_decision(preemptor, decision, clock);
    }

    /// Returns true while no member of the gang is bound and its size was not read from its owner yet. That takes some seconds at most.
    fn may_be_of_another_size(&self, group: &ObjectKey, now: Instant) -> bool {
        let mut members = self.model.cluster.members(group);
        !self.gangs.labelled.has_settled_size(&self.model, group, now) && !members.any(|pod| pod.live() && pod.bound())
    }

    /// Returns the wait reason of a preemptor while a call for one of its members is rejected; `None` if none is. Makes the dry run of this
    /// call when it is due.
    fn waits_for_rehearsal(&mut self, preemptor: &Preemptor, clock: Clock) -> Option<WaitReason> {
        let waiting = self.preemption.waiting.get_mut(preemptor)?;
        let cluster = &self.model.cluster;
        // A pod that was deleted or bound needs the call no more.
        let is_needed = |call: &RejectedCall| {
            cluster.pod(&call.pod).is_some_and(|pod| pod.uid == call.uid && pod.live() && pod.node.is_none())
        };
        if waiting.rejected.take_if(|rejected| !is_needed(&rejected.call)).is_some() {
            waiting.seen = None;
        }
        let rejected = waiting.rejected.as_mut()?;
        if !rejected.in_flight && rejected.due <= clock.now {
            rejected.in_flight = true;
            let priority = self.model.priority_of(preemptor).unwrap_or(0);
            self.actuator.dispatch(rejected.call.rehearse(preemptor, priority));
        }
        if rejected.in_flight && waiting.wait_reason.is_some() {
            return waiting.wait_reason.clone();
        }
        let (sentence, until) = (rejected.call.sentence(), clock.at(rejected.due));
        let rendered = self.config.names().render(&sentence, &preemptor.key().namespace);
        Some(WaitReason::new(Reason::Rejected, pending::rehearsal_rejected(&rendered, until)))
    }

    /// Returns a wait reason if these placements and victims need capacity that is reserved for the successor of another gang; `None` if
    /// the gang need not wait. The gang is decided again when the reservation ends.
    fn reserved_for_successor(
        &self,
        preemptor: &Preemptor,
        placements: &[Placement],
        victims: &[Victim],
    ) -> Option<WaitReason> {
        let Preemptor::Group(group) = preemptor else { return None };
        let conflict = self.gangs.succession.conflict(
            &self.model,
            self.gangs.labelled.controllers(),
            group,
            placements,
            victims,
        )?;
        let until = Timestamp::from_second(conflict.until).unwrap_or_default();
        let names = self.config.names();
        let predecessor = Some(&conflict.predecessor).filter(|other| names.known(&other.namespace, &group.namespace));
        let message = pending::reserved_for_successor(&conflict.node, predecessor, until);
        Some(WaitReason::new(Reason::WaitingForPods, message))
    }

    /// Returns the decision of the planner for a preemptor. Placeholder pods that reserve capacity for the preemptor are treated as if they
    /// were terminating.
    fn ask_the_planner(&self, preemptor: &Preemptor, context: &Context) -> Decision {
        let placeholders: BTreeSet<SmolStr> = match preemptor {
            Preemptor::Group(key) => self.model.placeholders(key).map(|pod| pod.uid.clone()).collect(),
            Preemptor::Pod(_) => BTreeSet::new(),
        };
        if placeholders.is_empty() {
            return giveway_planner::plan(&self.model.cluster, preemptor, context);
        }
        let context = plans::with_placeholders(context, &placeholders);
        giveway_planner::plan(&self.model.cluster, preemptor, &context)
    }

    /// Applies a decision of the planner: starts a plan, or stores the reason why the preemptor waits.
    fn apply_decision(&mut self, preemptor: &Preemptor, decision: Decision, clock: Clock) {
        match decision {
            Decision::Fits { placements, domain, .. } => {
                if let Some(reserved) = self.reserved_for_successor(preemptor, &placements, &[]) {
                    self.set_wait_reason(preemptor, Some(reserved), clock.now);
                    return;
                }
                self.set_wait_reason(preemptor, None, clock.now);
                // kube-scheduler places ungated pods without our help. Pods of a basic group are gated if they were created before their
                // group.
                let cluster = &self.model.cluster;
                let gang = matches!(preemptor, Preemptor::Group(key) if cluster.group(key).is_some_and(|g| g.min_count.is_some()));
                let is_gated = |placed: &Placement| cluster.pod(&placed.pod).is_some_and(|pod| pod.gated);
                if gang || placements.iter().any(is_gated) {
                    let plan = Plan { placements, domain, ..empty_plan() };
                    self.start(preemptor, &plan, clock);
                } else if let Some(waiting) = self.preemption.waiting.get_mut(preemptor) {
                    waiting.postponed_since = None;
                }
            }
            Decision::Preempt(plan) => self.preempt(preemptor, &plan, clock),
            Decision::Unschedulable(shortfall) => {
                if let Some(flaw) = &shortfall.flaw {
                    tracing::error!(%preemptor, flaw, "a plan failed its own verification and is not carried out");
                }
                let wait_reason = self.unschedulable(preemptor, &shortfall);
                self.set_wait_reason(preemptor, Some(wait_reason), clock.now);
                self.tell_budgets(preemptor, &shortfall, clock.now);
                if shortfall.is_exhausted()
                    && let Some(waiting) = self.preemption.waiting.get_mut(preemptor)
                {
                    waiting.back_off(clock.now);
                }
            }
            Decision::Unknown(unknown) => {
                let message = unknown.to_string();
                self.set_pending_reason(preemptor, Reason::Unschedulable, message, clock.now);
                self.leave_to_scheduler(preemptor, &unknown, clock);
            }
            Decision::WaitingForPods { live, min_count, finished, below } => {
                let gated = status::gated_by_others(&self.model.cluster, preemptor.key());
                let members = ExistingMembers { needed: min_count, live, finished, below, gated };
                self.set_pending_reason(
                    preemptor,
                    Reason::WaitingForPods,
                    pod_group::gang_incomplete(members),
                    clock.now,
                );
            }
            Decision::Nothing => self.set_wait_reason(preemptor, None, clock.now),
        }
    }

    /// Starts this plan of the planner, or stores the reason why it must not be carried out now.
    fn preempt(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        if let Some(wait_reason) = self.prevented(preemptor, plan) {
            return self.set_wait_reason(preemptor, Some(wait_reason), clock.now);
        }
        if !plan.victims.is_empty() {
            match self.restraint.reason() {
                None => {}
                Some(Reason::EvictionsLimited) => return self.wait_for_zero_limit(preemptor, plan, clock),
                Some(_) => return self.observe(preemptor, plan, clock),
            }
            if let Some(wait_reason) = self.stopped_by_breaker(preemptor, clock) {
                return self.set_wait_reason(preemptor, Some(wait_reason), clock.now);
            }
            for line in &plan.trace {
                tracing::debug!(%preemptor, "{line}");
            }
        }
        self.set_wait_reason(preemptor, None, clock.now);
        self.start(preemptor, plan, clock);
    }

    /// Returns why a plan for a preemptor must not be carried out now: a scheduler that Giveway does not serve, capacity that is reserved
    /// for another PodGroup, a ban, or too many plans in flight. `None` if none of these applies.
    fn prevented(&self, preemptor: &Preemptor, plan: &Plan) -> Option<WaitReason> {
        let unschedulable = |message: String| WaitReason::new(Reason::Unschedulable, message);
        let foreign = self.foreign_scheduler(preemptor).map(|name| pending::foreign_scheduler(&name));
        let reserved = || self.reserved_for_successor(preemptor, &plan.placements, &plan.victims);
        let banned = || self.banned(&plan.placements).map(unschedulable);
        let too_many = || self.too_many_plans(preemptor).filter(|_| !plan.victims.is_empty());
        foreign.map(unschedulable).or_else(reserved).or_else(banned).or_else(too_many)
    }

    /// Removes the scheduling gate of those members that the planner cannot place (`unknown`), because it cannot evaluate a constraint that
    /// kube-scheduler can. Retried after [`UNGATE_AGAIN`] for members that are still gated.
    fn leave_to_scheduler(&mut self, preemptor: &Preemptor, unknown: &Unknown, clock: Clock) {
        let priority = self.model.priority_of(preemptor).unwrap_or(0);
        let pods = unknown.members.iter().filter_map(|member| self.model.cluster.pod(member));
        let ungate = |pod: &Pod| Command::ungate(pod, preemptor.clone(), priority);
        let commands: Vec<Command> = pods.filter(|pod| pod.gated).map(ungate).collect();
        if commands.is_empty() {
            return;
        }
        let waiting = self.preemption.waiting.entry(preemptor.clone()).or_default();
        (waiting.seen, waiting.not_before) = (None, Some(clock.now + UNGATE_AGAIN));
        commands.into_iter().for_each(|command| self.actuator.dispatch(command));
    }

    /// Returns the wait reason of a preemptor for which the planner found no plan: not enough capacity, budgets, or the limit of the
    /// search. Budgets are the reason if the planner excluded victims because of them, or if the API server refused the evictions of the
    /// possible victims.
    fn unschedulable(&self, preemptor: &Preemptor, shortfall: &Shortfall) -> WaitReason {
        let waiting = self.preemption.waiting.get(preemptor);
        let refusal = waiting.and_then(|waiting| waiting.refusal.as_ref());
        let reason = match (shortfall.is_exhausted(), shortfall.is_for_budgets() || refusal.is_some()) {
            (true, _) => Reason::SearchLimitReached,
            (false, true) => Reason::UnschedulableGuaranteedBudget,
            (false, false) => Reason::Unschedulable,
        };
        let refusal = refusal.map(|sentence| format!(" {sentence}")).unwrap_or_default();
        let shortfall = self.without_foreign_names(preemptor, shortfall);
        let contradiction = match preemptor {
            Preemptor::Group(key) => {
                let cluster = &self.model.cluster;
                cluster.group(key).and_then(|group| status::contradiction(cluster, group))
            }
            Preemptor::Pod(_) => None,
        };
        let contradiction = contradiction.map(|sentence| format!(" {sentence}")).unwrap_or_default();
        let priority = self.model.priority_of(preemptor).unwrap_or(0);
        let unheard = match self.model.excludes_victims_below(priority) {
            false => String::new(),
            true => format!(" {}", pending::new_pods_excluded()),
        };
        let bans = [self.banned_nodes_in_words(preemptor), self.banned_victim_in_words(preemptor, priority)];
        let banned: String = bans.into_iter().flatten().map(|sentence| format!(" {sentence}")).collect();
        WaitReason::new(reason, format!("{shortfall}{contradiction}{refusal}{unheard}{banned}"))
    }

    /// Returns the shortfall without the names of budgets that readers of the preemptor's namespace must not see.
    fn without_foreign_names(&self, preemptor: &Preemptor, shortfall: &Shortfall) -> Shortfall {
        let (names, mut shown) = (self.config.names(), shortfall.clone());
        for budget in &mut shown.guaranteed {
            if !names.known(&budget.key.namespace, &preemptor.key().namespace) {
                budget.key = ObjectKey::default();
            }
        }
        shown
    }

    /// Returns why a preemptor waits while too many plans evict pods for preemptors of its priority or a higher one; `None` if it need not
    /// wait. It is decided again when a plan ends.
    fn too_many_plans(&self, preemptor: &Preemptor) -> Option<WaitReason> {
        let priority = self.model.priority_of(preemptor).unwrap_or(0);
        let (count, most) = (self.plans.flights.count_with_victims(priority), self.config.max_plans as usize);
        (count >= most)
            .then(|| WaitReason::new(Reason::EvictionsLimited, pending::too_many_plans(count, priority, most)))
    }

    /// Returns the scheduler name of the first pending pod of the preemptor that uses a scheduler for whose pods Giveway does not preempt;
    /// `None` if there is none.
    fn foreign_scheduler(&self, preemptor: &Preemptor) -> Option<String> {
        let cluster = &self.model.cluster;
        let foreign = |p: &Pod| {
            (p.node.is_none() && p.live() && !self.config.scheduler_names.contains(&p.scheduler_name))
                .then(|| p.scheduler_name.clone())
        };
        match preemptor {
            Preemptor::Group(key) => cluster.members(key).find_map(foreign),
            Preemptor::Pod(key) => cluster.pod(key).and_then(foreign),
        }
    }

    /// Stores why a preemptor is pending, with this reason and message, for its status. A new reason is also published as an event.
    pub(super) fn set_pending_reason(&mut self, preemptor: &Preemptor, reason: Reason, message: String, now: Instant) {
        self.set_wait_reason(preemptor, Some(WaitReason::new(reason, message)), now);
    }

    /// Stores why a preemptor is pending, for its status, or with `None` that no reason is known. A new reason is also published as an
    /// event.
    pub(super) fn set_wait_reason(&mut self, preemptor: &Preemptor, wait_reason: Option<WaitReason>, now: Instant) {
        let waiting = self.preemption.waiting.entry(preemptor.clone()).or_default();
        if waiting.wait_reason == wait_reason {
            return;
        }
        let new_reason =
            wait_reason.as_ref().filter(|w| waiting.wait_reason.as_ref().map(|o| o.reason) != Some(w.reason)).cloned();
        waiting.wait_reason = wait_reason;
        self.statuses.touch(preemptor);
        if let Some(wait_reason) = new_reason {
            if let Preemptor::Group(key) = preemptor {
                self.speaker.group_waits(key, now);
            }
            self.metrics.outcome(wait_reason.reason);
            if wait_reason.reason == Reason::UnschedulableGuaranteedBudget {
                self.metrics.count(&catalogue::GUARANTEED, &["planner"]);
            }
            let warning = matches!(
                wait_reason.reason,
                Reason::Unschedulable
                    | Reason::UnschedulableGuaranteedBudget
                    | Reason::SearchLimitReached
                    | Reason::Rejected
                    | Reason::CircuitBreakerOpen
            );
            self.tell(preemptor, warning, wait_reason.reason, "Deciding", wait_reason.message);
        }
    }

    /// Starts this plan of the planner for the preemptor. If an earlier plan was postponed, the new one keeps the time at which that was
    /// made, from which the preemption delay counts.
    fn start(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) {
        let mut flight = self.new_flight(preemptor, plan, clock);
        if let Some(waiting) = self.preemption.waiting.get_mut(preemptor)
            && let Some(since) = waiting.postponed_since.as_ref().filter(|_| flight.evicts())
        {
            flight.plan.planned_at = Some(since.clone());
            flight.renewed = waiting.superseded;
        }
        flight.postpone_until_due(&self.model.cluster, clock);
        self.open(flight);
    }

    /// Returns this plan of the planner in the form in which it is carried out, with a new name. It is not in flight yet.
    pub(super) fn new_flight(&mut self, preemptor: &Preemptor, plan: &Plan, clock: Clock) -> Flight {
        let priority = self.model.priority_of(preemptor).unwrap_or(0);
        let stored_preemptor = self.stored_preemptor(preemptor, priority);
        let stored = self.new_plan(plan, stored_preemptor, clock);
        Flight::new(preemptor.clone(), priority, stored, clock.now)
    }

    /// Converts a plan of the planner into its stored form, with the current term and a new unique name.
    pub(super) fn new_plan(&mut self, plan: &Plan, preemptor: StoredPreemptor, clock: Clock) -> StoredPlan {
        let (id, term) = (next_id(&mut self.plans.made, self.leadership.term()), self.leadership.term().to_owned());
        stored_form(plan, id, term, preemptor, &self.model.cluster, clock.time())
    }

    /// Puts a new plan in flight. A plan with victims is also stored as a `Preemption` and published as an event on the preemptor.
    pub(super) fn open(&mut self, mut flight: Flight) {
        let preemptor = flight.preemptor.clone();
        if flight.evicts() {
            flight.message = plans::plan_message(&flight);
            flight.plan.reason = flight.message.to_string();
            flight.plan.message = flight.plan.reason.clone();
            self.plan_store.open(&Record::from(&flight));
            let trace_id = self.tracer.id(&flight.plan);
            tracing::info!(%preemptor, plan = %flight.plan.id, trace_id, message = %flight.plan.message, "planned");
            self.metrics.outcome(Reason::Planned);
            if let Preemptor::Group(key) = &preemptor {
                self.speaker.group_waits(key, flight.started);
            }
            let action = format!("Planned {}", flight.plan.id);
            self.tell(&preemptor, false, Reason::Planned, action, flight.message.clone());
        }
        self.launch(flight);
    }

    /// Returns the preemptor as a `Preemption` stores it, with its UID and this effective priority.
    pub(super) fn stored_preemptor(&self, preemptor: &Preemptor, priority: i32) -> StoredPreemptor {
        let kind = if matches!(preemptor, Preemptor::Group(_)) { UnitKind::PodGroup } else { UnitKind::Pod };
        StoredPreemptor {
            kind: kind.as_str().to_owned(),
            namespace: preemptor.key().namespace.to_string(),
            name: preemptor.key().name.to_string(),
            uid: self.model.uid_of(preemptor).map(ToString::to_string).unwrap_or_default(),
            priority,
        }
    }
}

/// Returns a plan without placements and victims, for members that fit without an eviction.
fn empty_plan() -> Plan {
    Plan {
        strategy: "fits",
        domain: None,
        placements: vec![],
        victims: vec![],
        awaited: vec![],
        cost: giveway_planner::Cost::default(),
        least: giveway_planner::CostBound::default(),
        trace: vec![],
        not_modeled: vec![],
    }
}
