//! Jobs as they are: members that take time to stop, end, crash and come back.

use crate::gang::{Gang, Running, lives, name, uid};
use crate::pods::Member;
use crate::{CALM, LIMIT, URGENT, classes};
use giveway_crds::condition::types;
use giveway_tests::World;
use giveway_tests::cluster::scheduling_gates;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// A gang that is told over HTTP what to do.
fn served(name: &str, class: &str) -> Gang {
    Gang::new(name, class).arguments(&["--serve=8080"])
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(uid).collect()
}

pub async fn a_gang_takes_the_place_of_another_which_saves_its_work(world: &mut World) {
    classes(world).await;
    let saved = world.plane().directory().join("saved");
    fs::create_dir_all(&saved).unwrap();
    let volume = format!("volumes: [{{name: saved, hostPath: {{path: {}}}}}]", saved.display());
    let calm = Gang::new("calm", CALM)
        .of_two()
        .container("args: [--checkpoint=/saved/$(POD)]")
        .container("env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]")
        .container("volumeMounts: [{name: saved, mountPath: /saved}]")
        .pod(&volume);
    let calm = calm.apply(world).await;
    let victims = calm.wait_ready(world, 2).await;
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    urgent.wait_ready(world, 4).await;
    calm.wait_held(world, 2).await;
    for victim in &victims {
        assert_eq!(fs::read_to_string(saved.join(name(victim))).unwrap(), "saved\n", "{} got SIGTERM", name(victim));
    }
    let told = calm.group.wait_condition(types::DISRUPTION_TARGET, "True", "PreemptionByScheduler", LIMIT).await;
    assert!(told.contains("pod group default/urgent") && told.contains("1000") && told.contains("100"), "{told}");
    let job = calm.job(world).await;
    assert_eq!((job.failed.unwrap_or_default(), job.succeeded.unwrap_or_default()), (0, 0), "evictions are ignored");
    world.kubectl(&["delete", "job,gpg", "urgent"]).await.unwrap();
    calm.wait_ready(world, 2).await;
}

pub async fn members_are_released_when_victims_that_ignore_sigterm_are_gone_and_not_before(world: &mut World) {
    classes(world).await;
    let calm = Gang::new("calm", CALM).arguments(&["--ignore-term"]).apply(world).await;
    let victims = uids(&calm.wait_ready(world, 4).await);
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    let mut evicted = None;
    wait_for("the victims are gone", LIMIT, async || {
        // One look at both: whoever is released while a victim is there would be seen.
        let mut all = calm.pods(world).await;
        let left = all.iter().filter(|pod| victims.contains(&uid(pod))).count();
        all.retain(|pod| pod.metadata.deletion_timestamp.is_some());
        if !all.is_empty() {
            evicted.get_or_insert_with(Instant::now);
        }
        let members = urgent.pods(world).await;
        if left == 0 {
            return Ok(());
        }
        // Read after the victims: if one is released now, a victim may have gone since; then none may be left at the next look.
        let free = members.iter().filter(|pod| scheduling_gates(pod).is_empty()).count();
        if free > 0 {
            let left = calm.pods(world).await.iter().filter(|pod| victims.contains(&uid(pod))).count();
            assert_eq!(left, 0, "{free} members are released while {left} victims are still there");
        }
        Err(format!("{left} are there"))
    })
    .await;
    let took = evicted.expect("the victims were seen to go").elapsed();
    assert!(took > Duration::from_secs(4), "they have a grace of 5 s and ignore SIGTERM, and were gone after {took:?}");
    urgent.wait_ready(world, 4).await;
}

pub async fn victims_that_end_with_0_count_as_done_and_with_1_do_not(world: &mut World) {
    classes(world).await;
    for (code, succeeded) in [(0, 4), (1, 0)] {
        let calm = Gang::new("calm", CALM).arguments(&[&format!("--term-code={code}")]).apply(world).await;
        calm.wait_ready(world, 4).await;
        let urgent = Gang::new("urgent", URGENT).apply(world).await;
        urgent.wait_ready(world, 4).await;
        let job = calm
            .wait_job(world, "has counted its victims", |job| {
                job.succeeded.unwrap_or_default() == succeeded && job.ready == Some(0)
            })
            .await;
        assert_eq!(
            job.failed.unwrap_or_default(),
            0,
            "with {code}: an eviction is no failure of a Job that ignores it"
        );
        let done = |job: &k8s_openapi::api::batch::v1::JobStatus| {
            job.conditions.iter().flatten().any(|c| c.type_ == "Complete" && c.status == "True")
        };
        if succeeded == 4 {
            calm.wait_job(world, "is complete, although nobody let it finish", done).await;
        } else {
            assert!(!done(&calm.job(world).await), "their work is to be done");
        }
        for kind in ["jobs", "gpg"] {
            world.kubectl(&["delete", kind, "--all", "--wait"]).await.unwrap();
        }
    }
}

pub async fn a_member_that_crashes_is_replaced_and_starts_alone(world: &mut World) {
    classes(world).await;
    let gang = served("crash", CALM).apply(world).await;
    let before = gang.wait_ready(world, 4).await;
    gang.tell(world, name(&before[0]), "/end/3").await.unwrap();
    gang.wait_job(world, "has counted the crash", |job| job.failed == Some(1)).await;
    let after = gang.wait_ready(world, 4).await;
    let (before, after) = (uids(&before), uids(&after));
    assert_eq!(before.intersection(&after).count(), 3, "the others ran on");
}

/// Ends so many members with 0, and waits until the Job has counted them.
async fn finish(world: &World, gang: &Running, pods: &[Pod]) {
    for pod in pods {
        gang.tell(world, name(pod), "/end/0").await.unwrap();
    }
    let count = i32::try_from(pods.len()).unwrap();
    gang.wait_job(world, "has counted who finished", |job| job.succeeded == Some(count)).await;
}

pub async fn the_last_member_starts_alone_when_the_others_have_finished(world: &mut World) {
    classes(world).await;
    let gang = served("done", CALM).apply(world).await;
    let first = gang.wait_ready(world, 4).await;
    finish(world, &gang, &first[..3]).await;
    gang.tell(world, name(&first[3]), "/end/3").await.unwrap();
    gang.wait_job(world, "has counted the crash", |job| job.failed == Some(1)).await;
    let last = gang.wait_ready(world, 1).await;
    assert!(!uids(&first).contains(&uid(&last[0])), "it is a new pod");
    gang.wait_told(types::INITIALLY_SCHEDULED, "1 pod has a node, 3 have finished, 4 needed.").await;

    // Also when nothing but the status remembers them: not the pods, and not the operator that saw them.
    for pod in &first[..3] {
        world.kubectl(&["delete", "pod", name(pod)]).await.unwrap();
    }
    let restart = ["-n", "giveway-system", "rollout", "restart", "deployment/giveway-operator"];
    world.kubectl(&restart).await.unwrap();
    world.kubectl(&["-n", "giveway-system", "rollout", "status", "deployment/giveway-operator"]).await.unwrap();
    gang.tell(world, name(&last[0]), "/end/3").await.unwrap();
    wait_for("a third pod is ready", LIMIT, async || {
        let pods = gang.pods(world).await;
        let new = pods.iter().find(|pod| lives(pod) && uid(pod) != uid(&last[0]));
        match new.is_some_and(giveway_tests::cluster::ready) {
            true => Ok(()),
            false => Err(format!("{} pods", pods.len())),
        }
    })
    .await;

    // Another Job under the same group is another run, and starts together.
    world.kubectl(&["delete", "job", "done", "--wait"]).await.unwrap();
    let blocker = Member { class: URGENT, cpu: "1200m", ..Member::default() };
    world.apply(&blocker.manifest("blocker")).await.unwrap();
    let again = served("done", CALM).apply(world).await;
    again.wait_held(world, 4).await;
    again.wait_told(types::INITIALLY_SCHEDULED, "Was scheduled; now waits again. 4 pods needed").await;
    world.kubectl(&["delete", "pod", "blocker"]).await.unwrap();
    again.wait_ready(world, 4).await;
}

pub async fn init_containers_and_sidecars_are_part_of_what_is_placed(world: &mut World) {
    classes(world).await;
    let image = "image: 'giveway.test/workload:1', imagePullPolicy: Never";
    let gang = |name: &str, class: &str| {
        Gang::new(name, class)
            .pod("initContainers:")
            .pod(&format!(
                "- {{name: prepare, {image}, args: [--end-after=0.1], resources: {{requests: {{cpu: 200m}}}}}}"
            ))
            .pod(&format!("- {{name: proxy, {image}, restartPolicy: Always, resources: {{requests: {{cpu: 40m}}}}}}"))
    };
    let calm = gang("calm", CALM).apply(world).await;
    calm.wait_ready(world, 4).await;
    // 440m a pod: beside 1,760m and Giveway's own there are 40m left, and no place for one more.
    let urgent = gang("urgent", URGENT).apply(world).await;
    for pod in urgent.wait_ready(world, 4).await {
        let status = pod.status.unwrap();
        assert_eq!(status.container_statuses.unwrap().len(), 1);
        let init = status.init_container_statuses.unwrap();
        assert_eq!(init.iter().map(|c| c.ready).collect::<Vec<_>>(), [true, true], "prepared, and with a proxy");
    }
}
