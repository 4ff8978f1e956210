//! What has to be done besides deciding: groups made from templates, the finalizer that protects them, the summary of
//! workloads, and the word to pods whose group does not exist.

use crate::command::{Command, Notice};
use crate::ledger::{Call, Clock, Flights};
use crate::model::Model;
use crate::status;
use giveway_crds::condition::Reason;
use giveway_crds::native;
use giveway_crds::pod_group::{PodGroup, PodGroupSpec, PodGroupTemplateRef, WorkloadTemplateRef};
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// How long after its end a plan for a critical add-on may have left a nomination, in seconds.
const LATELY: i64 = 600;

/// What was done already, so that nothing is done twice.
#[derive(Debug, Default)]
pub struct Housekeeping {
    /// Pods that were told that their group does not exist, by UID.
    orphans: BTreeSet<SmolStr>,
    /// Calls under way, by what they write.
    calls: BTreeMap<String, Call>,
    /// Groups that have to be looked at again, because a call for them has not shown its effect.
    again: BTreeSet<ObjectKey>,
    /// Workloads, likewise.
    again_workloads: BTreeSet<ObjectKey>,
}

impl Housekeeping {
    /// Notes the answer to a call.
    pub fn answered(&mut self, what: &str, ok: bool, now: Instant) {
        self.calls.entry(what.to_owned()).or_default().answered(ok, now);
    }

    /// Whether a call is to be made now.
    fn start(&mut self, what: String, group: &ObjectKey, now: Instant) -> bool {
        let call = self.calls.entry(what).or_default();
        let due = call.due(now);
        if due {
            call.start();
        }
        // Looked at again until the watch shows the effect, or the call is made again.
        self.again.insert(group.clone());
        due
    }

    /// What is to be done for the groups that something happened to.
    pub fn pass(
        &mut self,
        model: &Model,
        touched: &BTreeSet<ObjectKey>,
        mut workloads: BTreeSet<ObjectKey>,
        clock: Clock,
    ) -> Vec<Command> {
        let now = clock.now;
        self.forget(now);
        let mut commands = Vec::new();
        workloads.append(&mut self.again_workloads);
        let keys: BTreeSet<ObjectKey> =
            std::mem::take(&mut self.again).into_iter().chain(touched.iter().cloned()).collect();
        for key in &keys {
            match model.groups.get(key) {
                Some(record) => {
                    if let Some((workload, _)) = &record.template {
                        workloads.insert(ObjectKey::new(&key.namespace, workload));
                    }
                    let live = model.cluster.members(key).any(|p| !p.ended() && model.keeps(record, p));
                    let wanted = live != record.protected && !(live && record.deleting);
                    let what = format!("finalizer of pod group {key}: {live}");
                    if wanted && self.start(what, key, now) {
                        commands.push(Command::Protect { group: key.clone(), uid: record.uid.clone(), protect: live });
                    }
                }
                None if native::is_native(&key.name) => {}
                None => self.missing(model, key, now, &mut commands),
            }
        }
        for workload in workloads {
            let Some(record) = model.workloads.get(&workload) else { continue };
            let wanted = status::workload_status(model, &workload, clock.time());
            if record.object.status.as_ref() == Some(&wanted) {
                continue;
            }
            self.again_workloads.insert(workload.clone());
            let call = self.calls.entry(format!("status of workload {workload}")).or_default();
            if call.due(now) {
                call.start();
                commands.push(Command::WriteWorkloadStatus { workload, status: Box::new(wanted) });
            }
        }
        commands
    }

    /// Nominations that no decision stands behind any more, because withdrawing them failed or a leader died: without
    /// this they would keep a place from others for ever. Only of pods that kube-scheduler nominates for nobody: held
    /// ones; of those that it could not place the ones of managed classes, members of groups that never preempt, and
    /// critical add-ons whose plan was over in the last ten minutes and had this node.
    pub fn stray_nominations(&mut self, model: &Model, flights: &Flights, clock: Clock) -> Vec<Command> {
        let now = clock.now;
        let meant: BTreeSet<&str> = flights.values().flat_map(|f| &f.members).map(|m| m.uid.as_str()).collect();
        let mut commands = Vec::new();
        for pod in model.cluster.unbound().filter(|p| p.nominated_node.is_some()) {
            let node = pod.nominated_node.as_deref().unwrap_or_default();
            let rescued = || model.plans.nominated(&pod.uid, node, clock.epoch_seconds - LATELY);
            // kube-scheduler nominates for its own groups, whatever the policy of their pods.
            if pod.native() {
                continue;
            }
            let member = pod.group.is_some() && pod.spec_policy == PreemptionPolicy::Never;
            let ours = pod.held || (pod.unschedulable && (pod.annotation_policy.is_some() || member || rescued()));
            if !ours || meant.contains(pod.uid.as_str()) {
                continue;
            }
            // Reports of withdrawals are not kept: the watch shows the effect, or it is tried again.
            let call = self.calls.entry(nomination_of(&pod.uid)).or_default();
            if call.due(now) {
                *call = Call::Done(now);
                commands.push(Command::Nominate {
                    preemptor: Preemptor::Pod(pod.key.clone()),
                    plan: String::new(),
                    pod: pod.key.clone(),
                    uid: pod.uid.clone(),
                    node: None,
                });
            }
        }
        commands
    }

    /// A plan has asked for the withdrawal of its nomination of this pod.
    pub fn withdrawn(&mut self, uid: &str, now: Instant) {
        self.calls.insert(nomination_of(uid), Call::Done(now));
    }

    /// Forgets calls that are over, also those for objects that are gone.
    fn forget(&mut self, now: Instant) {
        self.calls.retain(|_, call| !call.is_over(now));
    }

    /// Pods name a group that does not exist: make it from its template, or say that it is missing. Those that a label asked
    /// for are made in [`crate::gangs`].
    fn missing(&mut self, model: &Model, key: &ObjectKey, now: Instant, commands: &mut Vec<Command>) {
        let members: Vec<&Pod> = model.cluster.members(key).filter(|p| p.live()).collect();
        if members.iter().any(|pod| model.gang_of(pod).is_some()) {
            return;
        }
        if let Some(group) = members.iter().find_map(|pod| from_template(model, key, pod)) {
            if self.start(format!("pod group {key}"), key, now) {
                commands.push(Command::CreateGroup(Box::new(group)));
            }
            return;
        }
        for pod in members {
            if !self.orphans.insert(pod.uid.clone()) {
                continue;
            }
            let note = match &pod.template {
                Some((workload, template)) => format!(
                    "Pod group {} does not exist and cannot be made: workload {workload} with a template {template} was not found in namespace {}. The pod waits until there is one.",
                    key.name, key.namespace
                ),
                None => format!(
                    "Pod group {} does not exist in namespace {}. The pod waits until it is created.",
                    key.name, key.namespace
                ),
            };
            commands.push(Command::Publish(Notice {
                kind: "Pod",
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                warning: true,
                reason: Reason::PodGroupNotFound,
                action: "Holding".to_owned(),
                note: note.into(),
            }));
        }
        if self.orphans.len() > 100_000 {
            self.orphans.clear();
        }
    }
}

/// Under which name the withdrawal of a pod's nomination is remembered.
fn nomination_of(uid: &str) -> String {
    format!("nomination of {uid}")
}

/// The group that a pod's template describes; owned by the pod's controller, so that it goes when that goes.
fn from_template(model: &Model, key: &ObjectKey, pod: &Pod) -> Option<PodGroup> {
    let (workload, name) = pod.template.as_ref()?;
    let record = model.workloads.get(&ObjectKey::new(&key.namespace, workload))?;
    let template = record.object.spec.pod_group_templates.iter().find(|t| t.name == *name)?;
    let owner = pod.owner.as_ref().map(|o| OwnerReference {
        api_version: o.api_version.clone(),
        kind: o.kind.clone(),
        name: o.name.clone(),
        uid: o.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    });
    let spec = PodGroupSpec {
        pod_group_template_ref: Some(PodGroupTemplateRef {
            workload: WorkloadTemplateRef { workload_name: workload.clone(), pod_group_template_name: name.clone() },
        }),
        scheduling_policy: template.scheduling_policy.clone(),
        scheduling_constraints: template.scheduling_constraints.clone(),
        disruption_mode: template.disruption_mode,
        priority_class_name: template.priority_class_name.clone(),
        ..PodGroupSpec::default()
    };
    Some(PodGroup {
        metadata: ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            owner_references: owner.map(|o| vec![o]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use serde_json::json;
    use std::time::Duration;

    fn pass(housekeeping: &mut Housekeeping, world: &mut World, now: Instant) -> Vec<Command> {
        let touched = std::mem::take(&mut world.model.touched);
        housekeeping.pass(&world.model, &touched, BTreeSet::new(), Clock { now, epoch_seconds: 0 })
    }

    #[test]
    fn the_first_pod_of_a_template_makes_its_group_once() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.workload("serve", "worker").pod(TestPod::new("p", 0).templated("serve", "worker"));
        let commands = pass(&mut housekeeping, &mut world, now);
        let [Command::CreateGroup(group)] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(group.metadata.name.as_deref(), Some("serve-worker"));
        assert_eq!(group.spec.scheduling_policy.min_count(), Some(2));
        assert_eq!(group.spec.priority_class_name.as_deref(), Some("high"));
        assert!(pass(&mut housekeeping, &mut world, now).is_empty(), "the first call has no answer yet");
        housekeeping.answered("pod group default/serve-worker", false, now);
        let later = now + Duration::from_secs(1);
        assert!(matches!(pass(&mut housekeeping, &mut world, later)[..], [Command::CreateGroup(_)]), "tried again");
    }

    #[test]
    fn a_pod_without_its_group_is_told_once() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.pod(TestPod::new("p", 0).of("g").held());
        let commands = pass(&mut housekeeping, &mut world, now);
        let [Command::Publish(notice)] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(
            notice.note.to_string(),
            "Pod group g does not exist in namespace default. The pod waits until it is created."
        );
        world.pod(TestPod::new("p", 0).of("g").held());
        assert!(pass(&mut housekeeping, &mut world, now).is_empty());
    }

    #[test]
    fn a_native_group_gets_no_word_no_finalizer_and_no_nomination_withdrawn() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).native_group("a", 10, "all");
        for group in ["a", "missing"] {
            let pod = TestPod::new(&format!("of-{group}"), 0).native(group);
            world.pod(pod.managed().unschedulable().nominated("n1").spec("preemptionPolicy", json!("Never")));
        }
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(commands.is_empty(), "{commands:?}");
        // The arbiter looks at the groups of victims, whatever they are.
        let touched = BTreeSet::from([world.key(&native::key_name("a"))]);
        let clock = Clock { now, epoch_seconds: 0 };
        let commands = housekeeping.pass(&world.model, &touched, BTreeSet::new(), clock);
        assert!(commands.is_empty(), "{commands:?}");
        let commands = housekeeping.stray_nominations(&world.model, &Flights::new(), clock);
        assert!(commands.is_empty(), "{commands:?}");
    }

    #[test]
    fn a_group_with_pods_is_protected_and_set_free_with_the_last_of_them() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("p", 0).of("g").on("n1"));
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: true, .. }]), "{commands:?}");
        world.model.groups.values_mut().for_each(|g| g.protected = true);
        world.remove_pod("p");
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: false, .. }]), "{commands:?}");
    }

    #[test]
    fn a_group_that_goes_with_its_owner_does_not_stay_for_pods_of_the_next_owner_of_that_name() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        let of_job = |name: &str, uid: &str| {
            let pod = TestPod::new(name, 10).of("train").of_job("train").owner_uid(uid);
            pod.labelled(giveway_crds::keys::LABEL_GANG, "true")
        };
        world.made_for("train", "old", 1).pod(of_job("a", "old")).pod(of_job("b", "new"));
        let record = world.model.groups.values_mut().next().unwrap();
        (record.protected, record.deleting, record.deleted) = (true, true, Some(100));
        assert!(pass(&mut housekeeping, &mut world, now).is_empty(), "a pod of its own is there");
        world.remove_pod("a");
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(matches!(commands[..], [Command::Protect { protect: false, .. }]), "{commands:?}");
    }

    #[test]
    fn a_nomination_that_no_decision_stands_behind_is_withdrawn() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod");
        world.pod(TestPod::new("held", 10).of("g").held().nominated("n1"));
        world.pod(TestPod::new("scheduler-s", 10).nominated("n1"));
        let commands = housekeeping.stray_nominations(&world.model, &Flights::new(), Clock { now, epoch_seconds: 0 });
        let [Command::Nominate { pod, node: None, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(pod.name, "held");
        assert!(
            housekeeping.stray_nominations(&world.model, &Flights::new(), Clock { now, epoch_seconds: 0 }).is_empty(),
            "not twice at once"
        );
    }

    #[test]
    fn a_nomination_that_a_plan_withdraws_is_not_withdrawn_beside_it() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("held", 10).of("g").held().nominated("n1"));
        housekeeping.withdrawn("uid-held", now);
        let mut strays =
            |now| housekeeping.stray_nominations(&world.model, &Flights::new(), Clock { now, epoch_seconds: 0 }).len();
        assert_eq!(strays(now), 0);
        assert_eq!(strays(now + Duration::from_secs(2)), 1, "it had no effect");
    }

    #[test]
    fn a_call_for_a_group_that_is_gone_is_forgotten() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("p", 0).of("g").on("n1"));
        pass(&mut housekeeping, &mut world, now);
        housekeeping.answered("finalizer of pod group default/g: true", false, now);
        world.model.apply(Input::Group(Update::Deleted(world.key("g"))));
        world.remove_pod("p");
        pass(&mut housekeeping, &mut world, now + Duration::from_secs(1));
        assert_eq!(housekeeping.calls.len(), 1);
        pass(&mut housekeeping, &mut world, now + Duration::from_secs(61));
        assert!(housekeeping.calls.is_empty() && housekeeping.again.is_empty(), "{housekeeping:?}");
    }

    #[test]
    fn a_nomination_is_withdrawn_from_a_released_member_that_never_preempts() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod");
        let released = |name: &str| TestPod::new(name, 10).of("g").unschedulable().nominated("n1");
        world.pod(released("never").spec("preemptionPolicy", json!("Never"))).pod(released("scheduler-s"));
        let commands = housekeeping.stray_nominations(&world.model, &Flights::new(), Clock { now, epoch_seconds: 0 });
        let [Command::Nominate { pod, node: None, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(pod.name, "never");
    }

    #[test]
    fn a_nomination_that_a_plan_for_a_critical_addon_left_is_withdrawn_and_one_of_the_scheduler_is_not() {
        let now = Instant::now();
        let withdrawn = |node: &str, state: &str, second: i64| {
            let (mut world, mut housekeeping) = (World::new(), Housekeeping::default());
            world.pod(TestPod::new("dns", 0).unschedulable().nominated("n1"));
            let preemptor =
                json!({"kind": "Pod", "namespace": "default", "name": "dns", "uid": "uid-dns", "priority": 0});
            let plan = json!({
                "metadata": {"name": "p-1", "uid": "u"},
                "spec": {"preemptor": preemptor, "strategy": "critical-addon",
                    "placements": [{"pod": "dns", "uid": "uid-dns", "node": node}]},
                "status": {"state": state, "finishedAt": "1970-01-01T00:16:40Z"}
            });
            let plan = Box::new(serde_json::from_value(plan).unwrap());
            world.model.apply(Input::Preemption(Update::Applied(plan)));
            let clock = Clock { now, epoch_seconds: second };
            housekeeping.stray_nominations(&world.model, &Flights::new(), clock).len()
        };
        assert_eq!(withdrawn("n1", "Cancelled", 1600), 1);
        assert_eq!(withdrawn("n1", "Cancelled", 1601), 0, "ten minutes later it is the scheduler's");
        assert_eq!(withdrawn("n2", "Cancelled", 1600), 0, "another node");
        assert_eq!(withdrawn("n1", "Evicting", 1600), 0, "it is going to be resumed");
    }
}
