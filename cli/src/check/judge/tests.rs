//! Tests: each fault, applied to a healthy installation, gives one finding with its status.

use super::super::facts::{Deployment, Exposure, Interrupted, Lease, Renewer, Switched};
use super::super::finding::Status;
use super::*;
use giveway_crds::breaker::OpenBreakers;
use giveway_crds::mode::Mode;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// CN=giveway.test, valid from 2026-01-01 to 2026-12-31.
const PEM: &[u8] = include_bytes!("../../../tests/data/certificate.pem");
const NOW: &str = "2026-11-21T12:00:00Z";

/// Returns these policies, each with a binding whose action is `Deny`.
fn in_force(names: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    names.iter().map(|name| ((*name).to_owned(), BTreeSet::from(["Deny".to_owned()]))).collect()
}

#[test]
fn a_policy_of_the_chart_without_a_binding_that_does_what_it_is_for_protects_nothing() {
    let message = |name: &str, actions: &[&str]| {
        let mut known = in_force(&POLICIES);
        known.insert(name.to_owned(), actions.iter().map(|action| (*action).to_owned()).collect());
        let found = all(&Installation { policies: Ok(known), ..healthy() });
        found.into_iter().find(|one| one.check == "policies" && one.status == Status::Fail).map(|one| one.message)
    };
    assert_eq!(message("giveway-nodes", &["Deny"]), None);
    assert_eq!(message("giveway-unserved", &["Warn"]), None, "it is meant to warn");
    for (name, actions) in
        [("giveway-nodes", &[][..]), ("giveway-webhook", &["Warn", "Audit"]), ("giveway-unserved", &[])]
    {
        let said = message(name, actions).unwrap_or_default();
        assert!(said.contains(&format!("puts it into force: {name}. Without it, ")), "{name}: {said}");
    }
}

/// Returns the policies of a template outside of any block, which the chart creates with any values.
fn unconditional(template: &str) -> Vec<String> {
    let (mut depth, mut is_policy, mut found) = (0, false, Vec::new());
    for line in template.lines() {
        for action in line.split("{{").skip(1) {
            match action.trim_start_matches(['-', ' ']).split([' ', '-', '}']).next() {
                Some("if" | "with" | "range" | "define") => depth += 1,
                Some("end") => depth -= 1,
                _ => {}
            }
        }
        if let Some(kind) = line.strip_prefix("kind: ") {
            is_policy = kind == "ValidatingAdmissionPolicy";
        }
        if let Some(name) = line.strip_prefix("  name: ").filter(|_| is_policy) {
            is_policy = false;
            found.extend((depth == 0).then(|| name.to_owned()));
        }
    }
    assert_eq!(depth, 0, "the template was not understood");
    found
}

#[test]
fn the_policies_that_are_looked_for_are_those_that_the_chart_always_makes() {
    let templates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../helm/templates")).unwrap();
    let paths = templates.map(|entry| entry.unwrap().path());
    let of_policies = paths.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("policy-"));
    let made: BTreeSet<String> =
        of_policies.flat_map(|path| unconditional(&std::fs::read_to_string(path).unwrap())).collect();
    assert_eq!(made, POLICIES.into_iter().map(str::to_owned).collect());
}

/// Returns an installation without faults.
pub(in super::super) fn healthy() -> Installation {
    let configuration = WebhookConfiguration {
        version: Some("0.1.0".into()),
        bundles: BTreeSet::from([PEM.to_vec()]),
        guard: true,
        renewer: Renewer::default(),
    };
    let deployment = |name: &str| Deployment { name: name.into(), version: Some("v0.1.0".into()) };
    let now: Timestamp = NOW.parse().unwrap();
    Installation {
        version: "0.1.0".into(),
        namespace: "giveway-system".into(),
        now,
        resources: Ok(RESOURCES.into_iter().map(str::to_owned).collect()),
        admission: AdmissionState::Answers,
        mutating: Ok(Some(configuration.clone())),
        validating: Ok(Some(configuration)),
        renewer: Renewer::default(),
        secret: "giveway-webhook-tls".into(),
        policies: Ok(in_force(&POLICIES)),
        serving: Ok(Some(PEM.to_vec())),
        deployments: Ok(vec![deployment("giveway-operator"), deployment("giveway-webhook")]),
        lease: Ok(Some(Lease {
            name: "giveway-operator".into(),
            holder: "a-1".into(),
            renewed: Some(now - SignedDuration::from_secs(3)),
            seconds: 15,
        })),
        switched: Ok(Switched::No),
        chart_mode: Some(Mode::Enforce),
        port: Some(9443),
        in_tree: Ok(Vec::new()),
        autoscalers: Ok(Vec::new()),
        provisioning: None,
        tolerations: Ok(Vec::new()),
        interrupted: Ok(Vec::new()),
        gated: Ok(3),
        exposure: Ok(Exposure::default()),
        breakers: Ok(OpenBreakers::default()),
    }
}

#[test]
fn an_autoscaler_that_is_not_asked_is_offered_the_method_that_it_knows() {
    let facts =
        Installation { autoscalers: Ok(vec![Autoscaler::ProvisioningRequests, Autoscaler::Karpenter]), ..healthy() };
    let of = |facts: &Installation| all(facts).into_iter().filter(|one| one.check == "autoscaler").collect::<Vec<_>>();
    let found = of(&facts);
    assert!(found.iter().all(|one| one.status == Status::Warn), "{found:?}");
    assert!(found[0].remedy.contains("provisioning.method=ProvisioningRequest;"), "{found:?}");
    assert!(found[1].remedy.contains("provisioning.method=Placeholder;"), "{found:?}");
    let asked = of(&Installation { provisioning: Some("Placeholder".into()), ..facts });
    assert_eq!(
        asked[1].message,
        "NodePools of Karpenter are served; Giveway requests capacity for pending gangs (provisioning.method=Placeholder)."
    );
    assert_eq!(asked[1].status, Status::Ok);
    assert_eq!(of(&healthy()), []);
}

#[test]
fn a_webhook_that_the_api_server_does_not_reach_is_reported_with_its_port() {
    let remedy = |said: &str, port| {
        let admission = AdmissionState::Fails(said.to_owned());
        let found = webhook(&Installation { admission, port, ..healthy() });
        found.into_iter().find(|one| one.status == Status::Fail).map(|one| one.remedy).unwrap_or_default()
    };
    let timeout = "failed calling webhook \"priorityclasses.giveway.dev\": Post \"https://giveway-webhook.giveway-system.svc:443/validate?timeout=10s\": context deadline exceeded";
    let open = "Allow the API servers to reach TCP port 10250 of the webhook's pods (docs/platforms.md). ";
    assert!(remedy(timeout, Some(10_250)).starts_with(open), "{}", remedy(timeout, Some(10_250)));
    for (said, port) in [(timeout, None), ("x509: certificate signed by unknown authority", Some(9443))] {
        assert!(remedy(said, port).starts_with("kubectl -n giveway-system get pods,"), "{}", remedy(said, port));
    }
}

fn lease(age: i64, holder: &str) -> Option<Lease> {
    let renewed = Some(NOW.parse::<Timestamp>().unwrap() - SignedDuration::from_secs(age));
    Some(Lease { name: "giveway-operator".into(), holder: holder.into(), renewed, seconds: 15 })
}

#[test]
fn in_a_healthy_installation_every_line_is_ok() {
    let found = all(&healthy());
    assert!(found.iter().all(|finding| finding.status == Status::Ok && finding.remedy.is_empty()), "{found:#?}");
    let lines: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(
        lines,
        [
            "PodGroup, Preemption and Workload are served in scheduling.giveway.dev/v1alpha1.",
            "Giveway's webhook answers: it filled in the fields of a managed PriorityClass (dry run).",
            "The chart's policies protect Giveway's labels, annotations and scheduling gates on pods and groups.",
            "The API server asks Giveway's webhook before kube-scheduler preempts a pod.",
            "The webhooks' caBundle (CN=giveway.test) expires in 39 days, on 2026-12-31; neither the operator nor cert-manager renews it.",
            "Secret giveway-webhook-tls (CN=giveway.test) expires in 39 days, on 2026-12-31; neither the operator nor cert-manager renews it.",
            "a-1 is the leader; it renewed the Lease giveway-system/giveway-operator 3 s ago.",
            "Giveway preempts (set by the chart's value `mode`).",
            "The chart has version 0.1.0, like this program.",
            "Deployment giveway-operator has version v0.1.0, like this program.",
            "Deployment giveway-webhook has version v0.1.0, like this program.",
            "The in-tree PodGroup API is not served, so the scheduler's gate GenericWorkload has no effect.",
            "No pod has both a threshold and a budget.",
        ]
    );
}

#[test]
fn each_fault_is_one_line_with_its_weight() {
    use Status::{Fail, Warn};
    let at = |time: &str| Installation { now: time.parse().unwrap(), lease: Err("-".into()), ..healthy() };
    let young: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
    let no = || "forbidden".to_owned();
    let configuration = || healthy().mutating.unwrap().unwrap();
    let rows: Vec<(Installation, Status, &str, &str)> = vec![
        (
            Installation { resources: Ok(BTreeSet::new()), ..healthy() },
            Fail,
            "crds",
            "does not serve podgroups, podgroups/status, preemptions, preemptions/status, workloads, workloads/status.",
        ),
        (
            Installation { switched: Ok(Switched::To(Mode::Off)), ..healthy() },
            Warn,
            "mode",
            "Giveway is switched off: it gates no pods and evicts none (set by ConfigMap giveway-system/giveway-mode).",
        ),
        (
            Installation { chart_mode: Some(Mode::Observe), ..healthy() },
            Warn,
            "mode",
            "Giveway is in mode observe and evicts no pods (set by the chart's value `mode`).",
        ),
        (
            Installation {
                switched: Ok(Switched::Wrong("data.mode: \"of\": must be enforce, observe or off".into())),
                ..healthy()
            },
            Fail,
            "mode",
            "ConfigMap giveway-system/giveway-mode: data.mode: \"of\": must be enforce, observe or off. The previous mode",
        ),
        (Installation { switched: Err(no()), ..healthy() }, Warn, "mode", "is not known: forbidden"),
        (Installation { resources: Err(no()), ..healthy() }, Warn, "crds", "is not known: forbidden"),
        (
            Installation { mutating: Ok(None), ..healthy() },
            Fail,
            "webhook",
            "There is no MutatingWebhookConfiguration giveway",
        ),
        (
            Installation { validating: Ok(None), ..healthy() },
            Fail,
            "webhook",
            "There is no ValidatingWebhookConfiguration giveway",
        ),
        (
            Installation { admission: AdmissionState::Silent, ..healthy() },
            Fail,
            "webhook",
            "accepted a managed PriorityClass unchanged",
        ),
        (
            Installation { admission: AdmissionState::Fails("connection refused".into()), ..healthy() },
            Fail,
            "webhook",
            "the API server says: connection refused",
        ),
        (
            Installation { admission: AdmissionState::Unknown(no()), ..healthy() },
            Warn,
            "webhook",
            "Whether admission works is not known: forbidden",
        ),
        (
            Installation { policies: Ok(in_force(&["giveway-pods"])), ..healthy() },
            Fail,
            "policies",
            "no binding that puts them into force: giveway-bindings, giveway-class-annotations, giveway-classless-pods, giveway-critical-addons, giveway-mirror-pods, giveway-namespaces, giveway-operator, giveway-operator-groups, giveway-placeholders, giveway-pod-groups, giveway-preemptions.",
        ),
        (Installation { policies: Err(no()), ..healthy() }, Warn, "policies", "are in force is not known: forbidden"),
        (
            Installation {
                validating: Ok(Some(WebhookConfiguration { guard: false, ..configuration() })),
                ..healthy()
            },
            Warn,
            "guard",
            "No webhook checks the preemptions by kube-scheduler",
        ),
        (at("2026-12-20T00:00:00Z"), Warn, "certificate", "expires in 11 days, on 2026-12-31; neither"),
        // The operator and cert-manager renew when a third of the validity remains: 39 of 364 days are overdue.
        (
            Installation { renewer: Renewer::Operator, ..healthy() },
            Warn,
            "certificate",
            "expires in 39 days, on 2026-12-31; the operator renews it.",
        ),
        (Installation { renewer: Renewer::CertManager, ..healthy() }, Warn, "certificate", "cert-manager renews it."),
        (
            Installation {
                renewer: Renewer::Operator,
                serving: Ok(None),
                now: young,
                lease: Err("-".into()),
                ..healthy()
            },
            Fail,
            "certificate",
            "There is no Secret giveway-system/giveway-webhook-tls: the operator has not made the webhook's certificate.",
        ),
        (at("2027-01-02T00:00:00Z"), Fail, "certificate", "expired on 2026-12-31; neither"),
        (at("2025-12-31T00:00:00Z"), Fail, "certificate", "is valid only from 2026-01-01T00:00:00Z on."),
        (
            Installation { serving: Ok(Some(b"no".to_vec())), ..healthy() },
            Fail,
            "certificate",
            "Secret giveway-webhook-tls has no certificate.",
        ),
        (Installation { serving: Ok(None), ..healthy() }, Warn, "certificate", "runs outside the cluster."),
        (Installation { lease: Ok(None), ..healthy() }, Fail, "operator", "No operator has ever been the leader"),
        (
            Installation { lease: Ok(lease(3, "")), ..healthy() },
            Fail,
            "operator",
            "the Lease giveway-system/giveway-operator has no holder.",
        ),
        (
            Installation { lease: Ok(lease(21, "a-1")), ..healthy() },
            Fail,
            "operator",
            "a-1 has not renewed the Lease giveway-system/giveway-operator for 21 s",
        ),
        (
            Installation { deployments: Ok(Vec::new()), ..healthy() },
            Warn,
            "version",
            "so they run outside the cluster.",
        ),
        (
            Installation { version: "0.2.0".into(), ..healthy() },
            Warn,
            "version",
            "The chart has version 0.1.0, and this program 0.2.0.",
        ),
        (
            Installation { in_tree: Ok(vec!["scheduling.k8s.io/v1beta1".into()]), ..healthy() },
            Warn,
            "in-tree",
            "is served (scheduling.k8s.io/v1beta1)",
        ),
        (
            Installation {
                interrupted: Ok(vec![Interrupted { change: "adopt".into(), class: "high".into() }]),
                ..healthy()
            },
            Fail,
            "classes",
            "`kubectl giveway adopt high` was interrupted",
        ),
    ];
    for (facts, status, check, text) in rows {
        let found = all(&facts);
        let line = found.iter().find(|finding| finding.check == check && finding.message.contains(text));
        let line = line.unwrap_or_else(|| panic!("{check}: {text} is not in {found:#?}"));
        assert_eq!(line.status, status, "{}", line.message);
        assert!(!line.remedy.is_empty(), "{}", line.message);
    }
}

#[test]
fn a_lease_that_is_a_little_late_or_ahead_of_this_clock_is_fresh() {
    for age in [-30, 0, 15, 20] {
        let found = leader(&Installation { lease: Ok(lease(age, "a-1")), ..healthy() });
        assert_eq!(found.status, Status::Ok, "{}", found.message);
    }
}

#[test]
fn gated_pods_are_reported_with_a_remedy_when_no_operator_leads() {
    let down = |gated| operator(&Installation { lease: Ok(lease(60, "a-1")), gated, ..healthy() });
    let found = down(Ok(3));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!((found[1].status, found[1].check), (Status::Fail, "gated"));
    assert_eq!(
        found[1].message,
        "3 pods have the scheduling gate scheduling.giveway.dev/pod-group, and no operator runs that would remove it."
    );
    assert!(found[1].remedy.starts_with("Start the operator. A user who may update podgroups/breakglass can remove"));
    assert!(
        found[1].remedy.ends_with(
            r#"patch pod NAME -p '{"spec":{"schedulingGates":[{"$patch":"delete","name":"scheduling.giveway.dev/pod-group"}]}}'"#
        ),
        "{}",
        found[1].remedy
    );
    assert_eq!(
        down(Ok(1))[1].message.split(',').next(),
        Some("1 pod has the scheduling gate scheduling.giveway.dev/pod-group")
    );
    assert_eq!(down(Ok(0)).len(), 1, "no pod is gated");
    assert_eq!(down(Err("forbidden".into())).len(), 1);
}
