//! The book of the ledger: what of each plan is stored, as a `Preemption`, and what is still to be written.
//!
//! One call at a time for each plan, so that an older state never lands on a newer one; a state that is overtaken before
//! its turn is never written. Pure: [`Book::pass`] says which calls to make, [`Book::answered`] what an answer means.

use crate::command::Command;
use crate::ledger::{Call, Flight};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::preemption::PreemptionStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::BTreeMap;
use std::time::Instant;

/// How often in a row storing a plan may fail before it is given up.
const TRIES: u32 = 5;

/// What of each plan is stored, by the plan's name.
#[derive(Debug, Default)]
pub struct Book(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    /// The plan, while its objects have still to be created.
    create: Option<Box<StoredPlan>>,
    priority: i32,
    wanted: PreemptionStatus,
    written: Option<PreemptionStatus>,
    call: Call,
    /// The plan is over: the entry goes with its last write.
    over: bool,
}

impl Entry {
    /// The entry of a plan whose objects exist, and of which nothing was written in this term.
    fn of(flight: &Flight) -> Self {
        Self {
            create: None,
            priority: flight.priority,
            wanted: status(flight),
            written: None,
            call: Call::Idle,
            over: false,
        }
    }

    /// Whether it is still to be created though its plan is over: one that is only told.
    fn is_tried_again(&self) -> bool {
        self.wanted.state == PlanState::Observed && self.call.tries() < TRIES
    }
}

/// What an answer means for the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The API server has acknowledged this state.
    Stored(PlanState),
    /// The plan cannot be stored; the reason.
    GivenUp(String),
    /// Its `Preemption` was deleted by somebody.
    Deleted,
    /// Nothing: it is tried again, or nobody waits for it.
    Nothing,
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Acknowledged.
    Done,
    /// There is no such object.
    Gone,
    /// The API server did not answer, or not now.
    Unanswered,
    /// It failed; why.
    Failed(String),
}

impl Book {
    /// A plan that was just made: its objects are to be created.
    pub fn open(&mut self, flight: &Flight) {
        let create = Some(Box::new(flight.plan.clone()));
        let entry = Entry { create, ..Entry::of(flight) };
        self.0.insert(flight.plan.id.clone(), entry);
    }

    /// A plan that is only told: its objects are to be created, and it is over.
    pub fn record(&mut self, flight: &Flight, now: Time) {
        self.open(flight);
        if let Some(entry) = self.0.get_mut(&flight.plan.id) {
            entry.wanted.finished_at = Some(now);
            entry.over = true;
        }
    }

    /// A plan of an earlier leader: its objects exist, and say nothing of this term yet.
    pub fn reopen(&mut self, flight: &Flight) {
        self.0.insert(flight.plan.id.clone(), Entry::of(flight));
    }

    /// A plan that exists and is over, whatever its object says.
    pub fn strike(&mut self, plan: &str, last: PreemptionStatus) {
        let entry = Entry { create: None, priority: 0, wanted: last, written: None, call: Call::Idle, over: true };
        self.0.insert(plan.to_owned(), entry);
    }

    /// Notes how far a plan is by now.
    pub fn note(&mut self, flight: &Flight) {
        if let Some(entry) = self.0.get_mut(&flight.plan.id).filter(|entry| !entry.over) {
            entry.wanted = status(flight);
        }
    }

    /// Writes anew what a complete list does not show: what was created and deleted while the watch was interrupted, no
    /// watch tells, but the answer to a write does ([`Answer::Deleted`]).
    pub fn doubt(&mut self, listed: impl Fn(&str) -> bool) {
        let stored = self.0.iter_mut().filter(|(_, entry)| entry.create.is_none());
        stored.filter(|(plan, _)| !listed(plan)).for_each(|(_, entry)| entry.written = None);
    }

    /// Notes that a plan is over.
    pub fn close(&mut self, flight: &Flight, now: Time) {
        let Some(entry) = self.0.get_mut(&flight.plan.id) else { return };
        entry.wanted = PreemptionStatus { finished_at: Some(now), ..status(flight) };
        entry.over = true;
        // What was never stored needs no end.
        if entry.create.is_some() && !entry.call.pending() {
            self.0.remove(&flight.plan.id);
        }
    }

    /// Whether something of this plan is still to be written, or may be.
    pub fn holds(&self, plan: &str) -> bool {
        self.0.contains_key(plan)
    }

    /// The calls to make now.
    pub fn pass(&mut self, now: Instant) -> Vec<Command> {
        let mut commands = Vec::new();
        for (plan, entry) in &mut self.0 {
            let ready = entry.call.due(now) || matches!(entry.call, Call::Done(_));
            if !ready || entry.written.as_ref().is_some_and(|written| same(written, &entry.wanted)) {
                continue;
            }
            entry.call.start();
            let status = Box::new(entry.wanted.clone());
            commands.push(match &entry.create {
                Some(plan) => Command::StorePlan { plan: plan.clone(), priority: entry.priority, status },
                None => Command::WritePlan { plan: plan.clone(), priority: entry.priority, status },
            });
        }
        commands
    }

    /// Notes the answer to a write.
    pub fn answered(&mut self, plan: &str, status: PreemptionStatus, result: Written, now: Instant) -> Answer {
        let Some(entry) = self.0.get_mut(plan) else { return Answer::Nothing };
        match result {
            Written::Unanswered => entry.call.unanswered(now),
            _ => entry.call.answered(result == Written::Done, now),
        }
        match result {
            Written::Done => {
                let state = status.state;
                entry.create = None;
                entry.written = Some(status);
                if entry.over && entry.written.as_ref().is_some_and(|written| same(written, &entry.wanted)) {
                    self.0.remove(plan);
                }
                Answer::Stored(state)
            }
            Written::Gone => {
                self.0.remove(plan);
                Answer::Deleted
            }
            // What was created of it is found and struck out by the history's keeper.
            Written::Failed(_) | Written::Unanswered
                if entry.over && entry.create.is_some() && !entry.is_tried_again() =>
            {
                self.0.remove(plan);
                Answer::Nothing
            }
            Written::Failed(why) if !entry.over && entry.written.is_none() && entry.call.tries() >= TRIES => {
                Answer::GivenUp(why)
            }
            Written::Failed(_) | Written::Unanswered => Answer::Nothing,
        }
    }
}

/// Whether a status needs no other write: what only counts goes along with the next one.
fn same(written: &PreemptionStatus, wanted: &PreemptionStatus) -> bool {
    written.state == wanted.state
        && written.term == wanted.term
        && written.message == wanted.message
        && written.finished_at == wanted.finished_at
}

fn status(flight: &Flight) -> PreemptionStatus {
    let accepted = flight.victims.iter().filter(|victim| victim.accepted).count();
    PreemptionStatus {
        state: flight.plan.state,
        term: flight.plan.term.clone(),
        message: flight.told_message(),
        evicted: i32::try_from(accepted).unwrap_or(i32::MAX),
        planned_at: flight.plan.planned_at.clone(),
        finished_at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_planner::Preemptor;
    use giveway_planner::model::ObjectKey;
    use k8s_openapi::jiff::Timestamp;
    use std::time::Duration;

    fn flight(state: PlanState) -> Flight {
        let plan = StoredPlan { id: "p-1".into(), term: "t".into(), state, ..StoredPlan::default() };
        Flight::new(Preemptor::Group(ObjectKey::new("default", "g")), 100, plan, Instant::now())
    }

    fn calls(book: &mut Book, now: Instant) -> Vec<String> {
        let call = |command: Command| match command {
            Command::StorePlan { plan, status, .. } => format!("create {} {:?}", plan.id, status.state),
            Command::WritePlan { plan, status, .. } => format!("write {plan} {:?}", status.state),
            other => format!("{other:?}"),
        };
        book.pass(now).into_iter().map(call).collect()
    }

    fn at(state: PlanState) -> PreemptionStatus {
        status(&flight(state))
    }

    fn end() -> Time {
        Time(Timestamp::from_second(9).unwrap())
    }

    #[test]
    fn a_plan_is_created_once_and_its_latest_state_follows() {
        let (mut book, now) = (Book::default(), Instant::now());
        book.open(&flight(PlanState::Planned));
        assert_eq!(calls(&mut book, now), ["create p-1 Planned"]);
        book.note(&flight(PlanState::Evicting));
        book.note(&flight(PlanState::WaitingForVictims));
        assert!(calls(&mut book, now).is_empty(), "one call at a time");
        let answer = book.answered("p-1", at(PlanState::Planned), Written::Done, now);
        assert_eq!(answer, Answer::Stored(PlanState::Planned));
        assert_eq!(calls(&mut book, now), ["write p-1 WaitingForVictims"]);
        book.answered("p-1", at(PlanState::WaitingForVictims), Written::Done, now);
        assert!(calls(&mut book, now).is_empty());
        book.close(&flight(PlanState::Completed), end());
        assert_eq!(calls(&mut book, now), ["write p-1 Completed"]);
        let last = PreemptionStatus { finished_at: Some(end()), ..at(PlanState::Completed) };
        book.answered("p-1", last, Written::Done, now);
        assert!(!book.holds("p-1"));
    }

    #[test]
    fn a_plan_that_cannot_be_stored_five_times_in_a_row_is_given_up() {
        let (mut book, mut now) = (Book::default(), Instant::now());
        book.open(&flight(PlanState::Planned));
        for _ in 0..4 {
            assert_eq!(calls(&mut book, now), ["create p-1 Planned"]);
            let answer = book.answered("p-1", at(PlanState::Planned), Written::Failed("denied".into()), now);
            assert_eq!(answer, Answer::Nothing);
            assert!(calls(&mut book, now).is_empty(), "not at once");
            now += Duration::from_secs(2);
        }
        calls(&mut book, now);
        let answer = book.answered("p-1", at(PlanState::Planned), Written::Failed("denied".into()), now);
        assert_eq!(answer, Answer::GivenUp("denied".into()));
        book.close(&flight(PlanState::Failed), end());
        assert!(!book.holds("p-1"), "nothing of it is stored");
    }

    #[test]
    fn the_end_of_a_plan_is_written_until_it_is_acknowledged() {
        let (mut book, mut now) = (Book::default(), Instant::now());
        book.reopen(&flight(PlanState::Evicting));
        assert_eq!(calls(&mut book, now), ["write p-1 Evicting"], "of this term");
        book.answered("p-1", at(PlanState::Evicting), Written::Done, now);
        book.close(&flight(PlanState::Cancelled), end());
        for _ in 0..10 {
            assert_eq!(calls(&mut book, now), ["write p-1 Cancelled"]);
            let answer = book.answered("p-1", at(PlanState::Cancelled), Written::Failed("down".into()), now);
            assert_eq!(answer, Answer::Nothing);
            now += Duration::from_secs(10);
        }
        assert!(book.holds("p-1"));
    }

    /// As happened once: the watch of a new CustomResourceDefinition began anew between the plan and its deletion.
    #[test]
    fn a_plan_that_a_list_does_not_show_is_written_anew_and_found_deleted() {
        let (mut book, now) = (Book::default(), Instant::now());
        book.open(&flight(PlanState::Planned));
        calls(&mut book, now);
        book.doubt(|_| false);
        book.answered("p-1", at(PlanState::Planned), Written::Done, now);
        assert!(calls(&mut book, now).is_empty(), "the list is older than the plan");
        book.doubt(|_| true);
        assert!(calls(&mut book, now).is_empty(), "it is there");
        book.doubt(|_| false);
        assert_eq!(calls(&mut book, now), ["write p-1 Planned"]);
        assert_eq!(book.answered("p-1", at(PlanState::Planned), Written::Gone, now), Answer::Deleted);
    }

    #[test]
    fn a_plan_that_is_only_told_is_created_once_with_its_end_and_tried_again_a_few_times() {
        let (mut book, mut now) = (Book::default(), Instant::now());
        let ended = PreemptionStatus { finished_at: Some(end()), ..at(PlanState::Observed) };
        book.record(&flight(PlanState::Observed), end());
        for _ in 1..TRIES {
            assert_eq!(calls(&mut book, now), ["create p-1 Observed"]);
            let failed = Written::Failed("denied".into());
            assert_eq!(book.answered("p-1", ended.clone(), failed, now), Answer::Nothing);
            assert!(book.holds("p-1"));
            now += Duration::from_secs(10);
        }
        assert_eq!(calls(&mut book, now), ["create p-1 Observed"]);
        book.answered("p-1", ended.clone(), Written::Failed("denied".into()), now);
        assert!(!book.holds("p-1"));
        book.record(&flight(PlanState::Observed), end());
        calls(&mut book, now);
        assert_eq!(book.answered("p-1", ended, Written::Done, now), Answer::Stored(PlanState::Observed));
        assert!(!book.holds("p-1"), "nothing else is written");
    }

    #[test]
    fn a_preemption_that_somebody_deleted_ends_its_plan() {
        let (mut book, now) = (Book::default(), Instant::now());
        book.reopen(&flight(PlanState::Evicting));
        calls(&mut book, now);
        assert_eq!(book.answered("p-1", at(PlanState::Evicting), Written::Gone, now), Answer::Deleted);
        assert!(!book.holds("p-1"));
    }
}
