//! `kubectl giveway history`: past preemptions with their time, preemptor, victims and number of pods. It reads the
//! Preemptions that the operator retains (a week, by default) and writes nothing.

use crate::args::{HistoryArgs, ListFormat};
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::live;
use crate::output::table::{joined_names, table};
use crate::output::{self, style};
use crate::why::age;
use crate::world::World;
use giveway_crds::Preemption;
use giveway_crds::keys::GROUP;
use giveway_crds::plan::{PlanState, StoredDomain, StoredPlan, StoredPreemptor, StoredRescue, StoredVictim};
use giveway_crds::preemption::{assemble, plan_of_part};
use giveway_planner::{ObjectKey, Preemptor};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of units that a row of the table names.
const NAMED: usize = 3;

/// Which preemptions are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HistoryScope {
    /// All preemptions.
    All,
    /// Preemptions with a preemptor or victim in this namespace.
    Namespace(String),
    /// Preemptions with this group or pod as preemptor or victim.
    One(Preemptor),
}

/// Role of the requested group or pod in a preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum HistoryRole {
    /// The preemptor.
    Preemptor,
    /// A victim.
    Victim,
}

/// One preemption.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryRow {
    /// Name of the Preemption.
    preemption: String,
    /// Time of planning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) planned_at: Option<Time>,
    /// Time of completion, failure or cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
    /// State of the plan.
    pub(crate) state: PlanState,
    /// What happens, or what happened.
    message: String,
    /// Why pods are evicted.
    cause: &'static str,
    /// The preemptor, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    preemptor: Option<StoredPreemptor>,
    /// The topology domain of the placements, if the group asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<StoredDomain>,
    /// The algorithm that made the plan.
    strategy: String,
    /// Details of a plan for a critical add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    critical_addon: Option<StoredRescue>,
    /// Role of the requested group or pod, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<HistoryRole>,
    /// Number of evicted pods: all, or those of the requested victim.
    pods: usize,
    /// The evicted units: all, or only the requested victim.
    pub(crate) victims: Vec<StoredVictim>,
}

/// The printed answer.
#[derive(Debug, Default, Serialize)]
pub(crate) struct History {
    /// Preemptions, the oldest first.
    pub(crate) items: Vec<HistoryRow>,
    /// What could not be read, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Runs `kubectl giveway history`: reads the Preemptions that concern a group, a pod or a namespace, or all of them, and prints them.
pub(crate) fn run(args: &HistoryArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    let (about, preemptions) = block_on(async {
        let api = connection.api().await?;
        let about = match (&args.target, &connection.namespace) {
            (Some(target), _) => HistoryScope::One(target.in_namespace(&api.namespace)),
            (None, Some(namespace)) => HistoryScope::Namespace(namespace.clone()),
            (None, None) => HistoryScope::All,
        };
        Ok::<_, CliError>((about, read(&api).await?))
    })?;
    let history = History::new(preemptions, &about);
    let text = match args.output {
        ListFormat::Table => history.table(&about, Timestamp::now(), style::width(), false),
        ListFormat::Wide => history.table(&about, Timestamp::now(), style::width(), true),
        ListFormat::Name => history.names(),
        ListFormat::Json => output::json(&history)?,
        ListFormat::Yaml => output::yaml(&history)?,
    };
    output::show(&text)
}

/// Reads all Preemptions of the cluster. It is an error if the kind is not installed or may not be read.
async fn read(api: &Api) -> Result<Vec<Preemption>, CliError> {
    let objects = live::read_kinds(api, |kind| kind == "Preemption").await?;
    // Other commands continue without Preemptions; here a missing list is an error.
    if let Some(note) = objects.notes.first() {
        return Err(CliError::Cluster { what: "preemptions.scheduling.giveway.dev".to_owned(), problem: note.clone() });
    }
    objects.items.iter().map(|item| crate::world::read(item, &objects.source)).collect()
}

impl History {
    /// Assembles the stored plans from their Preemption objects, and selects those that concern the namespace, group or pod in `about`.
    fn new(preemptions: Vec<Preemption>, about: &HistoryScope) -> Self {
        let mut plans: BTreeMap<String, Vec<Preemption>> = BTreeMap::new();
        for part in preemptions {
            let name = part.metadata.name.clone().unwrap_or_default();
            plans.entry(plan_of_part(&name).to_owned()).or_default().push(part);
        }
        let (mut history, mut found) = (Self::default(), Vec::new());
        for (name, parts) in plans {
            let finished = parts.iter().find_map(|part| part.status.as_ref()?.finished_at.clone());
            match assemble(parts) {
                Ok(plan) => found.push((plan, finished)),
                Err(why) => history.notes.push(format!("Preemption {name} is left out: {why}.")),
            }
        }
        history.items = rows(found, about);
        history
    }

    /// Returns the history of all stored plans in `world`, the objects of the cluster.
    pub(crate) fn of_world(world: &World) -> Self {
        let plans = world.plans.iter().map(|(name, plan)| (plan.clone(), world.finished.get(name).cloned()));
        Self { items: rows(plans.collect(), &HistoryScope::All), notes: Vec::new() }
    }

    /// Returns the names of the Preemptions, one a line, as `kubectl get -o name` prints them.
    fn names(&self) -> String {
        self.items.iter().map(|row| format!("preemption.{GROUP}/{}\n", row.preemption)).collect()
    }

    /// Returns the cells of the table: its heading and a row for each plan, with ages at `now`. `wide` adds the end of the plan and its
    /// message.
    fn cells(&self, now: Timestamp, wide: bool) -> Vec<Vec<String>> {
        let head = ["AGE", "PREEMPTOR", "PRIORITY", "PODS", "VICTIMS", "STATE", "PREEMPTION"];
        let more: &[&str] = if wide { &["FINISHED", "MESSAGE"] } else { &[] };
        let mut rows = vec![head.iter().chain(more).map(|name| (*name).to_owned()).collect()];
        rows.extend(self.items.iter().map(|row| {
            let mut cells = row.cells(now);
            if wide {
                cells.push(row.finished_at.as_ref().map_or_else(|| "-".to_owned(), |time| age(now, time.0)));
                cells.push(row.message.clone());
            }
            cells
        }));
        rows
    }

    /// Returns the history as a table at most `width` characters wide (`None` for no limit), with ages at `now`; without a row, a
    /// sentence about `about`. `wide` adds the end and the message of each preemption.
    fn table(&self, about: &HistoryScope, now: Timestamp, width: Option<u16>, wide: bool) -> String {
        let mut text = if self.items.is_empty() {
            match about {
                HistoryScope::All => "No preemption is kept.\n".to_owned(),
                HistoryScope::Namespace(namespace) => {
                    format!("No preemption that is kept concerns namespace {namespace}.\n")
                }
                HistoryScope::One(one) => format!("No preemption that is kept concerns {one}.\n"),
            }
        } else {
            table(self.cells(now, wide), width)
        };
        for note in &self.notes {
            text.push_str(&format!("Note: {note}\n"));
        }
        text
    }
}

/// Returns the stored plans that are in progress, the oldest first, as the cells of a table below its heading. Ages are those at `now`.
pub(crate) fn in_progress(world: &World, now: Timestamp) -> Vec<Vec<String>> {
    let mut history = History::of_world(world);
    history.items.retain(|row| row.state.in_flight());
    history.cells(now, false)
}

impl HistoryRow {
    /// Returns the cells of this row of the table; its age is that at `now`.
    fn cells(&self, now: Timestamp) -> Vec<String> {
        let whole = |victim: &StoredVictim| match victim.kind.as_str() {
            "PodGroup" if self.role == Some(HistoryRole::Victim) => {
                format!("{}: {}", reference(victim), joined_names(victim.pods.iter().map(|pod| pod.name.as_str())))
            }
            _ => reference(victim),
        };
        let mut victims_in_words: Vec<String> = self.victims.iter().take(NAMED).map(whole).collect();
        if self.victims.len() > NAMED {
            victims_in_words.push(format!("{} more", self.victims.len() - NAMED));
        }
        let addon = self.critical_addon.map(|addon| format!(" (critical add-on, step {})", addon.step));
        let addon = addon.unwrap_or_default();
        vec![
            self.planned_at.as_ref().map_or_else(|| "-".to_owned(), |time| age(now, time.0)),
            match &self.preemptor {
                Some(p) => format!("{}/{}/{}{addon}", p.kind.to_lowercase(), p.namespace, p.name),
                None => format!("({})", self.cause),
            },
            self.preemptor.as_ref().map_or_else(|| "-".to_owned(), |preemptor| preemptor.priority.to_string()),
            self.pods.to_string(),
            if victims_in_words.is_empty() { "-".to_owned() } else { victims_in_words.join(", ") },
            self.state.as_str().to_owned(),
            self.preemption.clone(),
        ]
    }
}

/// Returns a victim as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
fn reference(victim: &StoredVictim) -> String {
    format!("{}/{}/{}", victim.kind.to_lowercase(), victim.namespace, victim.name)
}

/// Returns the rows of those plans that concern `about`, the oldest first. Each plan comes with the time of its end, or `None` while it
/// is in progress.
fn rows(mut plans: Vec<(StoredPlan, Option<Time>)>, about: &HistoryScope) -> Vec<HistoryRow> {
    plans.sort_by(|(a, _), (b, _)| a.age_order().cmp(&b.age_order()));
    plans.into_iter().filter_map(|(plan, finished)| row(plan, finished, about)).collect()
}

/// Returns the row for a plan, or `None` if the plan does not concern the group, pod or namespace in `about`. `finished_at` is the time
/// of the plan's end.
fn row(plan: StoredPlan, finished_at: Option<Time>, about: &HistoryScope) -> Option<HistoryRow> {
    let (role, victims) = match about {
        HistoryScope::All => (None, plan.victims),
        HistoryScope::Namespace(namespace) => {
            let concerns = plan.preemptor.namespace == *namespace
                || plan.victims.iter().any(|victim| victim.namespace == *namespace);
            (None, concerns.then_some(plan.victims)?)
        }
        HistoryScope::One(one) if is_preemptor(&plan.preemptor, &plan.placements, one) => {
            (Some(HistoryRole::Preemptor), plan.victims)
        }
        HistoryScope::One(one) => {
            let mine: Vec<StoredVictim> = plan.victims.iter().filter_map(|victim| part_of(victim, one)).collect();
            (Some(HistoryRole::Victim), (!mine.is_empty()).then_some(mine)?)
        }
    };
    Some(HistoryRow {
        preemption: plan.id,
        planned_at: plan.planned_at,
        finished_at,
        state: plan.state,
        message: plan.message,
        cause: plan.cause.as_str(),
        preemptor: Some(plan.preemptor).filter(|preemptor| !preemptor.uid.is_empty()),
        domain: plan.domain,
        strategy: plan.strategy,
        critical_addon: plan.critical_addon,
        role,
        pods: victims.iter().map(|victim| victim.pods.len()).sum(),
        victims,
    })
}

/// Returns true if a stored plan is for the group or pod `wanted`: it is the preemptor of the plan, or a member of the preemptor with a
/// placement.
fn is_preemptor(
    preemptor: &StoredPreemptor,
    placements: &[giveway_crds::plan::StoredPlacement],
    wanted: &Preemptor,
) -> bool {
    let ObjectKey { namespace, name } = wanted.key();
    let is = |kind: &str| preemptor.kind == kind && preemptor.name == name.as_str();
    preemptor.namespace == namespace.as_str()
        && match wanted {
            Preemptor::Group(_) => is("PodGroup"),
            Preemptor::Pod(_) => is("Pod") || placements.iter().any(|placement| placement.pod == name.as_str()),
        }
}

/// Returns what a plan evicts of the group or pod `wanted` with this victim: the whole group, or only that pod; `None` if the victim is
/// not that group and does not contain that pod.
fn part_of(victim: &StoredVictim, wanted: &Preemptor) -> Option<StoredVictim> {
    let ObjectKey { namespace, name } = wanted.key();
    if victim.namespace != namespace.as_str() {
        return None;
    }
    match wanted {
        Preemptor::Group(_) => (victim.kind == "PodGroup" && victim.name == name.as_str()).then(|| victim.clone()),
        Preemptor::Pod(_) => {
            let pods: Vec<_> = victim.pods.iter().filter(|pod| pod.name == name.as_str()).cloned().collect();
            (!pods.is_empty()).then(|| StoredVictim { pods, ..victim.clone() })
        }
    }
}

#[cfg(test)]
mod tests;
