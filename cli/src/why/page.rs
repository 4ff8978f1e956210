//! The page of `why`: state, victims and preemptors, the last decision, what would be decided now, and events.

use super::Evidence;
use super::addon::step;
use super::events::{OPERATOR, age};
use crate::answer::table::victims;
use crate::manual;
use crate::output::style::{BAD, COSTS, GOOD, HEAD, paint};
use crate::output::table::{joined_names, line, table};
use giveway_crds::PodGroup;
use giveway_crds::condition::{self, types};
use giveway_crds::plan::StoredPlan;
use giveway_crds::policy::DisruptionMode;
use giveway_crds::wording::{counted, pods};
use giveway_planner::Preemptor;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

/// Maximum number of events on the page; the latest ones are shown.
const EVENTS: usize = 12;

/// Returns the explanation of a group or pod as text, wrapped at `width` characters (`None` for no limit). `facts` is what was read
/// about it.
pub(super) fn text(facts: &Evidence, width: Option<u16>) -> String {
    let mut page = Page { out: String::new(), width, facts };
    page.line("", &paint(HEAD, &facts.target));
    match (&facts.group, &facts.pod) {
        (Some(group), _) => page.group(group),
        (None, Some(pod)) => page.pod(pod),
        (None, None) => page.absent(),
    }
    page.failed();
    page.evictions();
    page.last_decision();
    page.now();
    page.events();
    page.unseen();
    page.out
}

struct Page<'a> {
    out: String,
    width: Option<u16>,
    facts: &'a Evidence,
}

impl Page<'_> {
    /// Adds a wrapped paragraph to the page: a label and a text.
    fn line(&mut self, label: &str, text: &str) {
        line(&mut self.out, self.width, label, text);
    }

    /// Adds an empty line and the heading of a section to the page.
    fn head(&mut self, text: &str) {
        self.out.push('\n');
        self.line("", &paint(HEAD, text));
    }

    /// Adds to the page what is not known, because the user may not read it or it cannot be read.
    fn unseen(&mut self) {
        let facts = self.facts;
        if facts.world.notes.is_empty() {
            return;
        }
        self.head("What is not known");
        for note in &facts.world.notes {
            self.line("", &format!("- {note}"));
        }
    }

    /// Returns how long ago `then` was, such as `5m ago`.
    fn ago(&self, then: Timestamp) -> String {
        format!("{} ago", age(self.facts.now, then))
    }

    /// Adds the state, pods, topology domain and priority of a PodGroup to the page.
    fn group(&mut self, group: &PodGroup) {
        let status = group.status.clone().unwrap_or_default();
        match condition::find(&status.conditions, types::SCHEDULED) {
            Some(told) => {
                let style = if told.status == "True" { GOOD } else { COSTS };
                let since = self.ago(told.last_transition_time.0);
                self.line("State:", &format!("{} (since {since}): {}", paint(style, &told.reason), told.message));
                if told.status != "True" {
                    self.line("More:", &manual::about(&told.reason));
                }
            }
            None => self.line("State:", "Not processed yet: is giveway-operator running?"),
        }
        let spec = &group.spec;
        let counts = status.pods.unwrap_or_default();
        let needed = match spec.scheduling_policy.min_count() {
            Some(needed) => format!("{needed} needed together"),
            None => "scheduled one by one".to_owned(),
        };
        let pods = format!(
            "{} in all, {} with a node, {} ready, {} gated; {needed}; they are disrupted {}.",
            counts.total,
            counts.scheduled,
            counts.ready,
            counts.gated,
            if spec.disruption_mode == DisruptionMode::PodGroup { "together" } else { "one by one" }
        );
        self.line("Pods:", &pods);
        if let Some(key) = spec.topology_key() {
            self.line("Topology:", &self.facts.topology(key));
        }
        let class = spec.priority_class_name.as_deref().map(|c| format!(" (class {c})")).unwrap_or_default();
        let policy = spec.preemption_policy.map(|policy| format!(", {policy}")).unwrap_or_default();
        self.line("Priority:", &format!("{}{class}{policy}", spec.priority.unwrap_or_default()));
        for type_ in [types::DISRUPTION_TARGET, types::PODS_NOT_MATCHING_PRIORITY] {
            if let Some(told) = condition::find(&status.conditions, type_).filter(|told| told.status == "True") {
                let since = self.ago(told.last_transition_time.0);
                self.line(&format!("{type_}:"), &format!("{} (since {since})", told.message));
            }
        }
        if let Some(taker) = status.preempted_by.filter(|_| self.facts.evicting_plans().is_empty()) {
            self.line("Last preempted by:", &format!("{}.", paint(COSTS, taker)));
        }
    }

    /// Adds to the page that the requested group or pod does not exist.
    fn absent(&mut self) {
        match &self.facts.failed {
            Some(failed) => {
                let words = format!(
                    "{} It is created with the first pod of {}.",
                    paint(BAD, "The PodGroup does not exist."),
                    failed.controller
                );
                self.line("State:", &words);
            }
            None => self.line("State:", &format!("{} It does not exist any more.", paint(BAD, "Gone."))),
        }
    }

    /// Adds to the page the last pod of the group that could not be created, if there is one.
    fn failed(&mut self) {
        let facts = self.facts;
        let Some(failed) = &facts.failed else { return };
        let ago = failed.event.at.map(|at| format!(" ({})", self.ago(at))).unwrap_or_default();
        let text = format!("{} of {}{ago}: {}", failed.event.reason, failed.controller, failed.event.message);
        self.line("Last failure:", &text);
    }

    /// Adds to the page the state of a pod, its scheduling gates, priority and nomination, and the group that it belongs to.
    fn pod(&mut self, pod: &Pod) {
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let phase = status.phase.clone().unwrap_or_default();
        let state = match (&spec.node_name, &pod.metadata.deletion_timestamp) {
            (_, Some(_)) => paint(BAD, "Terminating"),
            (Some(node), None) => format!("{} on node {node}", paint(GOOD, phase)),
            (None, None) => paint(COSTS, phase),
        };
        self.line("State:", &state);
        let gates: Vec<String> = spec.scheduling_gates.into_iter().flatten().map(|gate| gate.name).collect();
        if !gates.is_empty() {
            self.line("Gated by:", &gates.join(", "));
        }
        let class = spec.priority_class_name.map(|class| format!(" (class {class})")).unwrap_or_default();
        self.line("Priority:", &format!("{}{class}", spec.priority.unwrap_or_default()));
        if let Some(node) = status.nominated_node_name {
            self.line("Nominated:", &format!("node {node} is kept free for it."));
        }
        for told in status.conditions.into_iter().flatten() {
            let interesting = match told.type_.as_str() {
                "PodScheduled" => told.status == "False",
                types::DISRUPTION_TARGET => told.status == "True",
                _ => false,
            };
            if let (true, Some(message)) = (interesting, told.message) {
                self.line(&format!("{}:", told.type_), &format!("{} {message}", told.reason.unwrap_or_default()));
            }
        }
        for (label, text) in self.facts.addon_lines() {
            self.line(label, &text);
        }
        if let Preemptor::Group(group) = self.facts.preemptor() {
            let cluster = &self.facts.world.cluster;
            let below = cluster.pod(self.facts.target.key()).is_some_and(|pod| cluster.is_below_group(pod));
            let text = match below {
                true => {
                    format!(
                        "podgroup/{group}, whose priority is above the pod's own. While the pod is pending it is not planned for or \
                         ungated as a member; as a victim it has its own priority."
                    )
                }
                false => format!("podgroup/{group}, which is decided as a whole."),
            };
            self.line("Member of:", &text);
        }
    }

    /// Adds to the page which preemptors evicted pods of the requested group or pod, and when.
    fn evictions(&mut self) {
        let facts = self.facts;
        let taken = facts.evicting_plans();
        // kube-scheduler's preemptions are only recorded in events, which are not needed if a Preemption names the
        // preemptor.
        let event = facts.events.iter().rev().filter(|event| event.reason == "Preempted");
        let event =
            event.clone().find(|event| event.by == OPERATOR).or_else(|| event.clone().find(|_| taken.is_empty()));
        if taken.is_empty() && event.is_none() {
            return;
        }
        self.head("Preempted by");
        for one in &taken {
            let when = match &one.plan.planned_at {
                Some(time) => format!(" at {} ({})", time.0, self.ago(time.0)),
                None => String::new(),
            };
            let what = match one.pods.as_slice() {
                [one] => format!("pod {one}"),
                all => format!("{} ({})", pods(all.len()), joined_names(all.iter().copied())),
            };
            let by = match &one.by {
                Some(by) => format!("{} (priority {})", paint(COSTS, by), one.plan.preemptor.priority),
                None => paint(COSTS, one.plan.cause.as_str()).to_string(),
            };
            self.line(
                "",
                &format!(
                    "{by}{}, by Preemption {}, made{when}; now {:?}: {what}.{}",
                    if one.plan.critical_addon.is_some() { ", a critical add-on" } else { "" },
                    one.plan.id,
                    one.plan.state,
                    step(one.plan).map(|step| format!(" {step}")).unwrap_or_default()
                ),
            );
        }
        if let Some(event) = event {
            let when = event.at.map(|at| format!("{at} ({}): ", self.ago(at))).unwrap_or_default();
            self.line("", &format!("{when}an event of {} says: {}", event.by, event.message));
        }
    }

    /// Adds to the page the last plan of the requested group or pod; if none is stored, what the status of the PodGroup says about it.
    fn last_decision(&mut self) {
        let facts = self.facts;
        let preemptor = facts.preemptor();
        let Some(plan) = facts.world.last_plan(&preemptor).cloned() else { return self.plan_in_status() };
        self.head("Last decision");
        let when = plan.planned_at.as_ref().map(|time| format!(" made {}", self.ago(time.0))).unwrap_or_default();
        let style = if plan.state.in_flight() { COSTS } else { GOOD };
        let what = format!(
            "{}: plan {} ({}){when}. {}",
            paint(style, format!("{:?}", plan.state)),
            plan.id,
            plan.strategy,
            plan.message
        );
        self.line("", &what);
        for (label, text) in facts.rescue_lines(&plan) {
            self.line(label, &text);
        }
        self.plan_victims(&plan);
        let nodes: Vec<&str> = plan.placements.iter().map(|placement| placement.node.as_str()).collect();
        let unique: std::collections::BTreeSet<&str> = nodes.iter().copied().collect();
        let pods = pods(nodes.len());
        let within = plan.domain.as_ref().map(|domain| format!(" in {domain}")).unwrap_or_default();
        self.line("Places:", &format!("{pods}{within} on {}.", joined_names(unique.into_iter())));
        if plan.state.in_flight() {
            self.waits_for(&plan);
        }
    }

    /// Adds to the page the last plan as the status of the PodGroup describes it, for users without permission to read Preemptions.
    fn plan_in_status(&mut self) {
        let status = self.facts.group.as_ref().and_then(|group| group.status.as_ref());
        let Some(plan) = status.and_then(|status| status.preemption.clone()) else { return };
        self.head("Last decision");
        let style = if plan.state.in_flight() { COSTS } else { GOOD };
        let what = format!(
            "{}: Preemption {} of {}. {}",
            paint(style, plan.state.as_str()),
            plan.name,
            counted(plan.victims, "victim", "victims"),
            plan.message
        );
        self.line("", &what);
    }

    /// Adds to the page a table of the pods and groups that a plan evicts.
    fn plan_victims(&mut self, plan: &StoredPlan) {
        if plan.victims.is_empty() {
            return;
        }
        let mut rows = vec![["VICTIM", "PRIORITY", "PODS", "BUDGET"].map(str::to_owned).to_vec()];
        rows.extend(plan.victims.iter().map(|victim| {
            vec![
                format!("{}/{}/{}", victim.kind.to_lowercase(), victim.namespace, victim.name),
                victim.priority.to_string(),
                joined_names(victim.pods.iter().map(|pod| pod.name.as_str())),
                if victim.violates_budget { "violated" } else { "kept" }.to_owned(),
            ]
        }));
        self.out.push_str(&table(rows, self.width));
    }

    /// Adds to the page which victims of a plan in progress are not evicted yet or have not terminated.
    fn waits_for(&mut self, plan: &StoredPlan) {
        let cluster = &self.facts.world.cluster;
        let (mut leaving, mut staying) = (Vec::new(), Vec::new());
        for victim in &plan.victims {
            for pod in &victim.pods {
                let key = giveway_planner::ObjectKey::new(&victim.namespace, &pod.name);
                match cluster.pod(&key).filter(|found| found.uid == pod.uid) {
                    Some(found) if found.terminating => leaving.push(key.to_string()),
                    Some(_) => staying.push(key.to_string()),
                    None => {}
                }
            }
        }
        let mut parts = Vec::new();
        if !staying.is_empty() {
            parts.push(format!(
                "{} not evicted yet: {}",
                staying.len(),
                joined_names(staying.iter().map(String::as_str))
            ));
        }
        if !leaving.is_empty() {
            parts.push(format!("{} terminating: {}", leaving.len(), joined_names(leaving.iter().map(String::as_str))));
        }
        if parts.is_empty() {
            parts.push("no victim any more; kube-scheduler binds the pods".to_owned());
        }
        self.line("Waits for:", &format!("{}.", parts.join("; ")));
    }

    /// Adds to the page what Giveway would decide for the requested group or pod now, if that was computed.
    fn now(&mut self) {
        let facts = self.facts;
        let Some(answer) = &facts.answer else { return };
        self.head("If it were decided now");
        let style = match (answer.schedulable, answer.preemption_needed) {
            (false, _) => BAD,
            (true, true) => COSTS,
            (true, false) => GOOD,
        };
        let reason = answer.reason.map(|reason| format!("{} ", paint(style, reason))).unwrap_or_default();
        self.line("", &format!("{reason}{}", answer.message));
        if !answer.victims.is_empty() {
            self.out.push_str(&victims(&answer.victims, self.width));
        }
        for note in &answer.notes {
            self.line("Note:", note);
        }
        if !facts.changes.is_empty() {
            self.head("What would change it");
            for change in &facts.changes {
                self.line("-", change);
            }
        }
    }

    /// Adds to the page a table of the last [`EVENTS`] events about the requested group or pod.
    fn events(&mut self) {
        let facts = self.facts;
        if facts.events.is_empty() {
            return;
        }
        self.head("Events");
        let mut rows = vec![["AGE", "TYPE", "REASON", "MESSAGE"].map(str::to_owned).to_vec()];
        let first = facts.events.len().saturating_sub(EVENTS);
        rows.extend(facts.events[first..].iter().map(|event| {
            vec![
                event.at.map_or_else(|| "-".to_owned(), |at| age(facts.now, at)),
                event.type_.clone(),
                event.reason.clone(),
                event.message.clone(),
            ]
        }));
        self.out.push_str(&table(rows, self.width));
    }
}

#[cfg(test)]
mod tests {
    use super::super::creation::FailedCreation;
    use super::super::events::ObservedEvent;
    use super::*;
    use crate::live::Objects;
    use crate::world::World;
    use giveway_planner::ObjectKey;

    fn page(events: &[(&str, &str)]) -> String {
        let happened = |(by, message): &(&str, &str)| ObservedEvent {
            at: None,
            type_: "Normal".to_owned(),
            reason: "Preempted".to_owned(),
            message: (*message).to_owned(),
            by: (*by).to_owned(),
        };
        let facts = Evidence {
            target: Preemptor::Pod(ObjectKey::new("team", "p")),
            world: World::new(Objects { source: "test".to_owned(), ..Objects::default() }, false).unwrap(),
            group: None,
            pod: None,
            events: events.iter().map(happened).collect(),
            failed: None,
            answer: None,
            changes: Vec::new(),
            now: "2026-11-21T12:00:00Z".parse().unwrap(),
        };
        text(&facts, None)
    }

    #[test]
    fn a_group_that_does_not_exist_because_no_pod_can_be_created_has_the_reason_on_its_page() {
        let event = ObservedEvent {
            at: Some("2026-11-21T11:59:00Z".parse().unwrap()),
            type_: "Warning".to_owned(),
            reason: "FailedCreate".to_owned(),
            message: "Error creating: pods \"train-x\" is forbidden: exceeded quota: q".to_owned(),
            by: "job-controller".to_owned(),
        };
        let facts = Evidence {
            target: Preemptor::Group(ObjectKey::new("team", "train")),
            world: World::new(Objects { source: "test".to_owned(), ..Objects::default() }, false).unwrap(),
            group: None,
            pod: None,
            events: Vec::new(),
            failed: Some(FailedCreation { controller: "Job train".to_owned(), event }),
            answer: None,
            changes: Vec::new(),
            now: "2026-11-21T12:00:00Z".parse().unwrap(),
        };
        let page = text(&facts, None);
        for words in [
            "The PodGroup does not exist.",
            " It is created with the first pod of Job train.",
            "Last failure: FailedCreate of Job train (60s ago): Error creating: pods \"train-x\" is forbidden: exceeded quota: q",
        ] {
            assert!(page.contains(words), "{words} is not in:\n{page}");
        }
    }

    #[test]
    fn the_preemptor_of_an_event_is_printed_as_quoted_and_the_operator_has_precedence() {
        let foreign = ("tenant", "By other.\nState: \u{1b}[1AScheduled");
        let text_of_page = page(&[foreign]);
        let words = "\nan event of tenant says: By other.\\nState: \\u001b[1AScheduled\n";
        assert!(text_of_page.contains(words), "{words} is not in:\n{text_of_page}");
        let text_of_page = page(&[(OPERATOR, "By train."), foreign]);
        assert!(text_of_page.contains("\nan event of giveway-operator says: By train.\n"), "{text_of_page}");
        assert!(!text_of_page.contains("an event of tenant"), "{text_of_page}");
    }
}
