//! What the real helm does with the chart in a cluster where something is there already: the namespace of its test, and an operator.

use crate::MINUTE;
use crate::uninstall::{carry_out, helm, succeeds};
use giveway_tests::giveway::{NAMESPACE, install_chart};
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            no_second_leader_comes_by_another_lease,
            its_test_takes_no_namespace_of_somebody_else_and_starts_a_gang_where_groups_are_served;
    ]
}

/// The namespace of `helm test`.
const TEST: &str = "giveway-test-3252bef2";

/// Expects that helm fails, in these words.
async fn fails(world: &mut World, args: &[&str], words: &str) {
    let output = helm(world, args).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{args:?}: {said}");
}

async fn its_test_takes_no_namespace_of_somebody_else_and_starts_a_gang_where_groups_are_served() {
    let mut world = World::bare().await;
    world.nodes(2).create().await;
    let chart = paths::repository().join("helm");
    let _giveway =
        install_chart(world.plane(), &chart, &[], |program| paths::giveway_program(program).unwrap()).await.unwrap();

    // Its name is nobody's; that which it once had may be somebody's.
    world.kubectl(&["create", "namespace", "giveway-system-test"]).await.unwrap();
    // A test that is killed in the middle leaves it: the next one takes it over, and deletes it in the end.
    let mut killed = helm(&mut world, &["test", "giveway"]);
    let job = ["get", "job", "giveway-test", "-n", NAMESPACE];
    wait_for("the Job is there", MINUTE, async || world.kubectl(&job).await).await;
    killed.kill().await.unwrap();
    world.kubectl(&["get", "namespace", TEST]).await.unwrap();
    // A kubelet would carry it out.
    let job = ["delete", "job", "giveway-test", "-n", NAMESPACE, "--cascade=foreground", "--timeout=60s"];
    world.kubectl(&job).await.unwrap();
    let gone = ["wait", &format!("namespace/{TEST}"), "--for=delete", "--timeout=60s"];
    for _ in 0..2 {
        let test = helm(&mut world, &["test", "giveway"]);
        let said = carry_out(&mut world, "giveway-test").await;
        succeeds(test).await;
        assert!(said.contains("A gang of two pods was held until both existed, and both got a node after"), "{said}");
        assert!(said.contains("\n0 wrong, ") && !said.contains("is not known"), "{said}");
        world.kubectl(&gone).await.unwrap();
    }

    let phase = ["get", "namespace", "giveway-system-test", "-o", "jsonpath={.status.phase}"];
    assert_eq!(world.kubectl(&phase).await.unwrap(), "Active");

    // Where groups are served in namespaces of these names only, it says that it tries none.
    let by_name = "namespaces.selector.matchLabels.kubernetes\\.io/metadata\\.name=default";
    let path = chart.display().to_string();
    succeeds(helm(&mut world, &["upgrade", "giveway", &path, "--reset-then-reuse-values", "--set", by_name])).await;
    let test = helm(&mut world, &["test", "giveway"]);
    let said = carry_out(&mut world, "giveway-test").await;
    succeeds(test).await;
    assert!(said.contains("No gang was tried. Giveway serves no groups in namespace"), "{said}");
    assert!(said.contains("\n0 wrong, ") && !said.contains("is not known"), "{said}");
}

async fn no_second_leader_comes_by_another_lease() {
    let mut world = World::bare().await;
    world.nodes(1).create().await;
    let chart = paths::repository().join("helm").display().to_string();
    succeeds(helm(&mut world, &["install", "giveway", &chart, "--create-namespace"])).await;
    let other = ["upgrade", "giveway", &chart, "--set", "operator.leaseName=other"];
    let words = "operator.leaseName is other, but an operator runs that leads by another Lease (--lease-name=giveway-operator): for a while both would lead, each evicting by plans of its own. End the old one first: kubectl -n giveway-system scale deployment giveway-operator --replicas=0, then kubectl -n giveway-system wait --for=delete pod -l app.kubernetes.io/component=operator, then this again with --force-conflicts, which starts the new one";
    fails(&mut world, &other, words).await;
    succeeds(helm(&mut world, &["upgrade", "giveway", &chart, "--set", "operator.evictionsPerSecond=400"])).await;
    world.kubectl(&["-n", NAMESPACE, "scale", "deployment", "giveway-operator", "--replicas=0"]).await.unwrap();
    let gone = ["-n", NAMESPACE, "get", "deployment", "giveway-operator", "-o", "jsonpath={.status.replicas}"];
    wait_for("the operator's pod is gone", MINUTE, async || {
        let left = world.kubectl(&gone).await?;
        if left.is_empty() || left == "0" { Ok(()) } else { Err(left) }
    })
    .await;
    succeeds(helm(&mut world, &[&other[..], &["--force-conflicts"]].concat())).await;
    let now = "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].args}";
    let now = world.kubectl(&["-n", NAMESPACE, "get", "deployment", "giveway-operator", "-o", now]).await.unwrap();
    assert!(now.starts_with("1 ") && now.contains("\"--lease-name=other\""), "{now}");
}
