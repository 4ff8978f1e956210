//! The answer as JSON. Its fields are an interface for scripts: they are only ever added to.

use crate::error::CliError;
use giveway_crds::condition::Reason;
use giveway_planner::{Decision, Placement, Plan, Strategy, Victim};
use serde::Serialize;
use std::io::Write;

/// What is printed.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// Whether there is a place, now or once the victims are gone.
    schedulable: bool,
    /// Whether somebody has to be evicted for it.
    preemption_needed: bool,
    strategy: &'static str,
    placements: Vec<JsonPlacement>,
    victims: Vec<JsonVictim>,
    /// Every pod that is evicted.
    victim_pods: Vec<String>,
    budget_violations: usize,
    /// Pods that are terminating anyway and have to be gone first.
    awaited: Vec<String>,
    /// Why it is not schedulable, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The answer in a sentence.
    message: String,
    /// How the plan was found.
    trace: Vec<String>,
    not_modeled: Vec<String>,
}

#[derive(Debug, Serialize)]
struct JsonPlacement {
    pod: String,
    node: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonVictim {
    kind: &'static str,
    namespace: String,
    name: String,
    priority: i32,
    pods: Vec<String>,
    violates_budget: bool,
    why: String,
}

impl Answer {
    /// The answer for a decision.
    pub(crate) fn new(decision: &Decision, strategy: Strategy) -> Self {
        let empty = Self { strategy: strategy.as_str(), ..Self::default() };
        let refused = |reason: Reason, message| Self { reason: Some(reason.as_str()), message, ..Self::default() };
        match decision {
            Decision::Fits { placements, left } => Self {
                schedulable: true,
                message: match left {
                    0 => "It fits now; nobody is evicted.".to_owned(),
                    left => format!("It fits now, without {left} of its pods; nobody is evicted."),
                },
                placements: placements.iter().map(json_placement).collect(),
                ..empty
            },
            Decision::Preempt(plan) => Self::of_plan(plan),
            Decision::Unschedulable(shortfall) => {
                Self { strategy: empty.strategy, ..refused(Reason::Unschedulable, shortfall.to_string()) }
            }
            Decision::WaitingForPods { live, min_count } => {
                let message = format!("{live} of {min_count} pods exist; it waits for the others.");
                Self { strategy: empty.strategy, ..refused(Reason::WaitingForPods, message) }
            }
            Decision::Nothing => {
                Self { schedulable: true, message: "No pod of it waits for a place.".to_owned(), ..empty }
            }
        }
    }

    fn of_plan(plan: &Plan) -> Self {
        Self {
            schedulable: true,
            preemption_needed: !plan.victims.is_empty(),
            strategy: plan.strategy,
            placements: plan.placements.iter().map(json_placement).collect(),
            victims: plan.victims.iter().map(json_victim).collect(),
            victim_pods: plan.victims.iter().flat_map(|v| &v.pods).map(|pod| pod.key.to_string()).collect(),
            budget_violations: plan.cost.budget_violations,
            awaited: plan.awaited.iter().map(ToString::to_string).collect(),
            reason: None,
            message: match plan.victims.len() {
                0 => format!("It fits once {} pods are gone that leave anyway.", plan.awaited.len()),
                _ => format!("It fits once its victims are gone: {}.", plan.cost),
            },
            trace: plan.trace.clone(),
            not_modeled: plan.not_modeled.clone(),
        }
    }

    /// Prints it on standard output.
    pub(crate) fn print(&self) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, self).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(())
    }
}

fn json_placement(placement: &Placement) -> JsonPlacement {
    JsonPlacement { pod: placement.pod.to_string(), node: placement.node.clone() }
}

fn json_victim(victim: &Victim) -> JsonVictim {
    JsonVictim {
        kind: victim.kind.as_str(),
        namespace: victim.key.namespace.clone(),
        name: victim.key.name.clone(),
        priority: victim.priority,
        pods: victim.pods.iter().map(|pod| pod.key.to_string()).collect(),
        violates_budget: victim.violates_budget,
        why: victim.why.clone(),
    }
}
