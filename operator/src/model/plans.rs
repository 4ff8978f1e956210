//! Stored plans as the watch shows them. Whole objects are kept only until the plans of an earlier leader were taken
//! over; afterwards, and of plans that are over, only what the history's keeper needs.

use giveway_crds::plan::{PlanState, StoredPreemptor};
use giveway_crds::preemption::{PreemptionStatus, plan_of_part};
use giveway_crds::{Preemption, critical};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};

/// A stored `Preemption`, or a part of one.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// UID of the object.
    pub uid: SmolStr,
    /// For whom.
    pub preemptor: StoredPreemptor,
    /// Whether it is for a critical add-on: a node may have a taint for it.
    pub critical: bool,
    /// The node that a critical add-on was to be on.
    pub node: Option<SmolStr>,
    /// Its status; only the first part of a plan has one.
    pub status: PreemptionStatus,
    /// When it was created, in seconds since the epoch.
    pub created: i64,
    /// What it takes in etcd, about, in bytes.
    pub bytes: usize,
    /// The object, while it may have to be resumed.
    object: Option<Box<Preemption>>,
}

/// Every stored plan, by name of the object.
#[derive(Debug, Default)]
pub struct Plans {
    records: BTreeMap<SmolStr, PlanRecord>,
    /// Plans that were there and are not any more, since the arbiter last looked.
    pub removed: Vec<SmolStr>,
    /// Whether a complete list arrived since the arbiter last looked.
    pub listed: bool,
    resumed: bool,
}

/// What a victim, a placement and everything else of an object take, about, in bytes.
const BYTES_A_LINE: usize = 200;

impl Plans {
    /// The names of all objects.
    pub(super) fn names(&self) -> Vec<ObjectKey> {
        self.records.keys().map(|name| ObjectKey::new("", name)).collect()
    }

    /// Notes an object as it is now, or that it is gone. No decision depends on it.
    pub(super) fn take(&mut self, name: &SmolStr, object: Option<Box<Preemption>>) -> bool {
        let Some(object) = object else {
            if self.records.remove(name).is_some() && plan_of_part(name) == name {
                self.removed.push(name.clone());
            }
            return false;
        };
        let (spec, status) = (&object.spec, object.status.clone().unwrap_or_default());
        let lines = 5 + spec.placements.len() + spec.victims.iter().map(|unit| 1 + unit.pods.len()).sum::<usize>();
        let record = PlanRecord {
            uid: object.uid().unwrap_or_default().into(),
            preemptor: spec.preemptor.clone(),
            critical: critical::tainted_for(spec).is_some(),
            node: critical::tainted_for(spec).and_then(|_| Some(spec.placements.first()?.node.as_str().into())),
            created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
            bytes: lines * BYTES_A_LINE,
            object: (!self.resumed && status.state.in_flight()).then_some(object),
            status,
        };
        self.records.insert(name.clone(), record);
        false
    }

    /// Every object, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &PlanRecord)> {
        self.records.iter()
    }

    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<&PlanRecord> {
        self.records.get(name)
    }

    /// The plans that say they are in flight, with all their parts that exist; each once, and none later.
    pub fn to_resume(&mut self) -> BTreeMap<SmolStr, Vec<Preemption>> {
        self.resumed = true;
        let mut plans: BTreeMap<SmolStr, Vec<Preemption>> = BTreeMap::new();
        for (name, record) in &mut self.records {
            if let Some(object) = record.object.take() {
                plans.entry(plan_of_part(name).into()).or_default().push(*object);
            }
        }
        // Parts have no state of their own: that of the first one counts.
        plans.retain(|plan, _| self.records.get(plan).is_some_and(|first| first.status.state.in_flight()));
        plans
    }

    /// UIDs of the pods for which some plan may have tainted a node.
    pub fn tainted_for(&self) -> BTreeSet<&str> {
        let critical = self.records.values().filter(|record| record.critical);
        critical.map(|record| record.preemptor.uid.as_str()).collect()
    }

    /// Whether a plan that was over since this second nominated a critical add-on to a node.
    pub fn nominated(&self, uid: &str, node: &str, since: i64) -> bool {
        let ours = |record: &PlanRecord| record.node.as_deref() == Some(node) && record.preemptor.uid == uid;
        let carried_out = |record: &PlanRecord| record.over() && record.status.state != PlanState::Observed;
        self.records.values().any(|record| ours(record) && carried_out(record) && record.finished() >= since)
    }

    /// Whether a plan of this name says that it is in flight.
    pub fn in_flight(&self, plan: &str) -> bool {
        self.records.get(plan).is_some_and(|record| record.status.state.in_flight())
    }
}

impl PlanRecord {
    /// Whether the plan is over.
    pub fn over(&self) -> bool {
        !self.status.state.in_flight()
    }

    /// When it was over, in seconds since the epoch; when it was created, where that is not known.
    pub fn finished(&self) -> i64 {
        self.status.finished_at.as_ref().map_or(self.created, |time| time.0.as_second())
    }
}

/// The status with which a plan ends that nobody carries out.
pub fn dropped(status: &PreemptionStatus, message: String) -> PreemptionStatus {
    PreemptionStatus { state: PlanState::Cancelled, message, ..status.clone() }
}
