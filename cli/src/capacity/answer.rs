//! The answer of `capacity`: one JSON object. Scripts parse its fields, so fields are added but never changed or removed.

use crate::answer::PlanAnswer;
use crate::args::CheckFormat;
use crate::decide::DecisionOutcome;
use crate::error::CliError;
use crate::output::style::{HEAD, paint};
use crate::output::table::{line, table};
use crate::output::{self, style};
use crate::world::World;
use giveway_crds::wording::counted;
use giveway_planner::{Decision, Strategy};
use serde::Serialize;

/// Pods that fit, and what must be evicted for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fit {
    /// Number of pods that fit.
    pub(super) members: usize,
    /// Number of pods that are evicted.
    pub(super) evicted_pods: usize,
    /// The highest priority among them; `None` if no pod is evicted.
    pub(super) highest_victim_priority: Option<i32>,
    /// Number of evicted pods whose eviction violates a budget.
    pub(super) budget_violations: usize,
    /// True if pods that terminate anyway must be removed before.
    #[serde(skip)]
    pub(super) waits: bool,
}

impl Fit {
    /// Returns how many pods a decision places and what it evicts for them; `None` if it places none.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        match decision {
            Decision::Fits { placements, .. } => Some(Self { members: placements.len(), ..Self::default() }),
            Decision::Preempt(plan) => Some(Self {
                members: plan.placements.len(),
                evicted_pods: plan.cost.victim_pods,
                highest_victim_priority: plan.cost.highest_priority,
                budget_violations: plan.cost.budget_violations,
                waits: true,
            }),
            _ => None,
        }
    }

    /// Adds up what two decisions place and evict, whose preemptors both start. The highest victim priority is the higher one of the
    /// two.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            members: self.members + other.members,
            evicted_pods: self.evicted_pods + other.evicted_pods,
            highest_victim_priority: self.highest_victim_priority.max(other.highest_victim_priority),
            budget_violations: self.budget_violations + other.budget_violations,
            waits: self.waits || other.waits,
        }
    }
}

/// What may happen before the pods start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Nothing.
    Now,
    /// Pods that terminate anyway are removed.
    AfterTermination,
    /// In addition, at most this many pods are evicted.
    Victims(usize),
    /// In addition, every pod is evicted that may be.
    AtAll,
}

impl Limit {
    /// Returns true if no more terminates or is evicted for the pods of `fit` than this limit permits.
    pub(super) fn allows(self, fit: &Fit) -> bool {
        match self {
            Self::Now => !fit.waits,
            Self::AfterTermination => fit.evicted_pods == 0,
            Self::Victims(most) => fit.evicted_pods <= most,
            Self::AtAll => true,
        }
    }
}

/// The line of `--max-victims`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WithVictims {
    max_victims: usize,
    #[serde(flatten)]
    fit: Fit,
}

/// The answer that `capacity` prints.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CapacityAnswer {
    /// The preemptor as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`; several are joined by commas.
    pub(super) preemptor: String,
    /// The effective priority; of several preemptors the highest.
    pub(super) priority: i32,
    /// Number of pods that are asked for and have no node.
    pub(super) members: usize,
    /// What fits without any change.
    pub(super) now: Fit,
    /// What fits after the pods that terminate anyway are removed.
    pub(super) after_termination: Fit,
    /// What fits if at most the given number of pods is evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) with_victims: Option<WithVictims>,
    /// What fits if every pod is evicted that Giveway may evict for it.
    pub(super) at_all: Fit,
    /// Reason why not more pods fit, in one word; absent if all of them fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    /// The same as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Additional notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

impl CapacityAnswer {
    /// Sets how many pods fit within each limit, as the callback `largest` computes it. The line for `max_victims`, a number of evicted
    /// pods, is left out for `None`.
    pub(super) fn fill(
        &mut self,
        max_victims: Option<usize>,
        mut largest: impl FnMut(Limit) -> Result<Fit, CliError>,
    ) -> Result<(), CliError> {
        self.now = largest(Limit::Now)?;
        self.after_termination = largest(Limit::AfterTermination)?;
        if let Some(max_victims) = max_victims {
            self.with_victims = Some(WithVictims { max_victims, fit: largest(Limit::Victims(max_victims))? });
        }
        self.at_all = largest(Limit::AtAll)?;
        Ok(())
    }

    /// Sets the reason why not more pods fit. `more` is the decision for a larger number of pods, which do not fit.
    pub(super) fn explain(&mut self, world: &World, more: &DecisionOutcome) {
        let answer = PlanAnswer::new(world, more, Strategy::default().as_str());
        self.reason = answer.reason;
        self.message = Some(answer.message);
    }

    /// Prints the answer on standard output as a table, JSON or YAML.
    pub(super) fn print(&self, format: CheckFormat) -> Result<(), CliError> {
        output::show(&match format {
            CheckFormat::Table => self.text(style::width()),
            CheckFormat::Json => output::json(self)?,
            CheckFormat::Yaml => output::yaml(self)?,
        })
    }

    /// Returns the answer of `capacity` as a table with notes, wrapped at `width` characters (`None` for no limit).
    fn text(&self, width: Option<u16>) -> String {
        let mut out = String::new();
        if !self.preemptor.is_empty() {
            let asked =
                format!("(priority {}): {} asked for.", self.priority, counted(self.members, "pod is", "pods are"));
            line(&mut out, width, "", &format!("{} {asked}", paint(HEAD, &self.preemptor)));
            out.push('\n');
            out.push_str(&table(self.rows(), width));
        }
        if let Some(message) = &self.message {
            let reason = self.reason.map(|reason| format!("{reason} ")).unwrap_or_default();
            line(&mut out, width, "Not more:", &format!("{reason}{message}"));
        }
        for note in &self.notes {
            line(&mut out, width, "Note:", note);
        }
        out
    }

    /// Returns the heading of the table, and a row for what fits within each limit.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |when: String, fit: &Fit| {
            let priority = fit.highest_victim_priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string());
            let (evicted, violations) = (fit.evicted_pods.to_string(), fit.budget_violations.to_string());
            vec![fit.members.to_string(), when, evicted, priority, violations]
        };
        let heads = ["FIT", "WHEN", "EVICTED PODS", "HIGHEST PRIORITY", "BUDGET VIOLATIONS"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        rows.push(row("now".to_owned(), &self.now));
        rows.push(row("after terminating pods are removed".to_owned(), &self.after_termination));
        if let Some(WithVictims { max_victims, fit }) = &self.with_victims {
            let most = counted(*max_victims, "pod is", "pods are");
            rows.push(row(format!("if at most {most} evicted"), fit));
        }
        rows.push(row("if every pod is evicted that may be".to_owned(), &self.at_all));
        rows
    }
}
