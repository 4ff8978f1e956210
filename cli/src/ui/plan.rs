//! The view *Plan*: what the operator does or would do for a pending group or pod, or for manifests that are not submitted.

use super::map::{NodeMap, PlanOnNodes};
use super::page_error::PageError;
use crate::answer::PlanAnswer;
use crate::changes;
use crate::overview::Snapshot;
use crate::overview::usage::Capacity;
use crate::plan::of_manifests;
use crate::why::now;
use crate::world::World;
use giveway_crds::plan::{PlanState, StoredCost, StoredDomain, StoredPlacement, StoredPlan, StoredVictim};
use giveway_planner::{Decision, Preemptor, Strategy};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

/// Name of the pasted text in messages.
const PASTED: &str = "manifest";

/// What users without the right to see the cluster read instead of a plan.
const BLIND: &str = "Nothing is planned here, because a plan needs all Nodes, Pods, PodDisruptionBudgets and PriorityClasses of the \
                     cluster, and you may not list them. The chart's ClusterRole giveway-planner allows it.";

/// The view *Plan* of the page: the last plan for a preemptor, and what would be decided now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanView<'s> {
    /// What the plan is for, as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`; of manifests, all that they create.
    preemptor: String,
    /// The stored plan in progress, or else the last one.
    stored: Option<StoredView<'s>>,
    /// What the planner decides now.
    answer: Option<PlanAnswer>,
    /// What would change the decision, as sentences.
    changes: Vec<String>,
    /// What is missing in this view, as a sentence.
    hidden: Option<&'static str>,
    map: Option<NodeMap>,
}

/// A stored plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredView<'s> {
    id: &'s str,
    state: PlanState,
    in_flight: bool,
    cause: &'static str,
    strategy: &'s str,
    reason: &'s str,
    message: &'s str,
    planned_at: Option<&'s Time>,
    domain: Option<&'s StoredDomain>,
    placements: &'s [StoredPlacement],
    victims: &'s [StoredVictim],
    cost: StoredCost,
}

impl<'s> From<&'s StoredPlan> for StoredView<'s> {
    /// Selects what the page shows of a stored plan.
    fn from(plan: &'s StoredPlan) -> Self {
        Self {
            id: &plan.id,
            state: plan.state,
            in_flight: plan.state.in_flight(),
            cause: plan.cause.as_str(),
            strategy: &plan.strategy,
            reason: &plan.reason,
            message: &plan.message,
            planned_at: plan.planned_at.as_ref(),
            domain: plan.domain.as_ref(),
            placements: &plan.placements,
            victims: &plan.victims,
            cost: plan.cost.clone(),
        }
    }
}

/// Returns the page *Plan* about an existing group or pod: its last plan, and what would be decided now. `resource` is the one that the
/// map shows (`None`: the scarcest).
pub(super) fn of_existing<'s>(
    snapshot: &'s Snapshot,
    target: &Preemptor,
    resource: Option<&str>,
) -> Result<PlanView<'s>, PageError> {
    let world = &snapshot.world;
    let preemptor = now::preemptor(world, target);
    let stored = world.last_plan(&preemptor);
    if !world.has(&preemptor) && stored.is_none() {
        return Err(PageError::new(StatusCode::NOT_FOUND, format!("{preemptor} does not exist.")));
    }
    let current = now::decide(world, target);
    let marks = match (&current.answer, stored.filter(|plan| plan.state.in_flight())) {
        (Some(answer), _) => PlanOnNodes::of_answer(answer),
        (None, Some(plan)) => PlanOnNodes::of_stored(plan),
        (None, None) => PlanOnNodes::default(),
    };
    let domain = stored.and_then(|plan| plan.domain.as_ref()).map(|domain| domain.key.as_str());
    let domain =
        current.answer.as_ref().and_then(|answer| answer.domain.as_ref()).map(|domain| domain.key.as_str()).or(domain);
    let map = map(world, resource, domain, &marks);
    Ok(PlanView {
        preemptor: preemptor.to_string(),
        stored: stored.map(StoredView::from),
        changes: current.changes,
        hidden: world.blind.then_some(BLIND),
        map,
        answer: current.answer,
    })
}

/// Returns the page *Plan* about manifests in a text: what would be decided if they were submitted to `namespace`, or to that of the
/// command. `resource` is the one that the map shows (`None`: the scarcest).
pub(super) fn of_text(
    snapshot: &Snapshot,
    text: String,
    namespace: Option<&str>,
    resource: Option<&str>,
) -> Result<PlanView<'static>, PageError> {
    if snapshot.world.blind {
        return Err(PageError::new(StatusCode::FORBIDDEN, BLIND));
    }
    let mut world = snapshot.world.clone();
    let (files, strategy) = ([(PASTED.to_owned(), text)], Strategy::default());
    let planned = of_manifests(&mut world, &files, namespace.unwrap_or(&snapshot.namespace), namespace, strategy)?;
    // What would change the first decision that finds no capacity; each change is planned, which takes time.
    let waits = planned.outcomes.iter().find(|outcome| matches!(outcome.decision, Decision::Unschedulable(_)));
    let changes = waits.map(|outcome| changes::of(&world, outcome, strategy)).unwrap_or_default();
    let answer = planned.answer;
    let domain = answer.domain.as_ref().map(|domain| domain.key.as_str());
    let map = map(&world, resource, domain, &PlanOnNodes::of_answer(&answer));
    Ok(PlanView { preemptor: answer.preemptor.clone(), stored: None, changes, hidden: None, map, answer: Some(answer) })
}

/// Returns the map of nodes for `resource` (`None`: the scarcest), with the pods that a plan places and evicts there (`marks`).
/// `domain` is the topology key of the plan. `None` if no node offers the resource.
fn map(world: &World, resource: Option<&str>, domain: Option<&str>, marks: &PlanOnNodes<'_>) -> Option<NodeMap> {
    let capacity = Capacity::of(&world.cluster, i32::MIN);
    Some(NodeMap::of(world, &capacity, capacity.chosen(resource)?, domain, marks))
}

impl<'p> PlanOnNodes<'p> {
    /// Counts the placed pods and the victims of an answer of `plan` by node.
    fn of_answer(answer: &'p PlanAnswer) -> Self {
        let mut marks = Self::default();
        for placement in &answer.placements {
            *marks.placed.entry(placement.node.as_str()).or_default() += 1;
        }
        for node in answer.victims.iter().flat_map(|victim| &victim.nodes) {
            *marks.victims.entry(node.as_str()).or_default() += 1;
        }
        marks
    }

    /// Counts the placed pods and the victims of a stored plan by node.
    fn of_stored(plan: &'p StoredPlan) -> Self {
        let mut marks = Self::default();
        for placement in &plan.placements {
            *marks.placed.entry(placement.node.as_str()).or_default() += 1;
        }
        for pod in plan.victims.iter().flat_map(|victim| &victim.pods) {
            *marks.victims.entry(pod.node.as_str()).or_default() += 1;
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::samples;
    use giveway_planner::ObjectKey;
    use serde_json::{Value, json};

    fn group(name: &str) -> Preemptor {
        Preemptor::Group(ObjectKey::new("ml", name))
    }

    #[test]
    fn of_a_group_without_a_plan_the_planner_s_decision_is_shown_with_victims_criteria_and_nodes() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(of_existing(&snapshot, &group("a-late"), None).unwrap()).unwrap();
        let answer = &view["answer"];
        assert_eq!((&answer["schedulable"], &answer["preemptionNeeded"]), (&json!(true), &json!(true)), "{view:#}");
        let victim = &answer["victims"][0];
        assert_eq!(victim["owner"], format!("Job/{}", samples::HOSTILE), "{view:#}");
        assert!(victim["why"].as_str().is_some_and(|why| !why.is_empty()), "{view:#}");
        assert!(answer["trace"].as_array().is_some_and(|trace| !trace.is_empty()), "{view:#}");
        assert_eq!(
            (&view["map"]["resource"], &view["stored"], &view["hidden"]),
            (&json!("cpu"), &Value::Null, &Value::Null)
        );
        let marked = |cell: &&Value| cell["placed"] != 0 && cell["victims"] != 0;
        assert_eq!(view["map"]["cells"].as_array().unwrap().iter().filter(marked).count(), 1, "{view:#}");
    }

    #[test]
    fn of_a_group_with_a_plan_in_progress_the_stored_plan_is_shown() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(of_existing(&snapshot, &group("early"), None).unwrap()).unwrap();
        assert_eq!((&view["answer"], &view["stored"]["inFlight"]), (&Value::Null, &json!(true)));
        assert_eq!((&view["stored"]["id"], &view["stored"]["state"]), (&json!("a-1"), &json!("Evicting")));
        assert_eq!(view["map"]["cells"][0]["victims"], 1);
        let none = of_existing(&snapshot, &group("none"), None).unwrap_err();
        assert_eq!((none.status, none.message.as_str()), (StatusCode::NOT_FOUND, "podgroup/ml/none does not exist."));
    }

    #[test]
    fn a_pasted_manifest_is_planned_and_what_would_change_it_is_said() {
        let snapshot = samples::snapshot();
        let pod = |cpu: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
        };
        let planned = |text: String| of_text(&snapshot, text, None, None);
        let view = serde_json::to_value(planned(pod("40").to_string()).unwrap()).unwrap();
        assert_eq!((&view["preemptor"], &view["answer"]["schedulable"]), (&json!("pod/default/new"), &json!(false)));
        assert!(!view["changes"].as_array().unwrap().is_empty(), "{view:#}");
        let error = planned("kind: [".to_owned()).unwrap_err();
        assert_eq!(error.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(error.message.starts_with("manifest: is neither JSON nor YAML: "), "{}", error.message);
        assert!(
            snapshot.world.cluster.pod(&ObjectKey::new("default", "new")).is_none(),
            "the snapshot does not change"
        );
    }

    #[test]
    fn a_user_who_may_not_see_the_cluster_gets_no_plan_and_the_reason() {
        let mut snapshot = samples::snapshot();
        snapshot.world.blind = true;
        let view = of_existing(&snapshot, &group("a-late"), None).unwrap();
        assert!(view.answer.is_none() && view.hidden.is_some_and(|why| why.contains("giveway-planner")));
        let error = of_text(&snapshot, String::new(), None, None).unwrap_err();
        assert_eq!((error.status, error.message.as_str()), (StatusCode::FORBIDDEN, BLIND));
    }
}
