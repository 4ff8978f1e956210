//! The chart's roles for users grant what `kubectl giveway` needs and no more, and a forbidden error names the missing role.

use crate::MINUTE;
use crate::cli::{Printed, run};
use giveway_tests::attack::Call;
use giveway_tests::cluster::Shaped;
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::paths;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use std::path::PathBuf;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            a_forbidden_error_names_a_role_that_grants_the_missing_right,
            why_reports_the_namespace_of_a_tenant_and_what_the_tenant_may_not_list,
            a_tenant_may_write_groups_but_not_status_finalizers_or_preemptions;
    ]
}

/// Namespace `team` with the accounts `planner` and `boss` without roles, and `tenant` with role `admin`.
pub(crate) const ACCOUNTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: planner, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: boss, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: admin, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: tenant, namespace: team}]
";

/// Runs `kubectl giveway` as one of these accounts.
pub(crate) struct Account(PathBuf);

impl Account {
    pub(crate) async fn new(world: &World, name: &str) -> Self {
        Self(world.account("team", name).await)
    }

    pub(crate) async fn giveway(&self, args: &[&str]) -> Printed {
        run(&paths::giveway_program("kubectl-giveway").unwrap(), args, &self.0, None).await
    }

    /// Runs the command until it succeeds, because RBAC observes new bindings with a delay.
    pub(crate) async fn works(&self, args: &[&str]) -> Printed {
        wait_for(&format!("{args:?} succeeds"), MINUTE, async || {
            let printed = self.giveway(args).await;
            if printed.status == Some(0) { Ok(printed) } else { Err(printed.err) }
        })
        .await
    }
}

/// Runs the commands that a forbidden error names, with `name` instead of `NAME`.
async fn follow_advice(world: &World, said: &str, name: &str) {
    let (_, advice) = said.trim().rsplit_once(": kubectl ").unwrap_or_else(|| panic!("no advice: {said}"));
    for command in advice.split(" and kubectl ") {
        let command = command.replace("NAME", name);
        world.kubectl(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
    }
}

async fn a_forbidden_error_names_a_role_that_grants_the_missing_right(world: &World) {
    world.apply(ACCOUNTS).await.unwrap();
    world.class("high", 1000).create().await;
    world.nodes(1).cpus(2).create().await;
    world.gang("train", 2).cpu(4).create().await;

    let planner = Account::new(world, "planner").await;
    let no = planner.giveway(&["why", "podgroup/train", "-n", "default"]).await;
    let user = "system:serviceaccount:team:planner";
    assert_eq!(no.status, Some(1), "{}", no.err);
    assert!(no.err.contains(&format!("is forbidden: User \"{user}\" cannot get resource \"podgroups\"")), "{}", no.err);
    let advice = format!(
        ": the chart's ClusterRole giveway-planner allows it: kubectl create clusterrolebinding NAME --clusterrole=giveway-planner --user={user}"
    );
    assert!(no.err.trim().ends_with(&advice), "{}", no.err);
    follow_advice(world, &no.err, "planners").await;
    let page = planner.works(&["why", "podgroup/train", "-n", "default"]).await;
    assert!(page.out.contains("2 pods needed, 0 fit now."), "{}", page.out);
    let plan = planner.works(&["plan", "--for", "podgroup/train", "-n", "default"]).await;
    planner.works(&["why", "-A"]).await;
    let snapshot = planner.works(&["snapshot", "-o", "-"]).await;
    assert!(!plan.err.contains("You may not") && !snapshot.err.contains("You may not"), "{}{}", plan.err, snapshot.err);

    let boss = Account::new(world, "boss").await;
    let no = boss.giveway(&["adopt", "high"]).await;
    assert_eq!(no.status, Some(1), "{}", no.err);
    let user = "system:serviceaccount:team:boss";
    let advice = format!(
        ": the chart's ClusterRole and Role giveway-class-admin allow it: kubectl create clusterrolebinding NAME --clusterrole=giveway-class-admin --user={user} and kubectl create rolebinding NAME --role=giveway-class-admin --user={user} --namespace=giveway-system"
    );
    assert!(no.err.trim().ends_with(&advice), "{}", no.err);
    follow_advice(world, &no.err, "bosses").await;
    boss.works(&["adopt", "high"]).await;
    boss.works(&["release", "--all"]).await;
    // Neither role grants the rights of the other.
    let no = boss.giveway(&["why", "-A"]).await;
    assert!(no.err.contains("giveway-planner allows it"), "{}", no.err);
    let no = planner.giveway(&["adopt", "high"]).await;
    assert!(no.err.contains("giveway-class-admin allow it"), "{}", no.err);
    world.check_promises().await;
}

async fn why_reports_the_namespace_of_a_tenant_and_what_the_tenant_may_not_list(world: &World) {
    world.apply(ACCOUNTS).await.unwrap();
    let group = serde_json::json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "team"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}
    });
    world.apply(&group.to_string()).await.unwrap();
    let tenant = Account::new(world, "tenant").await;
    let page = wait_for("the state of the group is reported", MINUTE, async || {
        let printed = tenant.giveway(&["why", "podgroup/train", "-n", "team"]).await;
        let reported = printed.status == Some(0) && printed.out.contains("WaitingForPods");
        if reported { Ok(printed.out) } else { Err(format!("{}{}", printed.out, printed.err)) }
    })
    .await;
    assert!(page.contains("What is not known\n"), "{page}");
    assert!(page.contains("so only those of namespace team are known."), "{page}");
    assert!(page.contains("You may not list ") && page.contains("Nodes"), "{page}");
    // Without the nodes the planner would say that nothing fits.
    assert!(!page.contains("If it were decided now"), "{page}");
    let list = tenant.giveway(&["why", "-n", "team", "-o", "name"]).await;
    assert_eq!((list.status, list.out.as_str()), (Some(0), "podgroup/train\n"), "{}", list.err);
    // The whole cluster needs the role.
    let all = tenant.giveway(&["why", "-A"]).await;
    assert!(all.status == Some(1) && all.err.contains("giveway-planner allows it"), "{}", all.err);
    world.check_promises().await;
}

async fn a_tenant_may_write_groups_but_not_status_finalizers_or_preemptions(world: &World) {
    world.apply(ACCOUNTS).await.unwrap();
    let account = Account::new(world, "tenant").await;
    let config = kube::config::Kubeconfig::read_from(account.0).unwrap();
    let tenant = kubeconfig::impatient_client(config).await.unwrap();
    let group = "/apis/scheduling.giveway.dev/v1alpha1";
    let groups = format!("{group}/namespaces/team/podgroups");
    wait_for("the tenant may list groups", MINUTE, async || Call::get(&groups).make(&tenant).await).await;
    let nothing = serde_json::json!({});
    let refusals = [
        ("cannot list resource \"podgroups\"", Call::get(&format!("{group}/podgroups"))),
        ("cannot patch resource \"podgroups/status\"", Call::merge(&format!("{groups}/g/status"), &nothing)),
        ("cannot update resource \"podgroups/finalizers\"", Call::put(&format!("{groups}/g/finalizers"), &nothing)),
        ("cannot list resource \"preemptions\"", Call::get(&format!("{group}/preemptions"))),
        ("cannot get resource \"preemptions\"", Call::get(&format!("{group}/preemptions/p"))),
    ];
    for (words, call) in refusals {
        call.refused(&tenant, "an administrator of a namespace", words).await;
    }
    world.check_promises().await;
}
