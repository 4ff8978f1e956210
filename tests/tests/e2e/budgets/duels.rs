//! One preemptor and one budget: the preemptor's priority is below, equal to or above the threshold, and the budget allows a
//! disruption or none. Also pods that two budgets select, which the Eviction API answers with an error.

use super::{MINUTE, Scene, Stage, wait_pod_unschedulable};
use futures::future::join_all;
use giveway_tests::World;
use giveway_tests::audit::budgets::Worst;
use giveway_tests::audit::{History, How, Promises};
use giveway_tests::cluster::PodHandle;
use giveway_tests::runner::Test;
use giveway_tests::tests;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_budget_is_violated_only_by_preemptors_that_reach_the_threshold;
    ]
}

/// One case: the pods and budgets, the preemptor, and the expected requests and outcome.
struct Duel {
    name: &'static str,
    /// Class of the two pods that the budgets select.
    class: &'static str,
    /// Class of the preemptor, which needs the capacity of one of them.
    preemptor: &'static str,
    /// How many disruptions the budgets allow.
    allows: i32,
    /// Whether a second budget selects the pods.
    twice: bool,
    /// Whether there is another potential victim, of higher priority and not selected by a budget.
    other: bool,
    /// The expected requests of Giveway, with the HTTP status of each answer.
    requests: &'static [(How, u16)],
    /// Whether the preemptor is bound.
    succeeds: bool,
}

const EVICTED: &[(How, u16)] = &[(How::Evict, 201)];
const FORCED: &[(How, u16)] = &[(How::Evict, 429), (How::Delete, 200)];
const FORCED_TWICE: &[(How, u16)] = &[(How::Evict, 500), (How::Delete, 200)];

const fn duel(name: &'static str, class: &'static str, preemptor: &'static str) -> Duel {
    Duel { name, class, preemptor, allows: 0, twice: false, other: false, requests: EVICTED, succeeds: true }
}

const DUELS: [Duel; 12] = [
    Duel { requests: &[], succeeds: false, ..duel("below-none", "guarded-1000", "urgent-999") },
    Duel { allows: 1, ..duel("below-one", "guarded-1000", "urgent-999") },
    Duel { requests: FORCED, ..duel("equal-none", "guarded-1000", "urgent-1000") },
    Duel { allows: 1, ..duel("equal-one", "guarded-1000", "urgent-1000") },
    Duel { requests: FORCED, ..duel("above-none", "guarded-1000", "urgent-1001") },
    Duel { allows: 1, ..duel("above-one", "guarded-1000", "urgent-1001") },
    Duel { requests: FORCED, ..duel("without-none", "plain", "urgent-999") },
    Duel { allows: 1, ..duel("without-one", "plain", "urgent-999") },
    // Two guaranteed budgets that would both allow the eviction. The Eviction API rejects such pods, so Giveway chooses none of them.
    Duel {
        allows: 1,
        twice: true,
        requests: &[],
        succeeds: false,
        ..duel("two-budgets-below", "guarded-1000", "urgent-999")
    },
    Duel { allows: 1, twice: true, requests: FORCED_TWICE, ..duel("two-budgets-equal", "guarded-1000", "urgent-1000") },
    Duel { allows: 1, twice: true, requests: FORCED_TWICE, ..duel("two-budgets-without", "plain", "urgent-999") },
    // The two cheapest victims cannot be evicted, so Giveway evicts the next one at once.
    Duel { allows: 1, twice: true, other: true, ..duel("two-budgets-around", "guarded-1000", "urgent-999") },
];

async fn a_budget_is_violated_only_by_preemptors_that_reach_the_threshold() {
    let stage = Stage::build(World::builder(), &[1000], &[999, 1000, 1001]).await;
    stage.world.class("higher", 200).managed().create().await;
    let scenes = join_all(DUELS.iter().map(|duel| play(&stage, duel))).await;
    let (judgement, history) = stage.judge(&Promises::new()).await;
    for (duel, (scene, web)) in DUELS.iter().zip(&scenes) {
        check(duel, scene, web, &history);
        let lost = i64::from(duel.succeeds && !duel.other);
        let worst = Worst { healthy: 2 - lost, desired: i64::from(2 - duel.allows) };
        assert_eq!(scene.worst(&judgement, "web"), worst, "{}", duel.name);
    }
}

/// Creates the pods, budgets and preemptor of a case and waits for its outcome. Returns the scene and its pods with `app=web`.
async fn play(stage: &Stage, duel: &Duel) -> (Scene, Vec<PodHandle>) {
    let scene = stage.scene(duel.name).await;
    let nodes = scene.nodes(1, 2).await;
    let web = scene.web(duel.class, &nodes).await;
    let budgets = if duel.twice { &["web", "again"][..] } else { &["web"] };
    for budget in budgets {
        scene.budget(budget).min_available(2 - duel.allows).create_allowing(duel.allows).await;
    }
    if duel.other {
        let more = scene.more_nodes(&format!("{}-more", duel.name), 1, 1).await;
        scene.pod("other", "higher").on(&more[0]).create().await;
    }
    let preemptor = scene.pod("preemptor", duel.preemptor).create().await;
    if duel.succeeds {
        preemptor.wait_bound(MINUTE).await;
    } else {
        wait_pod_unschedulable(&preemptor).await;
    }
    (scene, web)
}

fn check(duel: &Duel, scene: &Scene, web: &[PodHandle], history: &History) {
    let requests = scene.requests(history);
    let made: Vec<(How, u16)> = requests.iter().map(|removal| (removal.how, removal.code)).collect();
    assert_eq!(made, duel.requests, "{}: {requests:#?}", duel.name);
    for removal in &requests {
        assert_eq!(removal.precondition.as_deref(), Some(removal.uid.as_str()), "{}: evicted by UID", duel.name);
    }
    let evicted: Vec<&str> = requests.iter().filter(|r| r.accepted).map(|removal| removal.pod.1.as_str()).collect();
    assert_eq!(evicted.len(), usize::from(duel.succeeds), "{}: {evicted:?}", duel.name);
    let of_web = evicted.iter().all(|name| web.iter().any(|pod| pod.name == *name));
    assert_eq!(of_web, !duel.other, "{}: {evicted:?}", duel.name);
}
