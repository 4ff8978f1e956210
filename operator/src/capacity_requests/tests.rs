//! Tests for which gangs capacity is requested, by which method, and when the request ends.

use super::*;
use crate::messages::input::{Input, Update};
use crate::testing::{TestPod, World};
use clap::Parser as _;
use giveway_crds::condition::Reason;
use giveway_crds::keys::LABEL_PLACEHOLDER;
use serde_json::json;

const METHOD: ProvisioningMethod = ProvisioningMethod::ProvisioningRequest;

struct Scene {
    world: World,
    provisioning: Provisioning,
    config: Config,
    start: Instant,
}

impl Scene {
    /// Returns a scene with gang `g` of two gated pods of a managed priority class.
    fn new(method: ProvisioningMethod) -> Self {
        let mut world = World::new();
        world.class(json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}));
        world.node("n1", 1).group_of_class("g", 2, 10, "high");
        for name in ["g0", "g1"] {
            world.pod(TestPod::new(name, 10).of("g").gated());
        }
        let flags = ["giveway-operator", "--provisioning-first", "--provisioning-limit=4"];
        let config = Config { provisioning_method: method, ..Config::parse_from(flags) };
        Self { world, provisioning: Provisioning::default(), config, start: Instant::now() }
    }

    fn pass(&mut self, wait: Option<CapacityNeed>, second: u64) -> Vec<Command> {
        let key = self.world.key("g");
        let waits = || wait.map(|wait| (key, wait)).into_iter().collect();
        let now = self.start + Duration::from_secs(second);
        let clock = Clock { now, epoch_seconds: i64::try_from(second).unwrap() };
        self.provisioning.pass(&self.world.model, waits, &self.config, clock)
    }

    fn reason(&self) -> (Reason, &str) {
        let reason = self.provisioning.reason(&self.world.key("g")).unwrap();
        (reason.reason, &reason.message)
    }

    /// Simulates that the operator's calls succeeded, and that the watch shows the request with this condition.
    fn request(&mut self, name: &str, condition: &str) {
        let owner = json!([{"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "name": "g", "uid": "uid-g",
            "controller": true}]);
        let request = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "ownerReferences": owner,
                "labels": {"scheduling.giveway.dev/provisioning": "g"}},
            "spec": {"podSets": [], "provisioningClassName": "c"},
            "status": {"conditions": [{"type": condition, "status": "True", "reason": "R", "message": "No quota.",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        });
        let request = Box::new(serde_json::from_value(request).unwrap());
        self.world.model.apply(Input::Request(Update::Applied(request)));
    }

    fn placeholder(&mut self, member: &str, node: Option<&str>) {
        let name = format!("placeholder-uid-{member}");
        let pod = TestPod::new(&name, 10).labelled(LABEL_PLACEHOLDER, "g").owned_by_group("g");
        self.world.pod(match node {
            Some(node) => pod.on(node),
            None => pod.unschedulable(),
        });
    }
}

fn name(commands: &[Command]) -> String {
    let [Command::RequestCapacity(asked)] = commands else { panic!("{commands:?}") };
    assert_eq!(asked.sets.len(), 1, "both are alike");
    assert_eq!(asked.sets[0].1, 2);
    asked.name.clone()
}

#[test]
fn capacity_is_requested_after_a_time_or_at_once_for_a_plan_and_withdrawn_without_pending_members() {
    let mut scene = Scene::new(METHOD);
    assert!(scene.pass(Some(CapacityNeed::Capacity), 0).is_empty());
    assert!(scene.pass(Some(CapacityNeed::Capacity), 29).is_empty());
    let asked = name(&scene.pass(Some(CapacityNeed::Capacity), 30));
    assert_eq!(scene.reason().0, Reason::CapacityRequested);
    scene.request(&asked, "Accepted");
    let (group, request) = (scene.world.key("g"), scene.world.key(&asked));
    let call = CallKey::RequestCapacity { group, request };
    scene.provisioning.answered(&call, &Ok(()), scene.start + Duration::from_secs(31));
    assert!(scene.pass(Some(CapacityNeed::Capacity), 40).is_empty(), "it is made, and complete");
    assert_eq!(scene.reason().0, Reason::CapacityAccepted);
    assert!(scene.pass(Some(CapacityNeed::Placed), 41).is_empty(), "until the members have their places");
    let commands = scene.pass(None, 42);
    assert!(
        matches!(&commands[..], [Command::WithdrawRequest { request, .. }] if request.name == asked),
        "{commands:?}"
    );
    let mut other = Scene::new(METHOD);
    name(&other.pass(Some(CapacityNeed::Postponed), 0));
}

#[test]
fn a_failed_request_is_reported_and_repeated_under_another_name_after_a_while() {
    let mut scene = Scene::new(METHOD);
    let first = name(&scene.pass(Some(CapacityNeed::Postponed), 0));
    scene.request(&first, "Failed");
    assert!(scene.pass(Some(CapacityNeed::Postponed), 1).iter().all(|c| !matches!(c, Command::WithdrawRequest { .. })));
    let (reason, message) = scene.reason();
    assert_eq!(reason, Reason::CapacityFailed);
    assert!(message.contains("Failed: No quota. The request is repeated at 1970-01-01T00:01:01Z."), "{message}");
    assert!(scene.pass(Some(CapacityNeed::Postponed), 60).is_empty());
    let commands = scene.pass(Some(CapacityNeed::Postponed), 62);
    let [Command::RequestCapacity(again), Command::WithdrawRequest { request, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_ne!(again.name, first);
    assert_eq!(request.name, first);
}

#[test]
fn each_member_has_a_placeholder_and_the_capacity_exists_when_all_are_bound() {
    let mut scene = Scene::new(ProvisioningMethod::Placeholder);
    let commands = scene.pass(Some(CapacityNeed::Postponed), 0);
    let names: Vec<String> = commands
        .iter()
        .map(|command| match command {
            Command::MakePlaceholder(placeholder) => placeholder.name(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["placeholder-uid-g0", "placeholder-uid-g1"]);
    scene.placeholder("g0", Some("n1"));
    scene.placeholder("g1", None);
    assert!(scene.pass(Some(CapacityNeed::Postponed), 1).is_empty());
    let words =
        "Capacity for 2 pods is requested from the cluster autoscaler by 2 placeholder pods, of which 1 is bound.";
    assert_eq!(scene.reason(), (Reason::CapacityRequested, words));
    // A placeholder that is not needed any more is deleted; all of them are deleted when the gang is not pending.
    scene.placeholder("gone", Some("n1"));
    let commands = scene.pass(Some(CapacityNeed::Postponed), 2);
    assert!(matches!(&commands[..], [Command::RemovePlaceholder { .. }]), "{commands:?}");
    assert_eq!(scene.pass(None, 10).len(), 2, "the third one is being removed already");
}

#[test]
fn placeholders_reserve_insufficient_capacity_for_a_limited_time() {
    let mut scene = Scene::new(ProvisioningMethod::Placeholder);
    scene.pass(Some(CapacityNeed::Postponed), 0);
    scene.placeholder("g0", Some("n1"));
    scene.placeholder("g1", None);
    assert!(scene.pass(Some(CapacityNeed::Capacity), 599).is_empty());
    assert_eq!(scene.pass(Some(CapacityNeed::Capacity), 600).len(), 2, "both are removed");
    let (reason, message) = scene.reason();
    assert_eq!(reason, Reason::CapacityFailed);
    assert!(message.contains("within 10 minutes only 1 of 2 placeholder pods got a node"), "{message}");
}

#[test]
fn a_rejected_request_is_reported_and_other_placeholders_are_deleted() {
    let mut scene = Scene::new(ProvisioningMethod::Placeholder);
    scene.pass(Some(CapacityNeed::Postponed), 0);
    scene.placeholder("g0", Some("n1"));
    let refused = Err(CallError::Failed("exceeded quota: few (403)".to_owned()));
    let (group, pod) = (scene.world.key("g"), scene.world.key("placeholder-uid-g1"));
    let call = CallKey::CreatePlaceholder { group, pod };
    scene.provisioning.answered(&call, &refused, scene.start + Duration::from_secs(1));
    let commands = scene.pass(Some(CapacityNeed::Postponed), 2);
    assert!(matches!(&commands[..], [Command::RemovePlaceholder { .. }]), "{commands:?}");
    assert!(scene.reason().1.contains("exceeded quota: few (403). The request is repeated at"), "{:?}", scene.reason());
}

#[test]
fn no_capacity_is_requested_for_a_too_large_gang_or_if_placeholders_would_preempt() {
    let mut scene = Scene::new(ProvisioningMethod::Placeholder);
    for name in ["g2", "g3", "g4"] {
        scene.world.pod(TestPod::new(name, 10).of("g").gated());
    }
    assert!(scene.pass(Some(CapacityNeed::Postponed), 0).is_empty());
    assert!(
        scene.reason().1.contains("5 pods are pending, and the operator's flag --provisioning-limit allows at most 4."),
        "{:?}",
        scene.reason()
    );
    let mut scene = Scene::new(ProvisioningMethod::Placeholder);
    scene.world.class(json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "PreemptLowerPriority"}));
    assert!(scene.pass(Some(CapacityNeed::Postponed), 0).is_empty());
    assert!(scene.reason().1.contains("the priority class of the pods is not managed"), "{:?}", scene.reason());
}

#[test]
fn placeholders_of_an_earlier_group_do_not_count_and_are_deleted_also_if_requests_are_disabled() {
    let mut scene = Scene::new(ProvisioningMethod::Off);
    assert!(scene.pass(Some(CapacityNeed::Capacity), 0).is_empty());
    scene.world.pod(TestPod::new("stray", 10).labelled(LABEL_PLACEHOLDER, "g").owned_by_group("other").on("n1"));
    scene.placeholder("g0", Some("n1"));
    assert_eq!(scene.world.model.placeholders(&scene.world.key("g")).count(), 1);
    assert_eq!(scene.pass(Some(CapacityNeed::Capacity), 1).len(), 1);
}

/// Users who may create ProvisioningRequests in the namespace can forge one, with the UID of their own PodGroup and under any name.
#[test]
fn a_forged_request_changes_only_the_message_of_its_group_and_is_deleted() {
    let withdrawn = |commands: &[Command]| -> Vec<String> {
        let name = |command: &Command| match command {
            Command::WithdrawRequest { request, .. } => Some(request.name.to_string()),
            _ => None,
        };
        commands.iter().filter_map(name).collect()
    };
    let mut scene = Scene::new(METHOD);
    scene.request("forged", "Provisioned");
    let commands = scene.pass(Some(CapacityNeed::Postponed), 0);
    assert_eq!(withdrawn(&commands), ["forged"]);
    assert_eq!(scene.reason().0, Reason::CapacityRequested, "it is not the request of this attempt");
    let asked = commands.iter().find_map(|command| match command {
        Command::RequestCapacity(asked) => Some(asked.name.clone()),
        _ => None,
    });
    let asked = asked.unwrap();
    scene.request(&asked, "Provisioned");
    let commands = scene.pass(Some(CapacityNeed::Postponed), 1);
    assert!(commands.is_empty(), "{commands:?}");
    assert_eq!(scene.reason().0, Reason::CapacityProvisioned);
    assert_eq!(withdrawn(&scene.pass(None, 2)), [asked], "it is deleted with the wait of its group");
}
