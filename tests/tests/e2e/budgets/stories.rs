//! The two user stories of KEP-3280.

use super::{MINUTE, Scene, Stage, wait_group_unschedulable, wait_pod_unschedulable};
use giveway_tests::World;
use giveway_tests::audit::budgets::Worst;
use giveway_tests::audit::{How, Promises};
use giveway_tests::cluster::Shaped;
use giveway_tests::runner::Test;
use giveway_tests::tests;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_user_stories_of_kep_3280_hold;
    ]
}

async fn the_user_stories_of_kep_3280_hold() {
    let stage = Stage::build(World::builder(), &[5000], &[1000, 5000]).await;
    let (service, job) = tokio::join!(a_service_keeps_three_pods(&stage), a_tensorflow_job_keeps_five_workers(&stage));
    let (judgement, history) = stage.judge(&Promises::new()).await;
    assert_eq!(service.worst(&judgement, "web"), Worst { healthy: 3, desired: 3 });
    assert_eq!(job.worst(&judgement, "web"), Worst { healthy: 5, desired: 5 });
    for scene in [&service, &job] {
        let requests: Vec<How> = scene.requests(&history).iter().map(|removal| removal.how).collect();
        assert_eq!(requests, [How::Evict], "{}: one pod, through the Eviction API, at the first attempt", scene.name);
    }
    // "…can only be violated by pods with a priority value greater than or equal to" the threshold: a gang that reaches it may
    // violate the budget if there are no other victims. One victim outside of the budget is pod `single`.
    let allowed = job.gang("allowed", "urgent-5000", 2).create().await;
    allowed.wait_bound(MINUTE).await;
    let (judgement, _) = stage.judge(&Promises::new()).await;
    assert_eq!(job.worst(&judgement, "web"), Worst { healthy: 4, desired: 5 });
}

/// Story 1: "User deployed a service in a cluster and to ensure its high availability, User created PDB for this deployment
/// and set .spec.minAvailable to 3. User wanted the PDB to be guaranteed even in case of scheduler preemption."
async fn a_service_keeps_three_pods(stage: &Stage) -> Scene {
    let scene = stage.scene("story-1").await;
    scene.nodes(1, 4).await;
    scene.deployment("web", "guarded-5000", 4).create().await;
    scene.budget("web").min_available(3).create_allowing(1).await;
    // The budget allows one disruption, so one pod is evicted. Its replacement does not fit.
    let first = scene.pod("first", "urgent-1000").create().await;
    first.wait_bound(MINUTE).await;
    let second = scene.pod("second", "urgent-1000").create().await;
    assert!(wait_pod_unschedulable(&second).await.contains("budget"));
    let gang = scene.gang("gang", "urgent-1000", 2).create().await;
    assert!(wait_group_unschedulable(&gang).await.contains("budget"));
    scene
}

/// Story 2: "User created a Tensorflow distributed job that requires a minimum of 5 workers running. User created PDB for the
/// job and set .spec.minAvailable to 5. User wanted the PDB to be guaranteed even in case of scheduler preemption to ensure
/// the stability of the whole job."
async fn a_tensorflow_job_keeps_five_workers(stage: &Stage) -> Scene {
    let scene = stage.scene("story-2").await;
    let nodes = scene.nodes(2, 3).await;
    let placements = [&nodes[..], &nodes, &nodes].concat();
    let workers = scene.gang("tensorflow", "guarded-5000", 6).min_count(5).label("app", "web").on(&placements);
    workers.create().await;
    scene.budget("web").min_available(5).create_allowing(1).await;
    // A gang that needs two victims stays pending; a pod that needs one victim is bound.
    let gang = scene.gang("gang", "urgent-1000", 2).create().await;
    assert!(wait_group_unschedulable(&gang).await.contains("budget"));
    let single = scene.pod("single", "urgent-1000").create().await;
    single.wait_bound(MINUTE).await;
    let late = scene.pod("late", "urgent-1000").create().await;
    assert!(wait_pod_unschedulable(&late).await.contains("budget"));
    scene
}
