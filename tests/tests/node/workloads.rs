//! Jobs with real containers: members that terminate slowly, exit, crash and are replaced.

use crate::gang::{Gang, Running, lives, name, uid};
use crate::pods::Member;
use crate::{CALM, LIMIT, URGENT, create_classes};
use giveway_crds::condition::types;
use giveway_tests::World;
use giveway_tests::cluster::scheduling_gates;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Returns a gang whose programs serve HTTP requests, by which the test controls them.
fn controlled(name: &str, class: &str) -> Gang {
    Gang::new(name, class).arguments(&["--serve=8080"])
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(uid).collect()
}

pub async fn a_preempted_gang_gets_sigterm_and_saves_its_work(world: &mut World) {
    create_classes(world).await;
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
    calm.wait_gated(world, 2).await;
    for victim in &victims {
        assert_eq!(fs::read_to_string(saved.join(name(victim))).unwrap(), "saved\n", "{} got SIGTERM", name(victim));
    }
    let message = calm.group.wait_condition(types::DISRUPTION_TARGET, "True", "PreemptionByScheduler", LIMIT).await;
    assert!(
        message.contains("pod group default/urgent") && message.contains("1000") && message.contains("100"),
        "{message}"
    );
    let job = calm.job(world).await;
    assert_eq!(
        (job.failed.unwrap_or_default(), job.succeeded.unwrap_or_default()),
        (0, 0),
        "the Job does not count evictions as failures"
    );
    world.kubectl(&["delete", "job,gpg", "urgent"]).await.unwrap();
    calm.wait_ready(world, 2).await;
}

pub async fn members_are_ungated_only_after_victims_that_ignore_sigterm_have_terminated(world: &mut World) {
    create_classes(world).await;
    let calm = Gang::new("calm", CALM).arguments(&["--ignore-term"]).apply(world).await;
    let victims = uids(&calm.wait_ready(world, 4).await);
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    let mut evicted = None;
    wait_for("the victims have terminated", LIMIT, async || {
        // Victims and members are read in one pass, so a member that is ungated while a victim exists would be noticed.
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
        // The members are read after the victims. If one is ungated, the victims may have terminated in between; read them again.
        let free = members.iter().filter(|pod| scheduling_gates(pod).is_empty()).count();
        if free > 0 {
            let left = calm.pods(world).await.iter().filter(|pod| victims.contains(&uid(pod))).count();
            assert_eq!(left, 0, "{free} members are ungated while {left} victims exist");
        }
        Err(format!("{left} exist"))
    })
    .await;
    let took = evicted.expect("the victims were observed terminating").elapsed();
    assert!(
        took > Duration::from_secs(4),
        "victims with a grace period of 5 s that ignore SIGTERM were removed after {took:?}"
    );
    urgent.wait_ready(world, 4).await;
}

pub async fn victims_that_exit_with_0_count_as_succeeded_and_with_1_do_not(world: &mut World) {
    create_classes(world).await;
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
            "exit code {code}: an eviction does not count as a failure of a Job that ignores it"
        );
        let done = |job: &k8s_openapi::api::batch::v1::JobStatus| {
            job.conditions.iter().flatten().any(|c| c.type_ == "Complete" && c.status == "True")
        };
        if succeeded == 4 {
            calm.wait_job(world, "is complete", done).await;
        } else {
            assert!(!done(&calm.job(world).await), "the Job must not be complete");
        }
        for kind in ["jobs", "gpg"] {
            world.kubectl(&["delete", kind, "--all", "--wait"]).await.unwrap();
        }
    }
}

pub async fn a_crashed_member_is_replaced_and_starts_alone(world: &mut World) {
    create_classes(world).await;
    let gang = controlled("crash", CALM).apply(world).await;
    let before = gang.wait_ready(world, 4).await;
    gang.request(world, name(&before[0]), "/end/3").await.unwrap();
    gang.wait_job(world, "has counted the crash", |job| job.failed == Some(1)).await;
    let after = gang.wait_ready(world, 4).await;
    let (before, after) = (uids(&before), uids(&after));
    assert_eq!(before.intersection(&after).count(), 3, "the other members keep running");
}

/// Lets these members exit with 0 and waits until the Job has counted them.
async fn finish(world: &World, gang: &Running, pods: &[Pod]) {
    for pod in pods {
        gang.request(world, name(pod), "/end/0").await.unwrap();
    }
    let count = i32::try_from(pods.len()).unwrap();
    gang.wait_job(world, "has counted the succeeded pods", |job| job.succeeded == Some(count)).await;
}

pub async fn the_last_member_starts_alone_when_the_others_have_finished(world: &mut World) {
    create_classes(world).await;
    let gang = controlled("done", CALM).apply(world).await;
    let first = gang.wait_ready(world, 4).await;
    finish(world, &gang, &first[..3]).await;
    gang.request(world, name(&first[3]), "/end/3").await.unwrap();
    gang.wait_job(world, "has counted the crash", |job| job.failed == Some(1)).await;
    let last = gang.wait_ready(world, 1).await;
    assert!(!uids(&first).contains(&uid(&last[0])), "the pod is a replacement");
    gang.wait_message(types::INITIALLY_SCHEDULED, "1 pod has a node, 3 have finished, 4 needed.").await;

    // The succeeded members still count after their pods were deleted and the operator was restarted; only the status records
    // them.
    for pod in &first[..3] {
        world.kubectl(&["delete", "pod", name(pod)]).await.unwrap();
    }
    let restart = ["-n", "giveway-system", "rollout", "restart", "deployment/giveway-operator"];
    world.kubectl(&restart).await.unwrap();
    world.kubectl(&["-n", "giveway-system", "rollout", "status", "deployment/giveway-operator"]).await.unwrap();
    gang.request(world, name(&last[0]), "/end/3").await.unwrap();
    wait_for("a third pod is ready", LIMIT, async || {
        let pods = gang.pods(world).await;
        let new = pods.iter().find(|pod| lives(pod) && uid(pod) != uid(&last[0]));
        match new.is_some_and(giveway_tests::cluster::ready) {
            true => Ok(()),
            false => Err(format!("{} pods", pods.len())),
        }
    })
    .await;

    // Another Job with the same group is a new run, whose pods start together.
    world.kubectl(&["delete", "job", "done", "--wait"]).await.unwrap();
    let blocker = Member { class: URGENT, cpu: "1200m", ..Member::default() };
    world.apply(&blocker.manifest("blocker")).await.unwrap();
    let again = controlled("done", CALM).apply(world).await;
    again.wait_gated(world, 4).await;
    again
        .wait_message(types::INITIALLY_SCHEDULED, "The PodGroup was scheduled and is pending again. 4 pods needed")
        .await;
    world.kubectl(&["delete", "pod", "blocker"]).await.unwrap();
    again.wait_ready(world, 4).await;
}

pub async fn init_containers_and_sidecars_count_for_feasibility(world: &mut World) {
    create_classes(world).await;
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
    // Each pod requests 440m. Beside the four pods (1,760m) and Giveway's own pods, 40m are free, so no other pod fits.
    let urgent = gang("urgent", URGENT).apply(world).await;
    for pod in urgent.wait_ready(world, 4).await {
        let status = pod.status.unwrap();
        assert_eq!(status.container_statuses.unwrap().len(), 1);
        let init = status.init_container_statuses.unwrap();
        assert_eq!(
            init.iter().map(|c| c.ready).collect::<Vec<_>>(),
            [true, true],
            "the init container has ended and the sidecar runs"
        );
    }
}
