//! The real helm in a cluster that already has the namespace of `helm test` or a running operator, or in which another client
//! changed objects of the chart.

use crate::MINUTE;
use crate::uninstall::{helm, run_hook, succeeds};
use giveway_tests::giveway::chart::values_file;
use giveway_tests::giveway::{NAMESPACE, install_chart};
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            an_upgrade_conflicts_with_a_changed_namespace_selector_and_force_conflicts_restores_it;
        release:
            helm_test_uses_its_own_namespace_and_schedules_a_gang_where_groups_are_served;
    ]
}

/// Namespace that `helm test` creates.
const TEST: &str = "giveway-test-3252bef2";

/// Runs helm and expects it to fail with an error that contains `words`.
async fn expect_helm_failure(world: &mut World, args: &[&str], words: &str) {
    let output = helm(world, args).wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{args:?}: {said}");
}

async fn helm_test_uses_its_own_namespace_and_schedules_a_gang_where_groups_are_served() {
    let mut world = World::bare().await;
    world.nodes(2).create().await;
    let chart = paths::repository().join("helm");
    let _giveway =
        install_chart(world.plane(), &chart, &[], |program| paths::giveway_program(program).unwrap()).await.unwrap();

    // The namespace has a name that is unique to the release. A user may own a namespace of the obvious name.
    world.kubectl(&["create", "namespace", "giveway-system-test"]).await.unwrap();
    // A killed test leaves its namespace behind; the next run reuses and deletes it.
    let mut killed = helm(&mut world, &["test", "giveway"]);
    let job = ["get", "job", "giveway-test", "-n", NAMESPACE];
    wait_for("the Job is created", MINUTE, async || world.kubectl(&job).await).await;
    killed.kill().await.unwrap();
    world.kubectl(&["get", "namespace", TEST]).await.unwrap();
    // Without a kubelet the Job does not run, so the test deletes it.
    let job = ["delete", "job", "giveway-test", "-n", NAMESPACE, "--cascade=foreground", "--timeout=60s"];
    world.kubectl(&job).await.unwrap();
    let wait_deleted = ["wait", &format!("namespace/{TEST}"), "--for=delete", "--timeout=60s"];
    for _ in 0..2 {
        let test = helm(&mut world, &["test", "giveway"]);
        let said = run_hook(&mut world, "giveway-test").await;
        succeeds(test).await;
        assert!(
            said.contains("A gang of two pods stayed gated until both existed, and both got a node after"),
            "{said}"
        );
        assert!(said.contains("\n0 failed, ") && !said.contains("is not known"), "{said}");
        world.kubectl(&wait_deleted).await.unwrap();
    }

    let phase = ["get", "namespace", "giveway-system-test", "-o", "jsonpath={.status.phase}"];
    assert_eq!(world.kubectl(&phase).await.unwrap(), "Active");

    // If groups are served only in other namespaces, the test says that it tried no gang.
    let by_name = "namespaces.selector.matchLabels.kubernetes\\.io/metadata\\.name=default";
    let path = chart.display().to_string();
    succeeds(helm(&mut world, &["upgrade", "giveway", &path, "--reset-then-reuse-values", "--set", by_name])).await;
    let test = helm(&mut world, &["test", "giveway"]);
    let said = run_hook(&mut world, "giveway-test").await;
    succeeds(test).await;
    assert!(said.contains("No gang was tried. Giveway serves no groups in namespace"), "{said}");
    assert!(said.contains("\n0 failed, ") && !said.contains("is not known"), "{said}");
}

/// The admissions enforcer of AKS changes webhook configurations without the annotation of `values-aks.yaml` in this way.
async fn an_upgrade_conflicts_with_a_changed_namespace_selector_and_force_conflicts_restores_it() {
    let mut world = World::bare().await;
    let chart = paths::repository().join("helm").display().to_string();
    let values = values_file("aks").display().to_string();
    succeeds(helm(&mut world, &["install", "giveway", &chart, "--create-namespace"])).await;
    let expression = r#"{"key": "control-plane", "operator": "DoesNotExist"}"#;
    let patch = format!(
        r#"[{{"op": "add", "path": "/webhooks/0/namespaceSelector/matchExpressions/-", "value": {expression}}}]"#
    );
    let kinds = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
    for kind in kinds {
        let change = ["patch", kind, "giveway", "--type=json", "--field-manager=admissionsenforcer", "-p", &patch];
        world.kubectl(&change).await.unwrap();
    }
    let upgrade = ["upgrade", "giveway", &chart, "--values", &values];
    expect_helm_failure(&mut world, &upgrade, "conflict with \"admissionsenforcer\"").await;
    succeeds(helm(&mut world, &[&upgrade[..], &["--force-conflicts"]].concat())).await;
    let path = "jsonpath={.metadata.annotations.admissions\\.enforcer/disabled} {.webhooks[0].namespaceSelector.matchExpressions[*].key}";
    for kind in kinds {
        let now = world.kubectl(&["get", kind, "giveway", "-o", path]).await.unwrap();
        assert_eq!(now, "true kubernetes.io/metadata.name", "{kind}");
    }
    succeeds(helm(&mut world, &[&upgrade[..], &["--set", "operator.extraArgs={--evictions-per-second=400}"]].concat()))
        .await;
}
