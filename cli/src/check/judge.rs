//! Evaluates the collected facts: passed checks, warnings and failures. Pure functions.

use super::breakers;
use super::certificate;
use super::exposure;
use super::facts::{AdmissionState, Autoscaler, Installation, ReadResult, Switched, WebhookConfiguration};
use super::finding::{Finding, Status};
use super::tolerations;
use super::wording::{self, admission, classes, cluster};
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

/// Returns the findings of all checks of an installation; those that explain others are first.
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

/// Checks that the API server serves the resources of Giveway's CustomResourceDefinitions.
fn kinds(facts: &Installation) -> Finding {
    let served = match &facts.resources {
        Ok(served) => served,
        Err(why) => return admission::kinds_unknown(why),
    };
    let missing: Vec<&str> = RESOURCES.into_iter().filter(|resource| !served.contains(*resource)).collect();
    match missing.is_empty() {
        true => admission::kinds_served(),
        false => admission::kinds_missing(&missing),
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
            Ok(None) => found.push(admission::no_configuration(kind)),
            Err(why) => found.push(admission::configuration_unknown(kind, why)),
        }
    }
    found.push(match &facts.admission {
        AdmissionState::Answers => admission::admission_answers(),
        AdmissionState::Silent => admission::admission_is_silent(),
        AdmissionState::Fails(said) => {
            // The API server could not connect: no replica is ready, or something between both drops or rejects its packets.
            let unreached = ["context deadline exceeded", "Client.Timeout", "i/o timeout", "no route to host"];
            match facts.port {
                Some(port) if unreached.iter().any(|words| said.contains(words)) => {
                    admission::admission_is_not_reached(&facts.namespace, port, said)
                }
                _ => admission::admission_fails(&facts.namespace, said),
            }
        }
        AdmissionState::Unknown(why) => admission::admission_unknown(why),
    });
    found
}

/// Checks that each ValidatingAdmissionPolicy of the chart exists and is bound with the action that it needs.
fn policies(facts: &Installation) -> Finding {
    let known = match &facts.policies {
        Ok(known) => known,
        Err(why) => return admission::policies_unknown(why),
    };
    let acts = |name: &str, actions: &BTreeSet<String>| {
        actions.contains("Deny") || (WARNINGS.contains(&name) && actions.contains("Warn"))
    };
    let idle = known.iter().filter(|(name, actions)| !acts(name, actions)).map(|(name, _)| name.as_str());
    let absent = POLICIES.into_iter().filter(|name| !known.contains_key(*name));
    let missing: Vec<&str> = idle.chain(absent).collect::<BTreeSet<_>>().into_iter().collect();
    match missing.is_empty() {
        true => admission::policies_in_force(),
        false => admission::policies_missing(&missing),
    }
}

/// Checks that the API server calls the webhook before kube-scheduler preempts a pod (the guard).
fn guard(facts: &Installation) -> Finding {
    match &facts.validating {
        Ok(Some(configuration)) if configuration.guard => admission::guarded(),
        Ok(_) => admission::not_guarded(),
        Err(why) => admission::guard_unknown(why),
    }
}

/// Checks that an operator leads. Without one, a second finding says how many pods stay gated, if any do.
fn operator(facts: &Installation) -> Vec<Finding> {
    let leader = leader(facts);
    let gated = match &facts.gated {
        Ok(gated) if leader.status == Status::Fail => *gated,
        _ => 0,
    };
    let mut found = vec![leader];
    if gated > 0 {
        found.push(wording::operator::gated(gated));
    }
    found
}

/// Checks that an operator holds the leader's Lease and has renewed it in time.
fn leader(facts: &Installation) -> Finding {
    let namespace = &facts.namespace;
    let lease = match &facts.lease {
        Ok(Some(lease)) => lease,
        Ok(None) => return wording::operator::no_lease(namespace),
        Err(why) => return wording::operator::leader_unknown(why),
    };
    let Some(renewed) = lease.renewed.filter(|_| !lease.holder.is_empty()) else {
        return wording::operator::no_holder(namespace, &lease.name);
    };
    let age = facts.now.as_second() - renewed.as_second();
    if age > i64::from(lease.seconds) + SLACK {
        return wording::operator::lease_expired(namespace, &lease.name, &lease.holder, age, lease.seconds);
    }
    wording::operator::leads(namespace, &lease.name, &lease.holder, age.max(0))
}

/// Reports in which mode the operator runs, and what sets it.
fn mode(facts: &Installation) -> Finding {
    let namespace = &facts.namespace;
    match (&facts.switched, facts.chart_mode) {
        (Ok(Switched::To(mode)), _) => wording::operator::mode_switched(namespace, *mode),
        (Ok(Switched::No), Some(mode)) => wording::operator::mode_of_chart(mode),
        (Ok(Switched::No), None) => wording::operator::mode_of_flag(namespace),
        (Ok(Switched::Wrong(why)), _) => wording::operator::mode_invalid(namespace, why),
        (Err(why), _) => wording::operator::mode_unknown(why),
    }
}

/// Checks that chart, operator and webhook have the version of this program: returns a finding for each of them.
fn versions(facts: &Installation) -> Vec<Finding> {
    let mut found = Vec::new();
    let compare = |deployment: Option<&str>, version: &str| match version.trim_start_matches('v') == facts.version {
        true => wording::operator::same_version(deployment, version),
        false => wording::operator::other_version(deployment, version, &facts.version),
    };
    match &facts.mutating {
        Ok(Some(WebhookConfiguration { version: Some(version), .. })) => found.push(compare(None, version)),
        Ok(_) => {}
        Err(why) => found.push(wording::operator::chart_version_unknown(why)),
    }
    match &facts.deployments {
        Ok(all) if all.is_empty() => found.push(wording::operator::no_deployments(&facts.namespace)),
        Ok(all) => found.extend(all.iter().map(|one| match &one.version {
            Some(version) => compare(Some(one.name.as_str()), version),
            None => wording::operator::no_version(&one.name),
        })),
        Err(why) => found.push(wording::operator::versions_unknown(why)),
    }
    found
}

/// Returns the finding about PodGroups of Kubernetes itself: in which API versions (`served`) they are served. Whether kube-scheduler's
/// feature gate for them is on cannot be read from the API.
pub(super) fn in_tree(served: &ReadResult<Vec<String>>) -> Finding {
    match served {
        Ok(served) if served.is_empty() => cluster::in_tree_not_served(),
        Ok(served) => cluster::in_tree_served(served),
        Err(why) => cluster::in_tree_unknown(why),
    }
}

/// Returns a finding for each cluster autoscaler whose API is served. `provisioning` is the method by which the operator requests
/// capacity; without one (`None`) it is a warning, because an autoscaler does not add nodes for gated pods.
pub(super) fn autoscalers(autoscalers: &ReadResult<Vec<Autoscaler>>, provisioning: Option<&str>) -> Vec<Finding> {
    let found = match autoscalers {
        Ok(found) => found,
        Err(why) => return vec![cluster::autoscalers_unknown(why)],
    };
    let judge = |autoscaler: &Autoscaler| match provisioning {
        Some(method) => cluster::capacity_requested(*autoscaler, method),
        None => cluster::no_capacity_requested(*autoscaler),
    };
    found.iter().map(judge).collect()
}

/// Returns a finding for each `adopt` or `release` of a class that was started and has not finished.
fn interrupted(facts: &Installation) -> Vec<Finding> {
    let changes: &ReadResult<Vec<_>> = &facts.interrupted;
    match changes {
        Ok(changes) => changes
            .iter()
            .map(|interrupted| {
                let finding = classes::change_interrupted(&interrupted.change, &interrupted.class);
                Finding { class: Some(interrupted.class.clone()), ..finding }
            })
            .collect(),
        Err(why) => vec![classes::changes_unknown(why)],
    }
}

#[cfg(test)]
pub(super) mod tests;
