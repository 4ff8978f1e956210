//! The API server accepts the rendered chart. The tests of the rendering itself are in package `giveway-offline`.

use crate::MINUTE;
use giveway_tests::giveway::NAMESPACE;
use giveway_tests::giveway::chart::{CRITICAL_ADDONS, EVERY_VALUE, PLATFORMS, TEST_NAMESPACE, values_file};
use giveway_tests::giveway::kubectl;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_api_server_accepts_the_chart_and_its_policies_pass_type_checking,
            the_api_server_accepts_the_chart_with_the_values_of_every_platform;
    ]
}

/// The manifests that `helm template` renders for namespace `giveway-system` with these `--set` values.
async fn rendered(world: &World, values: &[&str]) -> String {
    let chart = paths::repository().join("helm").display().to_string();
    let mut args = vec!["template", "giveway", &chart, "--namespace", NAMESPACE];
    args.extend(values.iter().flat_map(|value| ["--set", *value]));
    world.helm(&args).await.unwrap()
}

async fn the_api_server_accepts_the_chart_and_its_policies_pass_type_checking() {
    let mut world = World::bare().await;
    world.install_crds().await;
    // `helm test` creates the second namespace only while it runs.
    for namespace in ["giveway-system", TEST_NAMESPACE] {
        world.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    let asked = world.plane().directory().join("asked.yaml");
    std::fs::write(&asked, rendered(&world, EVERY_VALUE).await).unwrap();
    world.kubectl(&["apply", "--dry-run=server", "-f", &asked.display().to_string()]).await.unwrap();
    let values = [CRITICAL_ADDONS, "guard.failurePolicy=Fail", "networkPolicy.apiServers={10.0.0.2/32}"];
    world.apply(&rendered(&world, &values).await).await.unwrap();
    // kube-controller-manager reports type errors of the expressions as warnings in the status.
    let path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {.status.observedGeneration} {.status.typeChecking}{\"\\n\"}{end}";
    let policies = wait_for("kube-controller-manager has checked the policies", MINUTE, async || {
        let policies = world.kubectl(&["get", "validatingadmissionpolicies", "-o", path]).await?;
        let checked = |line: &str| line.split(' ').nth(1) == line.split(' ').nth(2);
        if policies.lines().all(checked) { Ok(policies) } else { Err(policies) }
    })
    .await;
    let named = |name: &str| policies.lines().any(|line| line.split(' ').next() == Some(name));
    for part in [
        "bindings",
        "class-annotations",
        "classless-pods",
        "critical-addons",
        "critical-pods",
        "namespaces",
        "nodes",
        "operator",
        "placeholders",
        "pod-groups",
        "pods",
        "preemptions",
        "webhook",
    ] {
        assert!(named(&format!("giveway-{part}")), "{part} is not in:\n{policies}");
    }
    assert!(!policies.contains("arning"), "{policies}");
}

async fn the_api_server_accepts_the_chart_with_the_values_of_every_platform() {
    let mut world = World::bare().await;
    world.install_crds().await;
    for namespace in [NAMESPACE, TEST_NAMESPACE] {
        world.kubectl(&["create", "namespace", namespace]).await.unwrap();
        // The API server warns of pod templates that this level rejects.
        world.kubectl(&["label", "namespace", namespace, "pod-security.kubernetes.io/warn=restricted"]).await.unwrap();
    }
    let chart = paths::repository().join("helm").display().to_string();
    for platform in PLATFORMS {
        let values = values_file(platform).display().to_string();
        let template = ["template", "giveway", &chart, "--namespace", NAMESPACE, "--values", &values];
        let manifests = world.helm(&template).await.unwrap();
        let file = world.plane().directory().join(format!("{platform}.yaml"));
        std::fs::write(&file, manifests).unwrap();
        let file = file.display().to_string();
        let applied = kubectl(&world.plane().kubeconfig(), &["apply", "--dry-run=server", "-f", &file]).await.unwrap();
        let said = String::from_utf8_lossy(&applied.stderr);
        assert!(applied.status.success(), "{platform}: {said}");
        let warnings: Vec<&str> = said.lines().filter(|line| line.contains("would violate PodSecurity")).collect();
        match platform {
            "eks" => assert!(warnings.len() == 1 && warnings[0].contains("hostNetwork=true"), "{said}"),
            _ => assert_eq!(warnings, Vec::<&str>::new(), "{platform}: {said}"),
        }
    }
}
