use super::*;
use crate::testing::{TestPod, World};
use giveway_crds::kinds::Sizes;
use giveway_crds::policy::DisruptionMode;
use serde_json::{Value, json};

struct Scene {
    world: World,
    gangs: LabelledGangs,
    speaker: Speaker,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        Self { world: World::new(), gangs: LabelledGangs::default(), speaker: Speaker::default(), now: Instant::now() }
    }

    fn pass(&mut self) -> Vec<Command> {
        let touched = std::mem::take(&mut self.world.model.touched);
        self.gangs.note_changes(&self.world.model, &touched, self.now);
        let clock = Clock { now: self.now, epoch_seconds: 0 };
        let mut commands = self.gangs.pass(&self.world.model, &mut self.speaker, clock);
        let notices = self.speaker.pass(&self.world.model.cluster, |_| None, self.now);
        commands.extend(notices.into_iter().map(Command::Publish));
        commands
    }

    fn later(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// Answers the read of the owner, which must be the only command.
    fn answer(&mut self, uid: &str, size: i32) -> Vec<Command> {
        let commands = self.pass();
        let [Command::ReadOwner(owner)] = commands.as_slice() else { panic!("{commands:?}") };
        self.says(owner, uid, size);
        self.pass()
    }

    fn says(&mut self, owner: &OwnerKey, uid: &str, size: i32) {
        let facts = OwnerFacts {
            uid: uid.into(),
            controller: uid.into(),
            deleting: false,
            sizes: Sizes::every(size),
            min_count: None,
            classes: Vec::new(),
        };
        self.gangs.owner_read(owner, Ok(facts), self.now);
    }

    /// Answers a call.
    fn answered(&mut self, call: &CallKey, result: &Result<(), CallError>) {
        crate::gangs::answered(&mut self.gangs.calls, call, result, &mut self.speaker, self.now);
    }

    /// Stores the PodGroup as Giveway creates it.
    fn stored(&mut self, name: &str, uid: &str, size: i32) {
        self.world.made_for(name, uid, size);
    }
}

fn member(name: &str, job: &str, uid: &str) -> TestPod {
    TestPod::new(name, 10).of(job).gated().of_job(job).owner_uid(uid).labelled(LABEL_GANG, "true")
}

fn the_group(commands: &[Command]) -> &PodGroup {
    let [Command::CreateGroup(group)] = commands else { panic!("{commands:?}") };
    group
}

#[test]
fn the_first_pod_of_a_job_has_its_group_made_as_large_as_the_job_and_owned_by_it() {
    let mut scene = Scene::new();
    scene.world.pod(member("a", "train", "u1").class("high"));
    let commands = scene.answer("u1", 8);
    let group = the_group(&commands);
    assert_eq!(group.metadata.name.as_deref(), Some("train"));
    assert_eq!(group.spec.scheduling_policy.min_count(), Some(8));
    assert_eq!(group.spec.disruption_mode, DisruptionMode::PodGroup);
    assert_eq!(group.spec.priority_class_name.as_deref(), Some("high"));
    let owner = &group.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Job", "train", "u1"));
    assert_eq!(group.metadata.labels.as_ref().unwrap()[LABEL_GANG], "true");
    assert!(scene.pass().is_empty(), "the call has no answer yet");
    scene.answered(&CallKey::CreateGroup(ObjectKey::new("default", "train")), &Ok(()));
    scene.stored("train", "u1", 8);
    assert!(scene.pass().is_empty());
    assert!(scene.later(5).gangs.pending.is_empty());
}

#[test]
fn a_group_gets_the_lowest_class_of_the_owner_s_templates_before_a_pod_of_that_class_exists() {
    let made = |templates: [&str; 2]| {
        let mut scene = Scene::new();
        for (name, value) in [("low", 5), ("high", 10), ("higher", 20)] {
            scene.world.class(json!({"metadata": {"name": name}, "value": value}));
        }
        scene.world.pod(member("leader", "train", "u1").class("high"));
        let commands = scene.pass();
        let [Command::ReadOwner(owner)] = commands.as_slice() else { panic!("{commands:?}") };
        let facts = OwnerFacts {
            uid: "u1".into(),
            controller: "u1".into(),
            deleting: false,
            sizes: Sizes::every(4),
            min_count: None,
            classes: templates.map(str::to_owned).to_vec(),
        };
        scene.gangs.owner_read(owner, Ok(facts), scene.now);
        the_group(&scene.pass()).spec.priority_class_name.clone()
    };
    assert_eq!(made(["high", "low"]).as_deref(), Some("low"), "the workers would be rejected otherwise");
    assert_eq!(made(["high", "higher"]).as_deref(), Some("high"), "never above a member");
    assert_eq!(made(["high", "unknown"]).as_deref(), Some("high"));
}

#[test]
fn the_annotations_of_the_pods_and_of_the_owner_count_before_the_owner_s_fields() {
    let mut scene = Scene::new();
    let annotated = |pod: TestPod, count: &str| pod.annotated(giveway_crds::keys::ANNOTATION_MIN_COUNT, count);
    scene.world.pod(
        annotated(member("a", "train", "u1"), "3").annotated(giveway_crds::keys::ANNOTATION_DISRUPTION_MODE, "Pod"),
    );
    let commands = scene.answer("u1", 8);
    let group = the_group(&commands);
    assert_eq!((group.spec.scheduling_policy.min_count(), group.spec.disruption_mode), (Some(3), DisruptionMode::Pod));
}

#[test]
fn a_replica_of_an_earlier_revision_is_as_large_as_its_pods_say() {
    let mut scene = Scene::new();
    let replica = |index: &str, size: &str| {
        let pod = TestPod::new(&format!("serve-{index}"), 10).of(&format!("serve-{index}")).gated();
        let pod = pod.labelled(LABEL_GANG, "true").labelled("leaderworkerset.sigs.k8s.io/name", "serve");
        pod.labelled("leaderworkerset.sigs.k8s.io/group-index", index)
            .annotated("leaderworkerset.sigs.k8s.io/size", size)
    };
    scene.world.pod(replica("0", "2"));
    assert_eq!(the_group(&scene.answer("u1", 4)).spec.scheduling_policy.min_count(), Some(2));
    let mut scene = Scene::new();
    scene.world.pod(replica("1", "4").annotated(giveway_crds::keys::ANNOTATION_MIN_COUNT, "3"));
    assert_eq!(the_group(&scene.answer("u1", 9)).spec.scheduling_policy.min_count(), Some(3));
}

#[test]
fn a_group_follows_its_owner_when_its_pods_become_more_or_fewer() {
    let mut scene = Scene::new();
    scene.stored("train", "u1", 2);
    scene.world.pod(member("a", "train", "u1")).pod(member("b", "train", "u1"));
    assert!(scene.answer("u1", 2).is_empty(), "it is as large as its owner says");
    scene.later(60).world.pod(member("c", "train", "u1"));
    let commands = scene.answer("u1", 3);
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 3, .. }]), "{commands:?}");
    scene.answered(&CallKey::MinCount(ObjectKey::new("default", "train"), 3), &Ok(()));
    scene.stored("train", "u1", 3);
    assert!(scene.pass().is_empty());
    scene.later(60).world.remove_pod("c");
    let commands = scene.answer("u1", 2);
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 2, .. }]), "{commands:?}");
}

#[test]
fn the_first_pods_of_a_group_that_was_resized_while_it_had_none_wait_for_what_its_owner_says() {
    let mut scene = Scene::new();
    let key = scene.world.key("train");
    let settled = |scene: &Scene| scene.gangs.has_settled_size(&scene.world.model, &key, scene.now);
    scene.stored("train", "u1", 2);
    scene.world.pod(member("a", "train", "u1"));
    assert!(scene.answer("u1", 2).is_empty());
    assert!(settled(&scene));
    scene.world.pod(member("b", "train", "u1"));
    scene.pass();
    assert!(settled(&scene), "another pod changes nothing");
    scene.world.remove_pod("a").remove_pod("b");
    scene.later(1).pass();
    scene.world.pod(member("c", "train", "u1"));
    let commands = scene.pass();
    let [Command::ReadOwner(owner)] = commands.as_slice() else { panic!("at once: {commands:?}") };
    assert!(!settled(&scene));
    scene.says(owner, "u1", 8);
    assert!(!settled(&scene), "it is not as large yet");
    let commands = scene.pass();
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 8, .. }]), "{commands:?}");
    scene.stored("train", "u1", 8);
    assert!(settled(&scene));
}

#[test]
fn a_group_does_not_wait_for_ever_for_what_its_owner_says() {
    let mut scene = Scene::new();
    let key = scene.world.key("train");
    scene.stored("train", "u1", 2);
    scene.world.pod(member("a", "train", "u1"));
    scene.pass();
    let settled = |scene: &Scene| scene.gangs.has_settled_size(&scene.world.model, &key, scene.now);
    assert!(!settled(&scene));
    assert!(!settled(scene.later(9)) && settled(scene.later(1)));
    let mut scene = Scene::new();
    scene.world.group("train", 2, 10, "Pod").pod(member("a", "train", "u1"));
    scene.pass();
    assert!(settled(&scene), "that of a user has no owner to ask");
}

#[test]
fn the_number_of_finished_pods_that_a_job_replaces_is_known_and_reported_when_it_changes() {
    let mut scene = Scene::new();
    scene.stored("train", "u1", 8);
    scene.world.pod(member("a", "train", "u1"));
    let commands = scene.pass();
    let [Command::ReadOwner(owner)] = commands.as_slice() else { panic!("{commands:?}") };
    let key = scene.world.key("train");
    let replaced =
        |scene: &Scene| scene.gangs.counters(&key, &scene.world.model.groups[&key]).map(|counters| counters.replaced);
    assert_eq!(replaced(&scene), None, "it has not been read");
    let read = |scene: &mut Scene, completions: i32| {
        let row = owner.row().unwrap();
        let object = json!({"spec": {"parallelism": 8, "completions": completions}});
        let sizes = Sizes::of(row, &object);
        let (uid, classes) = ("u1".to_owned(), Vec::new());
        let facts = OwnerFacts { controller: uid.clone(), uid, deleting: false, sizes, min_count: None, classes };
        scene.gangs.owner_read(owner, Ok(facts), scene.now);
        assert!(scene.pass().is_empty());
        (replaced(scene), scene.gangs.take_changed_groups().len())
    };
    assert_eq!(read(&mut scene, 20), (Some(12), 1));
    assert!(matches!(&scene.later(30).pass()[..], [Command::ReadOwner(_)]));
    assert_eq!(read(&mut scene, 20), (Some(12), 0));
    assert!(matches!(&scene.later(30).pass()[..], [Command::ReadOwner(_)]));
    assert_eq!(read(&mut scene, 30), (Some(22), 1));
}

/// Answers the read of this owner with the fields of an object.
fn object(scene: &mut Scene, owner: &OwnerKey, uid: &str, fields: &Value) {
    let sizes = Sizes::of(owner.row().unwrap(), fields);
    let (controller, classes) = (uid.into(), Vec::new());
    let facts = OwnerFacts { uid: uid.into(), controller, deleting: false, sizes, min_count: None, classes };
    scene.gangs.owner_read(owner, Ok(facts), scene.now);
}

#[test]
fn the_job_of_a_jobset_s_gang_tells_which_of_its_indexes_have_failed_and_how_many_pods_have_succeeded() {
    let mut scene = Scene::new();
    let key = scene.world.key("set-w-0");
    scene.world.made_for_owner("set-w-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "s1"), 4);
    let pod = |name: &str, job: &str| {
        let pod =
            TestPod::new(name, 10).of("set-w-0").gated().of_job("set-w-0").owner_uid(job).labelled(LABEL_GANG, "true");
        pod.labelled("jobset.sigs.k8s.io/jobset-name", "set")
            .labelled("jobset.sigs.k8s.io/replicatedjob-name", "w")
            .labelled("jobset.sigs.k8s.io/job-index", "0")
    };
    scene.world.pod(pod("a", "j1"));
    let spec = json!({"parallelism": 4, "completions": 4, "backoffLimitPerIndex": 0});
    let set = json!({"spec": {"replicatedJobs": [{"name": "w", "template": {"spec": spec}}]}});
    let read = |scene: &mut Scene, uid: &str, status: Value| {
        let commands = scene.pass();
        let [Command::ReadOwner(owner)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!((owner.kind, owner.name.as_str()), ("JobSet", "set"));
        object(scene, owner, "s1", &set);
        let commands = scene.pass();
        let [Command::ReadOwner(job)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!((job.kind, job.api_version.as_str(), job.name.as_str()), ("Job", "batch/v1", "set-w-0"));
        object(scene, job, uid, &json!({ "spec": spec, "status": status }));
        scene.pass()
    };
    let commands = read(&mut scene, "j1", json!({"succeeded": 2, "failedIndexes": "3"}));
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 3, .. }]), "{commands:?}");
    let counters = scene.gangs.counters(&key, &scene.world.model.groups[&key]);
    assert_eq!(counters, Some(&OwnerCounters { replaced: 0, counted: Some(("j1".to_owned(), 2)) }));
    assert!(!scene.gangs.has_settled_size(&scene.world.model, &key, scene.now), "minCount is not yet 3");
    scene.world.made_for_owner("set-w-0", ("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "s1"), 3);
    assert!(scene.gangs.has_settled_size(&scene.world.model, &key, scene.now));

    // The JobSet restarts: it creates another Job of the same name.
    scene.world.remove_pod("a");
    scene.pass();
    scene.later(60).world.pod(pod("b", "j2"));
    let commands = read(&mut scene, "j2", json!({}));
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 4, .. }]), "{commands:?}");
}

#[test]
fn a_number_that_changes_without_a_pod_event_is_read_in_turn() {
    let mut scene = Scene::new();
    scene.stored("train", "u1", 2);
    scene.world.pod(member("a", "train", "u1"));
    assert!(scene.answer("u1", 2).is_empty());
    scene.later(30);
    let commands = scene.answer("u1", 1);
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 1, .. }]), "{commands:?}");
}

#[test]
fn a_group_that_a_user_made_or_that_is_for_another_owner_is_not_changed() {
    let mut scene = Scene::new();
    scene.world.group("train", 2, 10, "Pod").pod(member("a", "train", "u1"));
    assert!(scene.pass().is_empty(), "nothing is even read");
    let mut scene = Scene::new();
    scene.stored("train", "old", 2);
    scene.world.pod(member("a", "train", "u1"));
    assert!(scene.answer("u1", 5).is_empty());
}

#[test]
fn an_orphaned_group_gets_the_next_owner_of_that_name_and_follows_it() {
    let mut scene = Scene::new();
    let orphan = |name: &str| TestPod::new(name, 10).of("train").labelled(LABEL_GANG, "true");
    scene.world.orphaned("train", 2).pod(orphan("a")).pod(orphan("b"));
    assert!(scene.pass().is_empty(), "no owner has adopted the pods yet");
    scene.world.pod(member("a", "train", "u2"));
    let commands = scene.answer("u2", 3);
    let [Command::AdoptGroup { owner, .. }] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("Job", "train", "u2"));
    assert_eq!(owner.controller, Some(true));
    assert!(scene.pass().is_empty(), "the call has no answer yet");
    scene.answered(&CallKey::Owner(ObjectKey::new("default", "train"), "u2".to_owned()), &Ok(()));
    scene.stored("train", "u2", 2);
    let commands = scene.pass();
    assert!(matches!(&commands[..], [Command::SetMinCount { min_count: 3, .. }]), "{commands:?}");
}

#[test]
fn an_orphaned_group_with_members_of_two_owners_gets_neither() {
    let mut scene = Scene::new();
    scene.world.orphaned("train", 2).pod(member("a", "train", "u2")).pod(member("b", "train", "u3"));
    assert!(scene.answer("u2", 2).is_empty());
    scene.world.remove_pod("b");
    let commands = scene.later(5).answer("u2", 2);
    assert!(matches!(&commands[..], [Command::AdoptGroup { .. }]), "{commands:?}");
}

#[test]
fn pods_of_a_later_owner_wait_until_that_is_read() {
    let mut scene = Scene::new();
    scene.world.pod(member("a", "train", "u2"));
    assert!(scene.answer("u1", 8).is_empty(), "the one before");
    scene.later(3).world.remove_pod("a").pod(member("b", "train", "u2"));
    assert_eq!(the_group(&scene.answer("u2", 8)).metadata.owner_references.as_ref().unwrap()[0].uid, "u2");
}

#[test]
fn a_missing_owner_is_reported_once_and_read_again() {
    let mut scene = Scene::new();
    scene.world.pod(member("a", "train", "u1"));
    let commands = scene.pass();
    let [Command::ReadOwner(owner)] = commands.as_slice() else { panic!("{commands:?}") };
    scene.gangs.owner_read(owner, Err(CallError::Gone), scene.now);
    let commands = scene.pass();
    let [Command::Publish(notice)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(
        notice.note.to_string(),
        "Pod group train cannot be created: Job train was not found in namespace default. The pod stays gated until its pod group exists."
    );
    assert!(scene.pass().is_empty());
    assert_eq!(the_group(&scene.later(20).answer("u1", 4)).spec.scheduling_policy.min_count(), Some(4));
}

#[test]
fn pods_of_an_unknown_kind_get_a_group_from_their_annotation_without_a_read() {
    let mut scene = Scene::new();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]);
    let pod = TestPod::new("a", 10).of("web").gated().labelled(LABEL_GANG, "true").owners(owner);
    scene.world.pod(pod.annotated(giveway_crds::keys::ANNOTATION_MIN_COUNT, "2"));
    let commands = scene.pass();
    let group = the_group(&commands);
    assert_eq!(group.spec.scheduling_policy.min_count(), Some(2));
    assert_eq!(group.metadata.owner_references.as_ref().unwrap()[0].kind, "ReplicaSet");
}

#[test]
fn nothing_is_read_for_pods_that_ask_for_no_gang_or_are_of_a_group_that_their_user_chose() {
    let mut scene = Scene::new();
    scene.world.pod(TestPod::new("a", 10).of("mine").of_job("train").labelled(LABEL_GANG, "true"));
    scene.world.pod(TestPod::new("b", 10).of("train").of_job("train")).pod(TestPod::new("c", 10).of_job("train"));
    assert!(scene.pass().is_empty());
}

#[test]
fn reads_are_few_however_many_groups_there_are() {
    let mut scene = Scene::new();
    for job in 0..100 {
        let name = format!("job-{job}");
        scene.stored(&name, "u", 1);
        scene.world.pod(member(&format!("pod-{job}"), &name, "u"));
    }
    let mut read = 0;
    loop {
        let commands = scene.pass();
        if commands.is_empty() {
            break;
        }
        assert!(commands.len() <= READS, "so many of a namespace at a time");
        for command in &commands {
            let Command::ReadOwner(owner) = command else { panic!("{command:?}") };
            scene.says(owner, "u", 1);
            read += 1;
        }
    }
    assert_eq!(read, 100, "once for each, as it comes");
    let seconds = (0..10).map(|_| scene.later(1).pass().len()).max();
    assert!(seconds <= Some(2 * TURNS), "what is two seconds old is fresh: {seconds:?}");
}

#[test]
fn owners_of_thousands_of_groups_are_read_a_few_at_a_time_and_less_often() {
    let mut scene = Scene::new();
    for number in 0..2_000 {
        let job = format!("job-{number:04}");
        scene.world.pod(member(&job, &job, "u"));
    }
    scene.world.pod(member("z", "z", "u1").in_namespace("other"));
    let (mut reads, mut others) = (0, 0);
    for _ in 0..400 {
        for command in scene.pass() {
            let Command::ReadOwner(owner) = command else { continue };
            match owner.namespace.as_str() {
                "other" => others += 1,
                _ => reads += 1,
            }
            scene.gangs.owner_read(&owner, Err(CallError::Gone), scene.now);
        }
        scene.now += Duration::from_millis(250);
        assert!(scene.gangs.reading.is_empty());
    }
    // Three reads of each owner in a hundred seconds: at 0, 15 and 45 seconds.
    assert!(reads <= 3 * 2_000, "{reads}");
    assert_eq!(others, 3, "not held up by those of another namespace");

    let commands = scene.later(1_000).pass();
    assert_eq!(commands.iter().filter(|command| matches!(command, Command::ReadOwner(_))).count(), READS + 1);
    assert!(scene.pass().iter().all(|command| !matches!(command, Command::ReadOwner(_))), "none is answered yet");
}

#[test]
fn a_rejected_group_is_retried_less_often_and_its_pods_get_an_event() {
    let mut scene = Scene::new();
    scene.world.pod(member("a", "train", "u1"));
    let key = scene.world.key("train");
    the_group(&scene.answer("u1", 8));
    let mut tries = 1;
    let why = || Err(CallError::Failed("exceeded quota: q (403)".to_owned()));
    scene.answered(&CallKey::CreateGroup(key.clone()), &why());
    let mut notes = Vec::new();
    for _ in 0..120 {
        for command in scene.later(1).pass() {
            match command {
                Command::ReadOwner(owner) => scene.says(&owner, "u1", 8),
                Command::CreateGroup(_) => {
                    tries += 1;
                    scene.answered(&CallKey::CreateGroup(key.clone()), &why());
                }
                Command::Publish(notice) => notes.push(notice.note.to_string()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(
        notes,
        ["Pod group train cannot be created: exceeded quota: q (403). The pod stays gated until its pod group exists."]
    );
    assert!((8..=12).contains(&tries), "{tries}");
}

#[test]
fn groups_that_are_created_and_deleted_take_no_turn_and_are_forgotten() {
    let mut scene = Scene::new();
    for number in 0..200 {
        let name = format!("gone-{number}");
        scene.world.pod(member(&name, &name, "u"));
        scene.pass();
        scene.world.remove_pod(&name);
        scene.pass();
    }
    scene.world.pod(member("a", "train", "u1"));
    scene.pass();
    scene.later(1).pass();
    assert_eq!(scene.gangs.turns, [scene.world.key("train")]);
    assert!(scene.gangs.followed.len() == 1 && scene.gangs.counters.len() <= 1, "{:?}", scene.gangs.followed);
}

#[test]
fn a_successor_waits_for_the_pods_of_a_predecessor_with_a_deleted_owner() {
    let mut scene = Scene::new();
    let facts = |uid: &str, deleting: bool| OwnerFacts {
        uid: uid.into(),
        controller: "cron".into(),
        deleting,
        sizes: Sizes::every(1),
        min_count: None,
        classes: Vec::new(),
    };
    let owner = |commands: &[Command], name: &str| {
        let read = |command: &Command| match command {
            Command::ReadOwner(owner) if owner.name == name => Some(owner.clone()),
            _ => None,
        };
        commands.iter().find_map(read).unwrap_or_else(|| panic!("{commands:?}"))
    };
    let running = || member("a", "first", "u1").on("n1");
    scene.world.node("n1", 4).pod(running());
    scene.stored("first", "u1", 1);
    let first = owner(&scene.pass(), "first");
    scene.gangs.owner_read(&first, Ok(facts("u1", false)), scene.now);
    assert!(scene.pass().is_empty());
    // Its CronJob creates another Job.
    scene.later(60).world.pod(member("b", "second", "u2"));
    scene.stored("second", "u2", 1);
    let key = scene.world.key("second");
    let of =
        |scene: &Scene| scene.gangs.predecessor(&scene.world.model, &key, scene.now).map(|key| key.name.to_string());
    let second = owner(&scene.pass(), "second");
    assert_eq!(of(&scene), None, "its controller is not known yet; it waits for its owner all the same");
    scene.gangs.owner_read(&second, Ok(facts("u2", false)), scene.now);
    scene.pass();
    assert_eq!(of(&scene).as_deref(), Some("first"), "its owner is read again");
    scene.gangs.owner_read(&first, Ok(facts("u1", false)), scene.now);
    assert_eq!(of(&scene), None, "it still exists: both run at the same time");
    scene.gangs.owner_read(&first, Ok(facts("u1", true)), scene.now);
    assert_eq!(of(&scene).as_deref(), Some("first"));
    scene.gangs.owner_read(&first, Err(CallError::Gone), scene.now);
    assert_eq!(of(&scene).as_deref(), Some("first"));
    scene.gangs.owner_read(&first, Ok(facts("u1", false)), scene.now);
    scene.gangs.owner_read(&first, Err(CallError::Failed("forbidden".into())), scene.now);
    assert_eq!(of(&scene), None, "it cannot be read, which does not mean that it is deleted");
    scene.gangs.owner_read(&first, Err(CallError::Gone), scene.now);
    scene.world.pod(running().terminating());
    assert_eq!(of(&scene), None, "its pods terminate");
    scene.world.pod(running());
    assert_eq!(of(&scene).as_deref(), Some("first"));
    scene.later(10);
    assert_eq!(of(&scene), None, "at most so long");
}
