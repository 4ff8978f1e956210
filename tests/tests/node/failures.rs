//! Failures on a node: crashing containers, missing images, exhausted memory, a stopped kubelet.

use crate::gang::{Gang, Running, lives, name, uid};
use crate::pods::{Member, group};
use crate::{CALM, LIMIT, URGENT, create_classes};
use giveway_crds::condition::types;
use giveway_crds::plan::PlanState;
use giveway_tests::World;
use giveway_tests::cluster::scheduling_gates;
use giveway_tests::wait::wait_for;
use std::time::Duration;

pub async fn a_group_counts_ready_members_if_others_crash_repeatedly_or_lack_their_image(world: &mut World) {
    create_classes(world).await;
    let member = |arguments, image| Member {
        group: Some("mixed"),
        class: CALM,
        cpu: "100m",
        arguments,
        image,
        restart: "Always",
        ..Member::default()
    };
    let workload = "giveway.test/workload:1";
    let manifest = group("mixed", CALM, 4)
        + &member(&[], workload).manifest("runs-0")
        + &member(&[], workload).manifest("runs-1")
        + &member(&["--end-after=0.1", "--code=9"], workload).manifest("crashes")
        + &member(&[], "giveway.test/missing:1").manifest("has-no-image");
    world.apply(&manifest).await.unwrap();
    // The reason of a back-off is visible only briefly, so the test waits for the restart count.
    for (pod, fields, wanted) in [
        ("crashes", "{.lastState.terminated.exitCode} {.restartCount}", "9 2"),
        ("has-no-image", "{.state.waiting.reason}", "ErrImageNeverPull"),
    ] {
        let path = format!("jsonpath={}", fields.replace("{.", "{.status.containerStatuses[0]."));
        wait_for(&format!("the status of pod {pod} is {wanted}"), LIMIT, async || {
            let said = world.kubectl(&["get", "pod", pod, "-o", &path]).await?;
            if said == wanted { Ok(()) } else { Err(said) }
        })
        .await;
    }
    let mixed = Running { name: "mixed".to_owned(), group: world.gang("mixed", 4).without_group() };
    mixed.wait_message(types::INITIALLY_SCHEDULED, "4 pods have a node, 4 needed. 2 of them are ready.").await;
}

pub async fn a_member_that_uses_too_much_memory_is_replaced(world: &mut World) {
    create_classes(world).await;
    let gang = Gang::new("big", CALM).arguments(&["--serve=8080"]).memory_limit("64Mi");
    let gang = gang.apply(world).await;
    let before = gang.wait_ready(world, 4).await;
    drop(gang.request(world, name(&before[0]), "/allocate/256").await);
    gang.wait_job(world, "has counted the pod that was killed", |job| job.failed == Some(1)).await;
    let path = "jsonpath={.status.containerStatuses[0].state.terminated.reason}";
    let reason = world.kubectl(&["get", "pod", name(&before[0]), "-o", path]).await.unwrap();
    assert_eq!(reason, "OOMKilled");
    let after = gang.wait_ready(world, 4).await;
    assert!(after.iter().all(|pod| uid(pod) != uid(&before[0])));
}

pub async fn a_plan_on_a_node_without_kubelet_is_cancelled_and_the_node_is_not_used(world: &mut World) {
    create_classes(world).await;
    let calm = Gang::new("calm", CALM).apply(world).await;
    calm.wait_ready(world, 4).await;
    world.node().stop_kubelet();
    // The API server has not noticed the stopped kubelet yet, so a plan is made and its victims stay terminating.
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    wait_for("the victims are terminating", LIMIT, async || {
        let pods = calm.pods(world).await;
        let terminating = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        if terminating == 4 { Ok(()) } else { Err(format!("{terminating} of 4 are terminating")) }
    })
    .await;
    let ready = ["get", "node", "real", "-o", "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"];
    wait_for("the readiness of the node is unknown", LIMIT, async || {
        let said = world.kubectl(&ready).await?;
        if said == "Unknown" { Ok(()) } else { Err(said) }
    })
    .await;
    wait_for("the plan is cancelled or failed", LIMIT, async || {
        let plans = giveway_tests::cluster::stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let plan = plans.into_iter().rev().find(|plan| plan.preemptor.name == "urgent").ok_or("no plan exists")?;
        match plan.state {
            PlanState::Cancelled | PlanState::Failed => Ok(()),
            state => Err(format!("{state:?}: {}", plan.message)),
        }
    })
    .await;
    let message = urgent.group.wait_condition(types::INITIALLY_SCHEDULED, "False", "Unschedulable", LIMIT).await;
    assert!(message.starts_with("4 pods needed, 0 fit now."), "{message}");
    for pod in urgent.pods(world).await {
        assert!(!scheduling_gates(&pod).is_empty(), "{} is not gated", name(&pod));
        assert_eq!(pod.status.unwrap().nominated_node_name, None, "the nomination is withdrawn");
    }
    world.node().start_kubelet().unwrap();
    urgent.wait_ready(world, 4).await;
    wait_for("the victims have terminated", Duration::from_secs(60), async || {
        let pods = calm.pods(world).await;
        let old = pods.iter().filter(|pod| !lives(pod)).count();
        if old == 0 { Ok(()) } else { Err(format!("{old} exist")) }
    })
    .await;
}
