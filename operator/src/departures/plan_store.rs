//! Stores plans and departures: remembers the content of each `Preemption` and which writes are missing.
//!
//! Each plan has at most one call in flight, so that an older state never overwrites a newer one; a state that is replaced before its write
//! begins is never written. Pure: [`PlanStore::pass`] returns the calls to make, [`PlanStore::answered`] handles their answers.

use crate::messages::call::Call;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::plans::Flight;
use giveway_crds::brief::{MOST_OF_MESSAGE, first_characters};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::preemption::PreemptionStatus;
use giveway_crds::workload::ControllerRef;
use giveway_planner::model::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Number of failures in a row after which a plan is not stored.
const TRIES: u32 = 5;

/// The content of a `Preemption` that should be stored.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The `Preemption`.
    pub plan: &'a StoredPlan,
    /// The priority of its writes.
    pub priority: i32,
    /// Its status. [`PlanStore::close`] sets `finishedAt`.
    pub status: PreemptionStatus,
}

impl<'a> From<&'a Flight> for Record<'a> {
    /// Returns what should be stored of a plan in flight.
    fn from(flight: &'a Flight) -> Self {
        let accepted = flight.victims.iter().filter(|victim| victim.accepted).count();
        Self::of(&flight.plan, flight.priority, flight.message_with_limit(), accepted)
    }
}

impl<'a> Record<'a> {
    /// Returns what should be stored of a plan: the plan and a status with this message and this number of accepted evictions. `priority`
    /// is that of the API calls.
    pub fn of(plan: &'a StoredPlan, priority: i32, message: String, accepted: usize) -> Self {
        let status = PreemptionStatus {
            state: plan.state,
            term: plan.term.clone(),
            message: first_characters(&message, MOST_OF_MESSAGE).to_owned(),
            evicted: i32::try_from(accepted).unwrap_or(i32::MAX),
            planned_at: plan.planned_at.clone(),
            finished_at: None,
            bans: Vec::new(),
        };
        Self { plan, priority, status }
    }
}

/// Returns the controller of a pod as a `Preemption` refers to it; `None` if the pod has none.
pub fn controller(pod: &Pod) -> Option<ControllerRef> {
    pod.owner.as_ref().map(ControllerRef::from)
}

/// The stored and wanted content of each `Preemption`, by name.
#[derive(Debug, Default)]
pub struct PlanStore {
    entries: BTreeMap<String, StoreEntry>,
    /// The names of the entries that may need a write. Every change of an entry adds its name.
    unwritten: BTreeSet<String>,
}

/// What should be stored of one `Preemption`, and what has been written.
#[derive(Debug)]
struct StoreEntry {
    /// The plan, until its objects have been created.
    create: Option<Box<StoredPlan>>,
    /// The priority of its writes.
    priority: i32,
    /// The status that should be stored.
    wanted: PreemptionStatus,
    /// The status that this leader has written last; `None` before its first write.
    written: Option<PreemptionStatus>,
    /// The write in flight, or the result of the last one.
    call: Call,
    /// True if the call in flight was made for an earlier entry of this name: its answer says nothing about this one.
    is_call_of_earlier: bool,
    /// True if the plan has ended: the entry is removed after its last write.
    ended: bool,
}

impl StoreEntry {
    /// Creates the store entry of a plan whose objects exist and have not been written in this term. `wanted` is the status to write, with
    /// API calls of this priority.
    fn of(priority: i32, wanted: PreemptionStatus) -> Self {
        Self {
            create: None,
            priority,
            wanted,
            written: None,
            call: Call::Idle,
            is_call_of_earlier: false,
            ended: false,
        }
    }

    /// Records the answer to the call that was made for an earlier entry of this name, so that the next write can be made. Returns true if
    /// no write is needed, because the plan has ended and was never stored.
    fn answered_earlier(&mut self) -> bool {
        (self.call, self.is_call_of_earlier) = (Call::Idle, false);
        self.ended && self.create.is_some() && !self.is_tried_again()
    }

    /// Returns true if the creation of the objects of this plan, which has ended, is retried after a failure: only in state `Observed` (it
    /// is never carried out), and at most five times.
    fn is_tried_again(&self) -> bool {
        self.wanted.state == PlanState::Observed && self.call.tries() < TRIES
    }
}

/// The effect of an answer on the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The API server has acknowledged this state.
    Stored(PlanState),
    /// The plan cannot be stored, with the reason.
    GivenUp(String),
    /// Another client deleted the `Preemption`.
    Deleted,
    /// No effect: the write is retried, or nothing depends on it.
    Nothing,
}

impl PlanStore {
    /// Adds what should be stored of the plan with this name, or replaces it. If a call for the replaced entry is in flight, nothing is
    /// written before that call is answered.
    fn insert(&mut self, plan: &str, mut entry: StoreEntry) {
        if let Some(earlier) = self.entries.get(plan).filter(|earlier| earlier.call.pending()) {
            (entry.call, entry.is_call_of_earlier) = (earlier.call, true);
        }
        self.unwritten.insert(plan.to_owned());
        self.entries.insert(plan.to_owned(), entry);
    }

    /// Returns what the store holds for the plan with this name, for a change, and marks it as needing a write; `None` if it holds nothing.
    fn get_mut(&mut self, plan: &str) -> Option<&mut StoreEntry> {
        let entry = self.entries.get_mut(plan)?;
        self.unwritten.insert(plan.to_owned());
        Some(entry)
    }

    /// Adds a new plan to the store: its `Preemption` objects must be created.
    pub fn open(&mut self, record: &Record<'_>) {
        let create = Some(Box::new(record.plan.clone()));
        self.insert(&record.plan.id, StoreEntry { create, ..StoreEntry::of(record.priority, record.status.clone()) });
    }

    /// Adds a plan that is not carried out (state `Observed`) to the store: its objects are created with a status that has ended at `now`.
    pub fn record(&mut self, record: &Record<'_>, now: Time) {
        self.open(record);
        if let Some(entry) = self.get_mut(&record.plan.id) {
            entry.wanted.finished_at = Some(now);
            entry.ended = true;
        }
    }

    /// Adds a plan of an earlier leader to the store: its objects exist, and its status must be written again in this term.
    pub fn reopen(&mut self, record: &Record<'_>) {
        self.insert(&record.plan.id, StoreEntry::of(record.priority, record.status.clone()));
    }

    /// Adds a write of the last status of a stored plan that is not in memory. It is written even if an earlier leader may have written the
    /// same, with the term of this leader.
    pub fn write_last_status(&mut self, plan: &str, term: &str, last: PreemptionStatus) {
        let last = PreemptionStatus { term: term.to_owned(), ..last };
        self.insert(plan, StoreEntry { ended: true, ..StoreEntry::of(0, last) });
    }

    /// Replaces the status that is to be written for a plan, unless the plan has ended or is not in the store.
    pub fn note(&mut self, record: &Record<'_>) {
        let differs = |entry: &StoreEntry| !entry.ended && entry.wanted != record.status;
        if self.entries.get(&record.plan.id).is_some_and(differs)
            && let Some(entry) = self.get_mut(&record.plan.id)
        {
            entry.wanted.clone_from(&record.status);
        }
    }

    /// Requests another write of each stored plan for which `listed` returns false: a complete list of `Preemption` objects does not
    /// contain it. An object that was created and deleted while the watch was interrupted causes no watch event, but the answer to a write
    /// shows the deletion ([`StoreOutcome::Deleted`]).
    pub fn rewrite_unlisted(&mut self, listed: impl Fn(&str) -> bool) {
        let stored = self.entries.iter_mut().filter(|(_, entry)| entry.create.is_none());
        for (plan, entry) in stored.filter(|(plan, _)| !listed(plan)) {
            entry.written = None;
            self.unwritten.insert(plan.clone());
        }
    }

    /// Records that a plan has ended at `now`: its last status, with `finishedAt`, is still written, unless the plan was never stored.
    pub fn close(&mut self, record: &Record<'_>, now: Time) {
        let Some(entry) = self.get_mut(&record.plan.id) else { return };
        entry.wanted = PreemptionStatus { finished_at: Some(now), ..record.status.clone() };
        entry.ended = true;
        // A plan that was never stored needs no last write.
        if entry.create.is_some() && !entry.call.pending() {
            self.entries.remove(&record.plan.id);
        }
    }

    /// Returns true if the store has an entry for the plan with this name: it has not ended, or its last status is not written yet.
    pub fn contains(&self, plan: &str) -> bool {
        self.entries.contains_key(plan)
    }

    /// Returns the last status of a plan that has ended, if the API server has not acknowledged it yet.
    pub fn last_status(&self, plan: &str) -> Option<&PreemptionStatus> {
        self.entries.get(plan).filter(|entry| entry.ended).map(|entry| &entry.wanted)
    }

    /// Returns the calls that are due: they store new plans, and write the status of those whose status has changed.
    pub fn pass(&mut self, now: Instant) -> Vec<Command> {
        let Self { entries, unwritten } = self;
        let mut commands = Vec::new();
        unwritten.retain(|plan| {
            let Some(entry) = entries.get_mut(plan) else { return false };
            // The answer to a call in flight adds the plan again.
            if entry.call.pending() || entry.written.as_ref().is_some_and(|written| same(written, &entry.wanted)) {
                return false;
            }
            if !entry.call.due(now) && !matches!(entry.call, Call::Done(_)) {
                return true;
            }
            entry.call.start();
            let status = Box::new(entry.wanted.clone());
            commands.push(match &entry.create {
                Some(plan) => Command::StorePlan { plan: plan.clone(), priority: entry.priority, status },
                None => Command::WritePlan { plan: plan.clone(), priority: entry.priority, status },
            });
            false
        });
        commands
    }

    /// Handles the answer to a call that created the objects of `plan`, or only wrote this status of it. Returns what it means for the
    /// plan.
    pub fn answered(
        &mut self,
        plan: &str,
        status: PreemptionStatus,
        result: Result<(), CallError>,
        now: Instant,
    ) -> StoreOutcome {
        let Some(entry) = self.get_mut(plan) else { return StoreOutcome::Nothing };
        if entry.is_call_of_earlier {
            if entry.answered_earlier() {
                self.entries.remove(plan);
            }
            return StoreOutcome::Nothing;
        }
        match &result {
            Err(CallError::Unanswered(_)) => entry.call.unanswered(now),
            result => entry.call.answered(result.is_ok(), now),
        }
        match result {
            Ok(()) => {
                let state = status.state;
                entry.create = None;
                entry.written = Some(status);
                if entry.ended && entry.written.as_ref().is_some_and(|written| same(written, &entry.wanted)) {
                    self.entries.remove(plan);
                }
                StoreOutcome::Stored(state)
            }
            Err(CallError::Gone) => {
                self.entries.remove(plan);
                StoreOutcome::Deleted
            }
            // [`super::history`] ends the objects that were created.
            Err(_) if entry.ended && entry.create.is_some() && !entry.is_tried_again() => {
                self.entries.remove(plan);
                StoreOutcome::Nothing
            }
            Err(CallError::Unanswered(_)) => StoreOutcome::Nothing,
            Err(error) if !entry.ended && entry.written.is_none() && entry.call.tries() >= TRIES => {
                StoreOutcome::GivenUp(error.to_string())
            }
            Err(_) => StoreOutcome::Nothing,
        }
    }
}

/// Returns true if the written status needs not be replaced by the wanted one. A different number of evictions is written together with the
/// next change.
fn same(written: &PreemptionStatus, wanted: &PreemptionStatus) -> bool {
    written.state == wanted.state
        && written.term == wanted.term
        && written.message == wanted.message
        && written.finished_at == wanted.finished_at
        && written.bans == wanted.bans
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

    fn calls(store: &mut PlanStore, now: Instant) -> Vec<String> {
        let call = |command: Command| match command {
            Command::StorePlan { plan, status, .. } => format!("create {} {:?}", plan.id, status.state),
            Command::WritePlan { plan, status, .. } => format!("write {plan} {:?}", status.state),
            other => format!("{other:?}"),
        };
        store.pass(now).into_iter().map(call).collect()
    }

    fn at(state: PlanState) -> PreemptionStatus {
        Record::from(&flight(state)).status
    }

    fn end() -> Time {
        Time(Timestamp::from_second(9).unwrap())
    }

    #[test]
    fn the_last_status_of_a_plan_of_an_earlier_leader_is_of_this_term() {
        let mut store = PlanStore::default();
        store.write_last_status("p-1", "next", at(PlanState::Cancelled));
        let commands = store.pass(Instant::now());
        let [Command::WritePlan { status, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!((status.term.as_str(), status.state), ("next", PlanState::Cancelled));
    }

    #[test]
    fn a_plan_is_created_once_and_its_latest_state_follows() {
        let (mut store, now) = (PlanStore::default(), Instant::now());
        store.open(&Record::from(&flight(PlanState::Planned)));
        assert_eq!(calls(&mut store, now), ["create p-1 Planned"]);
        store.note(&Record::from(&flight(PlanState::Evicting)));
        store.note(&Record::from(&flight(PlanState::WaitingForVictims)));
        assert!(calls(&mut store, now).is_empty(), "one call at a time");
        let answer = store.answered("p-1", at(PlanState::Planned), Ok(()), now);
        assert_eq!(answer, StoreOutcome::Stored(PlanState::Planned));
        assert_eq!(calls(&mut store, now), ["write p-1 WaitingForVictims"]);
        store.answered("p-1", at(PlanState::WaitingForVictims), Ok(()), now);
        assert!(calls(&mut store, now).is_empty());
        store.close(&Record::from(&flight(PlanState::Completed)), end());
        assert_eq!(calls(&mut store, now), ["write p-1 Completed"]);
        let last = PreemptionStatus { finished_at: Some(end()), ..at(PlanState::Completed) };
        store.answered("p-1", last, Ok(()), now);
        assert!(!store.contains("p-1"));
    }

    #[test]
    fn a_plan_that_cannot_be_stored_five_times_in_a_row_fails() {
        let (mut store, mut now) = (PlanStore::default(), Instant::now());
        store.open(&Record::from(&flight(PlanState::Planned)));
        for _ in 0..4 {
            assert_eq!(calls(&mut store, now), ["create p-1 Planned"]);
            let answer = store.answered("p-1", at(PlanState::Planned), Err(CallError::Failed("denied".into())), now);
            assert_eq!(answer, StoreOutcome::Nothing);
            assert!(calls(&mut store, now).is_empty(), "not at once");
            now += Duration::from_secs(2);
        }
        calls(&mut store, now);
        let answer = store.answered("p-1", at(PlanState::Planned), Err(CallError::Failed("denied".into())), now);
        assert_eq!(answer, StoreOutcome::GivenUp("denied".into()));
        store.close(&Record::from(&flight(PlanState::Failed)), end());
        assert!(!store.contains("p-1"), "nothing of it is stored");
    }

    #[test]
    fn the_end_of_a_plan_is_written_until_it_is_acknowledged() {
        let (mut store, mut now) = (PlanStore::default(), Instant::now());
        store.reopen(&Record::from(&flight(PlanState::Evicting)));
        assert_eq!(calls(&mut store, now), ["write p-1 Evicting"], "of this term");
        store.answered("p-1", at(PlanState::Evicting), Ok(()), now);
        store.close(&Record::from(&flight(PlanState::Cancelled)), end());
        for _ in 0..10 {
            assert_eq!(calls(&mut store, now), ["write p-1 Cancelled"]);
            let answer = store.answered("p-1", at(PlanState::Cancelled), Err(CallError::Failed("down".into())), now);
            assert_eq!(answer, StoreOutcome::Nothing);
            now += Duration::from_secs(10);
        }
        assert!(store.contains("p-1"));
    }

    /// Regression test: the watch of a new CustomResourceDefinition restarted between the creation of a plan and its deletion.
    #[test]
    fn a_plan_that_is_missing_in_a_list_is_written_again_and_found_deleted() {
        let (mut store, now) = (PlanStore::default(), Instant::now());
        store.open(&Record::from(&flight(PlanState::Planned)));
        calls(&mut store, now);
        store.rewrite_unlisted(|_| false);
        store.answered("p-1", at(PlanState::Planned), Ok(()), now);
        assert!(calls(&mut store, now).is_empty(), "the list is older than the plan");
        store.rewrite_unlisted(|_| true);
        assert!(calls(&mut store, now).is_empty(), "it is there");
        store.rewrite_unlisted(|_| false);
        assert_eq!(calls(&mut store, now), ["write p-1 Planned"]);
        assert_eq!(store.answered("p-1", at(PlanState::Planned), Err(CallError::Gone), now), StoreOutcome::Deleted);
    }

    #[test]
    fn an_observed_plan_is_created_once_with_its_end_and_retried_a_few_times() {
        let (mut store, mut now) = (PlanStore::default(), Instant::now());
        let ended = PreemptionStatus { finished_at: Some(end()), ..at(PlanState::Observed) };
        store.record(&Record::from(&flight(PlanState::Observed)), end());
        for _ in 1..TRIES {
            assert_eq!(calls(&mut store, now), ["create p-1 Observed"]);
            let failed = Err(CallError::Failed("denied".into()));
            assert_eq!(store.answered("p-1", ended.clone(), failed, now), StoreOutcome::Nothing);
            assert!(store.contains("p-1"));
            now += Duration::from_secs(10);
        }
        assert_eq!(calls(&mut store, now), ["create p-1 Observed"]);
        store.answered("p-1", ended.clone(), Err(CallError::Failed("denied".into())), now);
        assert!(!store.contains("p-1"));
        store.record(&Record::from(&flight(PlanState::Observed)), end());
        calls(&mut store, now);
        assert_eq!(store.answered("p-1", ended, Ok(()), now), StoreOutcome::Stored(PlanState::Observed));
        assert!(!store.contains("p-1"), "nothing else is written");
    }

    /// Returns the plans that need a write now, by a scan of all entries.
    fn scan(store: &PlanStore, now: Instant) -> Vec<String> {
        let is_ready = |entry: &StoreEntry| entry.call.due(now) || matches!(entry.call, Call::Done(_));
        let is_written =
            |entry: &StoreEntry| entry.written.as_ref().is_some_and(|written| same(written, &entry.wanted));
        let due = store.entries.iter().filter(|(_, entry)| is_ready(entry) && !is_written(entry));
        due.map(|(plan, _)| plan.clone()).collect()
    }

    #[test]
    fn the_writes_are_those_of_a_scan_of_all_entries_after_any_changes() {
        let (mut store, mut now, mut state) = (PlanStore::default(), Instant::now(), 1_u64);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut writes = 0;
        for _ in 0..3_000 {
            let mut flight = flight(if random(2) == 0 { PlanState::Evicting } else { PlanState::Ungating });
            flight.plan.id = format!("p-{}", random(8));
            let (id, record) = (flight.plan.id.as_str(), Record::from(&flight));
            match random(10) {
                0 => store.open(&record),
                1 => store.reopen(&record),
                2 => store.close(&record, end()),
                3 => store.rewrite_unlisted(|plan| plan != id),
                4 | 5 => store.note(&record),
                6 => now += Duration::from_millis(random(500)),
                _ if store.entries.get(id).is_some_and(|entry| entry.call.pending()) => {
                    let result = match random(4) {
                        0 => Err(CallError::Gone),
                        1 => Err(CallError::Unanswered(String::new())),
                        2 => Err(CallError::Failed("denied".into())),
                        _ => Ok(()),
                    };
                    store.answered(id, record.status.clone(), result, now);
                }
                _ => {}
            }
            let expected = scan(&store, now);
            let name = |command: Command| match command {
                Command::StorePlan { plan, .. } => plan.id,
                Command::WritePlan { plan, .. } => plan,
                other => panic!("{other:?}"),
            };
            let written: Vec<String> = store.pass(now).into_iter().map(name).collect();
            assert_eq!(written, expected);
            writes += written.len();
            assert!(store.unwritten.iter().all(|plan| store.entries.contains_key(plan)), "{store:?}");
        }
        assert!(writes > 100, "{writes} writes");
        let ids: Vec<String> = store.entries.keys().cloned().collect();
        for id in ids {
            let wanted = store.entries[&id].wanted.clone();
            store.answered(&id, wanted, Ok(()), now);
        }
        store.pass(now);
        assert!(store.unwritten.is_empty(), "what was written is not examined again: {store:?}");
    }

    #[test]
    fn a_plan_that_is_stored_again_waits_for_the_answer_to_an_earlier_write_which_says_nothing_about_it() {
        for result in [
            Ok(()),
            Err(CallError::Gone),
            Err(CallError::Unanswered(String::new())),
            Err(CallError::Failed("denied".into())),
        ] {
            let (mut store, now) = (PlanStore::default(), Instant::now());
            store.reopen(&Record::from(&flight(PlanState::Evicting)));
            assert_eq!(calls(&mut store, now), ["write p-1 Evicting"]);
            // The `Preemption` is deleted while the write is in flight.
            store.open(&Record::from(&flight(PlanState::Evicting)));
            assert!(calls(&mut store, now).is_empty(), "one call at a time");
            let answer = store.answered("p-1", at(PlanState::Evicting), result.clone(), now);
            assert_eq!(answer, StoreOutcome::Nothing, "{result:?}");
            assert_eq!(calls(&mut store, now), ["create p-1 Evicting"], "{result:?}");
            let answer = store.answered("p-1", at(PlanState::Evicting), Ok(()), now);
            assert_eq!(answer, StoreOutcome::Stored(PlanState::Evicting));
        }
    }

    #[test]
    fn a_plan_that_ends_before_it_is_stored_again_is_not_stored() {
        let (mut store, now) = (PlanStore::default(), Instant::now());
        store.reopen(&Record::from(&flight(PlanState::Evicting)));
        calls(&mut store, now);
        store.open(&Record::from(&flight(PlanState::Evicting)));
        store.close(&Record::from(&flight(PlanState::Completed)), end());
        assert_eq!(store.answered("p-1", at(PlanState::Evicting), Err(CallError::Gone), now), StoreOutcome::Nothing);
        assert!(!store.contains("p-1") && calls(&mut store, now).is_empty());
    }

    #[test]
    fn a_deleted_preemption_ends_its_plan() {
        let (mut store, now) = (PlanStore::default(), Instant::now());
        store.reopen(&Record::from(&flight(PlanState::Evicting)));
        calls(&mut store, now);
        assert_eq!(store.answered("p-1", at(PlanState::Evicting), Err(CallError::Gone), now), StoreOutcome::Deleted);
        assert!(!store.contains("p-1"));
    }
}
