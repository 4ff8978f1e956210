//! Evaluates the collected facts: passed checks, warnings, failures and remedies. Pure functions.

use super::breakers;
use super::certificate;
use super::exposure;
use super::facts::{AdmissionState, Autoscaler, Installation, Known, Switched, WebhookConfiguration};
use super::finding::{Finding, Status};
use super::tolerations;
use giveway_crds::keys::GATE;
use giveway_crds::mode::{CONFIG_MAP, Mode};
use giveway_crds::wording::counted;
use std::collections::BTreeSet;

/// Seconds by which a Lease may be late, because clocks of two machines differ.
pub(super) const SLACK: i64 = 5;
/// The policies that the chart creates with any values; other policies depend on values.
const POLICIES: [&str; 12] = [
    "giveway-bindings",
    "giveway-class-annotations",
    "giveway-classless-pods",
    "giveway-critical-addons",
    "giveway-mirror-pods",
    "giveway-namespaces",
    "giveway-operator",
    "giveway-operator-groups",
    "giveway-placeholders",
    "giveway-pod-groups",
    "giveway-pods",
    "giveway-preemptions",
];
/// The policies that only warn the client; all others reject.
const WARNINGS: [&str; 2] = ["giveway-critical-pods", "giveway-unserved"];
/// The resources that have to be served.
const RESOURCES: [&str; 6] =
    ["podgroups", "podgroups/status", "preemptions", "preemptions/status", "workloads", "workloads/status"];

/// Returns all findings, in the order of diagnosis.
pub(super) fn all(facts: &Installation) -> Vec<Finding> {
    let mut found = vec![kinds(facts)];
    found.extend(webhook(facts));
    found.push(policies(facts));
    found.push(guard(facts));
    found.extend(certificate::findings(facts));
    found.extend(operator(facts));
    found.push(mode(facts));
    found.extend(breakers::findings(facts));
    found.extend(versions(facts));
    found.push(in_tree(&facts.in_tree));
    found.extend(autoscalers(&facts.autoscalers, facts.provisioning.as_deref()));
    found.extend(interrupted(facts));
    found.extend(exposure::findings(facts));
    found.extend(tolerations::findings(facts));
    found
}

/// Returns the finding about Giveway's CustomResourceDefinitions.
fn kinds(facts: &Installation) -> Finding {
    let served = match &facts.resources {
        Ok(served) => served,
        Err(why) => return Finding::unknown("crds", "Whether PodGroup, Preemption and Workload are served", why),
    };
    let missing: Vec<&str> = RESOURCES.into_iter().filter(|resource| !served.contains(*resource)).collect();
    match missing.is_empty() {
        true => Finding::ok("crds", "PodGroup, Preemption and Workload are served in scheduling.giveway.dev/v1alpha1."),
        false => {
            let message = format!("scheduling.giveway.dev/v1alpha1 does not serve {}.", missing.join(", "));
            Finding::fail("crds", message, "helm upgrade with crds.enabled=true, or kubectl apply -f crds/")
        }
    }
}

/// Returns the findings about the webhook configurations and about whether admission works.
fn webhook(facts: &Installation) -> Vec<Finding> {
    let mut found = Vec::new();
    let kinds =
        [("MutatingWebhookConfiguration", &facts.mutating), ("ValidatingWebhookConfiguration", &facts.validating)];
    for (kind, configuration) in kinds {
        match configuration {
            Ok(Some(_)) => {}
            Ok(None) => {
                let message = format!("There is no {kind} giveway, so the API server does not call Giveway's webhook.");
                found.push(Finding::fail("webhook", message, "Install the chart."));
            }
            Err(why) => found.push(Finding::unknown("webhook", &format!("{kind} giveway"), why)),
        }
    }
    let namespace = &facts.namespace;
    let remedy = format!("kubectl -n {namespace} get pods,endpointslices -l app.kubernetes.io/component=webhook");
    found.push(match &facts.admission {
        AdmissionState::Answers => {
            Finding::ok("webhook", "Admission answers: a managed class (dry run) was filled in.")
        }
        AdmissionState::Silent => {
            let message = "Admission does not work: a managed class (dry run) was accepted without being filled in.";
            Finding::fail("webhook", message, "Install the chart.")
        }
        AdmissionState::Fails(said) => {
            // The API server could not connect: no replica is ready, or something between both drops or rejects its packets.
            let unreached = ["context deadline exceeded", "Client.Timeout", "i/o timeout", "no route to host"];
            let remedy = match facts.port {
                Some(port) if unreached.iter().any(|words| said.contains(words)) => format!(
                    "Allow the API servers to reach TCP port {port} of the webhook's pods (docs/platforms.md). Are they ready? {remedy}"
                ),
                _ => remedy,
            };
            Finding::fail("webhook", format!("Admission does not work; the API server says: {said}"), remedy)
        }
        AdmissionState::Unknown(why) => Finding::unknown("webhook", "Whether admission works", why),
    });
    found
}

/// Returns the finding about the chart's ValidatingAdmissionPolicies.
fn policies(facts: &Installation) -> Finding {
    let known = match &facts.policies {
        Ok(known) => known,
        Err(why) => return Finding::unknown("policies", "Whether the chart's policies are in force", why),
    };
    let acts = |name: &str, actions: &BTreeSet<String>| {
        actions.contains("Deny") || (WARNINGS.contains(&name) && actions.contains("Warn"))
    };
    let idle = known.iter().filter(|(name, actions)| !acts(name, actions)).map(|(name, _)| name.as_str());
    let absent = POLICIES.into_iter().filter(|name| !known.contains_key(*name));
    let missing: Vec<&str> = idle.chain(absent).collect::<BTreeSet<_>>().into_iter().collect();
    match missing.is_empty() {
        true => Finding::ok(
            "policies",
            "The chart's policies protect Giveway's labels, annotations and scheduling gates on pods and groups.",
        ),
        false => {
            let message = format!(
                "These ValidatingAdmissionPolicies do not exist, or have no binding that puts them into force: {}. \
                 Without them, every user with the right to write the objects can write what they protect.",
                missing.join(", ")
            );
            Finding::fail("policies", message, "Install the chart.")
        }
    }
}

/// Returns the finding about the guard.
fn guard(facts: &Installation) -> Finding {
    match &facts.validating {
        Ok(Some(configuration)) if configuration.guard => {
            Finding::ok("guard", "The API server asks Giveway's webhook before kube-scheduler preempts a pod.")
        }
        Ok(_) => {
            let message =
                "kube-scheduler's own preemptions are not guarded: no webhook is called when they delete pods.";
            Finding::warn(
                "guard",
                message,
                "Set the chart's guard.enabled to true, or adopt every class that preempts.",
            )
        }
        Err(why) => Finding::unknown("guard", "Whether kube-scheduler's own preemptions are guarded", why),
    }
}

/// Returns whether an operator leads, and how many pods stay gated without one.
fn operator(facts: &Installation) -> Vec<Finding> {
    let leader = leader(facts);
    let gated = match &facts.gated {
        Ok(gated) if leader.status == Status::Fail => *gated,
        _ => 0,
    };
    let mut found = vec![leader];
    if gated > 0 {
        let pods = counted(gated, "pod has", "pods have");
        found.push(Finding::fail(
            "gated",
            format!("{pods} the scheduling gate {GATE}, and no operator runs that would remove it."),
            format!(
                "Start the operator. A user who may update podgroups/breakglass can remove the gate of a pod: kubectl \
                 -n NAMESPACE patch pod NAME -p \
                 '{{\"spec\":{{\"schedulingGates\":[{{\"$patch\":\"delete\",\"name\":\"{GATE}\"}}]}}}}'"
            ),
        ));
    }
    found
}

/// Returns the finding about the leader's Lease.
fn leader(facts: &Installation) -> Finding {
    let remedy = format!("kubectl -n {} logs deployment/giveway-operator", facts.namespace);
    let lease = match &facts.lease {
        Ok(Some(lease)) => lease,
        Ok(None) => {
            let message =
                format!("No operator has ever been the leader: there is no Lease in namespace {}.", facts.namespace);
            return Finding::fail("operator", message, remedy);
        }
        Err(why) => return Finding::unknown("operator", "Whether an operator is the leader", why),
    };
    let name = format!("{}/{}", facts.namespace, lease.name);
    let Some(renewed) = lease.renewed.filter(|_| !lease.holder.is_empty()) else {
        return Finding::fail(
            "operator",
            format!("No operator is the leader: the Lease {name} has no holder."),
            remedy,
        );
    };
    let age = facts.now.as_second() - renewed.as_second();
    if age > i64::from(lease.seconds) + SLACK {
        let message = format!(
            "No operator is the leader: {} has not renewed the Lease {name} for {age} s, by the clock of this machine; it is \
             valid for {} s.",
            lease.holder, lease.seconds
        );
        return Finding::fail("operator", message, remedy);
    }
    Finding::ok(
        "operator",
        format!("{} is the leader; it renewed the Lease {name} {} s ago.", lease.holder, age.max(0)),
    )
}

/// Returns the finding about Giveway's mode.
fn mode(facts: &Installation) -> Finding {
    let map = format!("ConfigMap {}/{CONFIG_MAP}", facts.namespace);
    let (mode, by) = match (&facts.switched, facts.chart_mode) {
        (Ok(Switched::To(mode)), _) => (*mode, map),
        (Ok(Switched::No), Some(mode)) => (mode, "the chart's value `mode`".to_owned()),
        (Ok(Switched::No), None) => {
            let message =
                format!("There is no {map}, so the mode was not switched: the operator's flag --mode counts.");
            return Finding::ok("mode", message);
        }
        (Ok(Switched::Wrong(why)), _) => {
            let message = format!("{map}: {why}. The previous mode stays in force.");
            return Finding::fail("mode", message, "kubectl giveway mode enforce, observe, off or chart");
        }
        (Err(why), _) => return Finding::unknown("mode", "Whether the mode was switched", why),
    };
    let message = format!("{}, by {by}.", mode.restraint());
    match (mode, &facts.switched) {
        (Mode::Enforce, _) => Finding::ok("mode", message),
        (_, Ok(Switched::To(_))) => Finding::warn("mode", message, "kubectl giveway mode chart"),
        _ => Finding::warn("mode", message, "helm upgrade with mode=enforce, when Giveway is to preempt again."),
    }
}

/// Returns the findings about the versions of chart, operator and webhook.
fn versions(facts: &Installation) -> Vec<Finding> {
    let mut found = Vec::new();
    let compare = |what: &str, version: &str| match version.trim_start_matches('v') == facts.version {
        true => Finding::ok("version", format!("{what} is {version}, as this program.")),
        false => Finding::warn(
            "version",
            format!("{what} is {version}, this program {}.", facts.version),
            "Use the same version everywhere: what this program predicts may differ from what is decided.",
        ),
    };
    match &facts.mutating {
        Ok(Some(WebhookConfiguration { version: Some(version), .. })) => found.push(compare("The chart", version)),
        Ok(_) => {}
        Err(why) => found.push(Finding::unknown("version", "The chart's version", why)),
    }
    match &facts.deployments {
        Ok(all) if all.is_empty() => found.push(Finding::warn(
            "version",
            format!(
                "The versions of operator and webhook are not known: namespace {} has no Deployment of theirs, so they \
                 run outside the cluster.",
                facts.namespace
            ),
            "Ask them: giveway-operator --version, giveway-webhook --version.",
        )),
        Ok(all) => found.extend(all.iter().map(|one| match &one.version {
            Some(version) => compare(&format!("Deployment {}", one.name), version),
            None => Finding::warn(
                "version",
                format!("Deployment {} has neither an image tag nor a version label.", one.name),
                "Give its image a tag.",
            ),
        })),
        Err(why) => found.push(Finding::unknown("version", "The versions of operator and webhook", why)),
    }
    found
}

/// Returns the finding about the in-tree PodGroup API. The scheduler's feature gate cannot be read from the API; the API version that it needs
/// can.
pub(super) fn in_tree(served: &Known<Vec<String>>) -> Finding {
    match served {
        Ok(served) if served.is_empty() => Finding::ok(
            "in-tree",
            "The in-tree PodGroup API is not served, so the scheduler's gate GenericWorkload has no effect.",
        ),
        Ok(served) => Finding::warn(
            "in-tree",
            format!(
                "The in-tree PodGroup API is served ({}): the gate GenericWorkload may be on, and kube-scheduler then \
                 preempts for in-tree PodGroups by itself. Whether it is on cannot be seen from here.",
                served.join(", ")
            ),
            "Use only PodGroups of scheduling.giveway.dev, and no in-tree ones.",
        ),
        Err(why) => Finding::unknown("in-tree", "Whether the in-tree PodGroup API is served", why),
    }
}

/// Pending gangs are gated, so a cluster autoscaler does not add nodes for them unless the operator requests capacity.
pub(super) fn autoscalers(autoscalers: &Known<Vec<Autoscaler>>, provisioning: Option<&str>) -> Vec<Finding> {
    let found = match autoscalers {
        Ok(found) => found,
        Err(why) => return vec![Finding::unknown("autoscaler", "Whether a cluster autoscaler runs", why)],
    };
    let judge = |one: &Autoscaler| {
        let (served, method) = match one {
            Autoscaler::ProvisioningRequests => ("ProvisioningRequests are served", "ProvisioningRequest"),
            Autoscaler::Karpenter => ("NodePools of Karpenter are served", "Placeholder"),
        };
        match provisioning {
            Some(on) => Finding::ok("autoscaler", format!("{served}; pending gangs request capacity by {on}.")),
            None => Finding::warn(
                "autoscaler",
                format!(
                    "{served}: a cluster autoscaler may run, and it does not see pending gangs, because their pods \
                     are gated."
                ),
                format!(
                    "Set the chart value provisioning.method={method}; docs/advanced/autoscalers.md says what it does."
                ),
            ),
        }
    };
    found.iter().map(judge).collect()
}

/// Returns a finding for each change of a class that was started and has not finished.
fn interrupted(facts: &Installation) -> Vec<Finding> {
    let all: &Known<Vec<_>> = &facts.interrupted;
    match all {
        Ok(all) => all
            .iter()
            .map(|one| {
                let message = format!(
                    "`{} {}` was interrupted, or is still running: the class may not exist.",
                    one.change, one.class
                );
                let remedy = format!("kubectl giveway {} {}", one.change, one.class);
                Finding { class: Some(one.class.clone()), ..Finding::fail("classes", message, remedy) }
            })
            .collect(),
        Err(why) => vec![Finding::unknown("classes", "Whether a change of a class was interrupted", why)],
    }
}

#[cfg(test)]
pub(super) mod tests;
