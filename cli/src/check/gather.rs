//! Reads [`super::facts`] from the API server. What the user may not read is reported as unknown, not as an error.

use super::facts::{
    AdmissionState, Autoscaler, ClassSummary, Deployment, DisruptionToleration, Exposure, GuardedPod, Installation,
    Interrupted, Lease, ReadResult, Renewer, Switched, WebhookConfiguration,
};
use super::{breakers, tolerations, wording};
use crate::adopt::form;
use crate::adopt::store::ClassStore;
use crate::connect::{Api, GetResult};
use crate::error::CliError;
use crate::live;
use crate::mode;
use crate::world::World;
use giveway_crds::breaker::OpenBreakers;
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_THRESHOLD, GROUP};
use giveway_crds::mode::{KEY, Mode};
use giveway_crds::names::LEASE;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::wording::events;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment as DeploymentObject;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the managed class that is created in a dry run. It is never stored.
const PROBE: &str = "giveway-check-probe";
/// Default name of the Secret with the certificate; the webhook's Deployment may set another.
const SECRET: &str = "giveway-webhook-tls";
/// Field manager of the operator.
const OPERATOR: &str = "giveway-operator";

/// Reads everything that the checks of an installation judge, from the cluster and from Giveway's `namespace`.
///
/// # Errors
/// The API server cannot be reached.
pub(super) async fn facts(api: &Api, namespace: &str) -> Result<Installation, CliError> {
    let deployments = deployments(api, namespace).await?;
    let configurations = "/apis/admissionregistration.k8s.io/v1";
    let mutating: ReadResult<Option<MutatingWebhookConfiguration>> =
        get(api, &format!("{configurations}/mutatingwebhookconfigurations/giveway")).await?;
    let validating: ReadResult<Option<ValidatingWebhookConfiguration>> =
        get(api, &format!("{configurations}/validatingwebhookconfigurations/giveway")).await?;
    let secret = deployments.as_deref().ok().and_then(secret_name).unwrap_or_else(|| SECRET.to_owned());
    let serving: ReadResult<Option<Secret>> =
        get(api, &format!("/api/v1/namespaces/{namespace}/secrets/{secret}")).await?;
    let provisioning = deployments.as_deref().ok().and_then(provisioning);
    let world = world(api).await?;
    let now = Timestamp::now();
    let resources: ReadResult<Option<APIResourceList>> = get(api, &format!("/apis/{GROUP}/v1alpha1")).await?;
    let mutating = mutating.map(|found| found.map(|object| self::mutating(&object)));
    Ok(Installation {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        namespace: namespace.to_owned(),
        now,
        resources: resources.map(|list| list.map(resource_names).unwrap_or_default()),
        admission: admission(&ClassStore { api, namespace }).await?,
        renewer: mutating.iter().flatten().map(|configuration| configuration.renewer).next().unwrap_or_default(),
        mutating,
        validating: validating.map(|found| found.map(|object| self::validating(&object))),
        switched: switched(api, namespace).await?,
        chart_mode: deployments.as_deref().ok().and_then(chart_mode),
        port: deployments.as_deref().ok().and_then(port),
        secret,
        policies: policies(api).await?,
        serving: serving.map(|found| found.and_then(|secret| secret.data?.remove("tls.crt")).map(|bytes| bytes.0)),
        deployments: deployments.map(|all| all.iter().map(deployment).collect()),
        lease: lease(api, namespace, LEASE.to_owned()).await?,
        in_tree: in_tree(api).await?,
        autoscalers: autoscalers(api).await?,
        provisioning,
        tolerations: tolerations(api).await?,
        interrupted: interrupted(&ClassStore { api, namespace }).await?,
        breakers: breakers(api, &world, now).await?,
        gated: world.as_ref().map(gated_pods).map_err(String::clone),
        exposure: world.map(|world| exposure(&world)),
    })
}

/// Reads the object at a path of the API server: `Ok(Ok(None))` if it does not exist, and the inner error if the user may not read it.
pub(super) async fn get<T: DeserializeOwned>(api: &Api, path: &str) -> Result<ReadResult<Option<T>>, CliError> {
    Ok(match api.get(path).await? {
        GetResult::Found(object) => Ok(Some(object)),
        GetResult::Missing => Ok(None),
        GetResult::Forbidden(problem) => Err(problem),
    })
}

/// Returns the names of the resources in the list that an API version serves, such as `podgroups`.
pub(super) fn resource_names(list: APIResourceList) -> BTreeSet<String> {
    list.resources.into_iter().map(|resource| resource.name).collect()
}

/// Tests Giveway's webhook: creates a managed PriorityClass in a dry run, and returns whether the webhook filled it in. A rejection by
/// another component's rule is `Unknown`: it says nothing about the webhook.
async fn admission(store: &ClassStore<'_>) -> Result<AdmissionState, CliError> {
    let metadata = ObjectMeta {
        name: Some(PROBE.to_owned()),
        annotations: Some(BTreeMap::from([(ANNOTATION_MANAGED.to_owned(), "true".to_owned())])),
        ..ObjectMeta::default()
    };
    let probe = PriorityClass { metadata, ..PriorityClass::default() };
    match store.try_create(&probe).await {
        Ok(Some(stored)) if form::is_managed(&stored) => Ok(AdmissionState::Answers),
        Ok(Some(_)) => Ok(AdmissionState::Silent),
        Ok(None) => Ok(AdmissionState::Unknown(wording::admission::probe_exists("PriorityClass", PROBE))),
        Err(error) => match error.code() {
            None => Err(CliError::Cluster { what: "a dry run".to_owned(), problem: error.to_string() }),
            Some(403) if !error.to_string().contains("admission webhook") => {
                Ok(AdmissionState::Unknown(error.to_string()))
            }
            Some(_) => Ok(AdmissionState::Fails(error.to_string())),
        },
    }
}

/// Returns what the checks need of the mutating webhook configuration: its version, CA bundles, guard, and the component that renews
/// the certificate.
fn mutating(object: &MutatingWebhookConfiguration) -> WebhookConfiguration {
    let webhooks = object.webhooks.iter().flatten();
    configuration(&object.metadata, webhooks.map(|webhook| (&webhook.client_config, webhook.rules.as_deref())))
}

/// Returns what the checks need of the validating webhook configuration: its version, CA bundles, guard, and the component that renews
/// the certificate.
fn validating(object: &ValidatingWebhookConfiguration) -> WebhookConfiguration {
    let webhooks = object.webhooks.iter().flatten();
    configuration(&object.metadata, webhooks.map(|webhook| (&webhook.client_config, webhook.rules.as_deref())))
}

/// Returns what the checks need of a webhook configuration, given by its metadata and the client and rules of each of its webhooks. The
/// guard is on if a webhook is called for deletions of pods.
fn configuration<'a>(
    metadata: &ObjectMeta,
    webhooks: impl Iterator<Item = (&'a WebhookClientConfig, Option<&'a [RuleWithOperations]>)>,
) -> WebhookConfiguration {
    let version = version_label(metadata);
    let mut found = WebhookConfiguration { version, renewer: renewer(metadata), ..WebhookConfiguration::default() };
    for (client, rules) in webhooks {
        found.bundles.extend(client.ca_bundle.iter().map(|bundle| bundle.0.clone()));
        found.guard |= rules.unwrap_or_default().iter().any(|rule| {
            let has = |list: &Option<Vec<String>>, word: &str| list.iter().flatten().any(|item| item == word);
            has(&rule.resources, "pods") && has(&rule.operations, "DELETE")
        });
    }
    found
}

/// Returns which component renews the webhook's certificate, from the annotations and field managers of a webhook configuration.
fn renewer(metadata: &ObjectMeta) -> Renewer {
    let annotations = metadata.annotations.iter().flatten();
    if annotations.map(|(key, _)| key).any(|key| key.starts_with("cert-manager.io/inject-ca-from")) {
        return Renewer::CertManager;
    }
    let managers = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
    if managers.into_iter().any(|manager| manager == OPERATOR) { Renewer::Operator } else { Renewer::Other }
}

/// Returns the name of the Secret with the webhook's certificate, from the webhook's Deployment; `None` if no Deployment names one.
fn secret_name(deployments: &[DeploymentObject]) -> Option<String> {
    deployments.iter().find_map(|deployment| {
        let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let mut args = pod.containers.iter().flat_map(|container| container.args.iter().flatten());
        let watched = args.find_map(|arg| arg.strip_prefix("--tls-secret="));
        let mut mounted = pod.volumes.iter().flatten().filter(|volume| volume.name == "tls");
        watched.map(str::to_owned).or_else(|| mounted.find_map(|volume| volume.secret.as_ref()?.secret_name.clone()))
    })
}

/// Returns the value of the label `app.kubernetes.io/version`; `None` without the label.
fn version_label(metadata: &ObjectMeta) -> Option<String> {
    metadata.labels.as_ref()?.get("app.kubernetes.io/version").cloned()
}

/// Returns the Deployments in this namespace that have the label of Giveway's chart.
async fn deployments(api: &Api, namespace: &str) -> Result<ReadResult<Vec<DeploymentObject>>, CliError> {
    let selector = "labelSelector=app.kubernetes.io%2Fname%3Dgiveway";
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments?{selector}");
    let list: ReadResult<Option<ObjectList<DeploymentObject>>> = get(api, &path).await?;
    Ok(list.map(|list| list.map(|list| list.items).unwrap_or_default()))
}

/// Returns the name of a Deployment, and its version: the tag of its image, or else the chart's label. A digest contains no version.
fn deployment(object: &DeploymentObject) -> Deployment {
    let containers = object.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).map(|pod| &pod.containers);
    let image = containers.and_then(|containers| containers.first()?.image.as_deref()).unwrap_or_default();
    let tag = image.split('@').next().and_then(|image| image.rsplit('/').next()?.split_once(':'));
    Deployment {
        name: object.metadata.name.clone().unwrap_or_default(),
        version: tag.map(|(_, tag)| tag.to_owned()).or_else(|| version_label(&object.metadata)),
    }
}

/// Returns the mode in the argument `--mode` of the operator's Deployment; `None` without a valid argument.
fn chart_mode(deployments: &[DeploymentObject]) -> Option<Mode> {
    argument(deployments, "--mode=").and_then(|word| word.parse().ok())
}

/// Returns the port in the argument `--address` of the webhook's Deployment; `None` without a valid argument.
fn port(deployments: &[DeploymentObject]) -> Option<u16> {
    argument(deployments, "--address=").and_then(|address| address.rsplit_once(':')?.1.parse().ok())
}

/// Returns the rest of the first container argument that begins with `flag`, in any of the Deployments; `None` if there is none.
fn argument(deployments: &[DeploymentObject], flag: &str) -> Option<String> {
    deployments.iter().find_map(|deployment| {
        let containers = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
        let mut args = containers.iter().flat_map(|container| container.args.iter().flatten());
        args.find_map(|arg| arg.strip_prefix(flag)).map(str::to_owned)
    })
}

/// Returns the mode in the ConfigMap that `kubectl giveway mode` writes in this namespace, or that the ConfigMap does not exist or is
/// invalid.
async fn switched(api: &Api, namespace: &str) -> Result<ReadResult<Switched>, CliError> {
    let map: ReadResult<Option<ConfigMap>> = get(api, &mode::config_map_path(namespace)).await?;
    Ok(map.map(|map| {
        let Some(map) = map else { return Switched::No };
        match map.data.as_ref().and_then(|data| data.get(KEY)).map(|word| word.parse::<Mode>()) {
            Some(Ok(mode)) => Switched::To(mode),
            Some(Err(error)) => Switched::Wrong(events::mode_invalid(&error)),
            None => Switched::Wrong(events::mode_missing()),
        }
    }))
}

/// Reads the Lease `name`: its holder, the last renewal and its duration. The value is `None` if the Lease does not exist.
pub(super) async fn lease(api: &Api, namespace: &str, name: String) -> Result<ReadResult<Option<Lease>>, CliError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let found: ReadResult<Option<LeaseObject>> = get(api, &path).await?;
    Ok(found.map(|lease| {
        let spec = lease?.spec.unwrap_or_default();
        Some(Lease {
            name,
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            seconds: spec.lease_duration_seconds.unwrap_or_default(),
        })
    }))
}

/// Returns the API versions of `scheduling.k8s.io` in which the API server serves PodGroups of Kubernetes itself.
pub(super) async fn in_tree(api: &Api) -> Result<ReadResult<Vec<String>>, CliError> {
    let group: Option<APIGroup> = match get(api, "/apis/scheduling.k8s.io").await? {
        Ok(group) => group,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut served = Vec::new();
    for version in group.into_iter().flat_map(|group| group.versions) {
        let list: ReadResult<Option<APIResourceList>> = get(api, &format!("/apis/{}", version.group_version)).await?;
        if list.ok().flatten().is_some_and(|list| resource_names(list).contains("podgroups")) {
            served.push(version.group_version);
        }
    }
    Ok(Ok(served))
}

/// Returns the cluster autoscalers whose APIs the API server serves; that one of them runs is not certain.
pub(super) async fn autoscalers(api: &Api) -> Result<ReadResult<Vec<Autoscaler>>, CliError> {
    let kinds = [
        (Autoscaler::ProvisioningRequests, "/apis/autoscaling.x-k8s.io/v1", "provisioningrequests"),
        (Autoscaler::Karpenter, "/apis/karpenter.sh/v1", "nodepools"),
    ];
    let mut found = Vec::new();
    for (autoscaler, path, resource) in kinds {
        let list: ReadResult<Option<APIResourceList>> = get(api, path).await?;
        match list {
            Ok(list) => {
                found.extend(list.is_some_and(|list| resource_names(list).contains(resource)).then_some(autoscaler))
            }
            Err(problem) => return Ok(Err(problem)),
        }
    }
    Ok(Ok(found))
}

/// Returns by which method the operator requests capacity from cluster autoscalers (`Placeholder`, `ProvisioningRequest`), from an
/// argument of its Deployment; `None` without that argument.
fn provisioning(deployments: &[DeploymentObject]) -> Option<String> {
    deployments.iter().find_map(|deployment| {
        let containers = &deployment.spec.as_ref()?.template.spec.as_ref()?.containers;
        let mut args = containers.iter().flat_map(|container| container.args.iter().flatten());
        Some(match args.find_map(|arg| arg.strip_prefix("--provisioning-method="))? {
            "placeholder" => "Placeholder".to_owned(),
            "provisioning-request" => "ProvisioningRequest".to_owned(),
            other => other.to_owned(),
        })
    })
}

/// Returns the PriorityClasses that have annotations of the plugin `PreemptionToleration`, with the values of these annotations.
async fn tolerations(api: &Api) -> Result<ReadResult<Vec<DisruptionToleration>>, CliError> {
    let classes: ReadResult<Option<ObjectList<PriorityClass>>> =
        get(api, "/apis/scheduling.k8s.io/v1/priorityclasses").await?;
    let of = |class: PriorityClass| {
        let annotations = class.metadata.annotations.unwrap_or_default();
        annotations.keys().any(|key| key.starts_with(tolerations::PREFIX)).then(|| DisruptionToleration {
            class: class.metadata.name.unwrap_or_default(),
            minimum: annotations.get(tolerations::MINIMUM).cloned(),
            seconds: annotations.get(tolerations::SECONDS).cloned(),
            threshold: annotations.get(ANNOTATION_THRESHOLD).cloned(),
        })
    };
    Ok(classes.map(|list| list.into_iter().flat_map(|list| list.items).filter_map(of).collect()))
}

/// Returns which classes an `adopt` or `release` has started to change and not finished.
async fn interrupted(store: &ClassStore<'_>) -> Result<ReadResult<Vec<Interrupted>>, CliError> {
    match store.all_records().await {
        Ok(records) => Ok(Ok(records
            .into_iter()
            .map(|record| Interrupted {
                change: record.change.to_string(),
                class: record.class.metadata.name.unwrap_or_default(),
            })
            .collect())),
        Err(error) if error.code().is_some() => Ok(Err(error.to_string())),
        Err(error) => Err(CliError::Cluster { what: "configmaps".to_owned(), problem: error.to_string() }),
    }
}

/// Returns the names of the chart's ValidatingAdmissionPolicies, found by label or name, each with the validation actions of its
/// bindings.
async fn policies(api: &Api) -> Result<ReadResult<BTreeMap<String, BTreeSet<String>>>, CliError> {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let all: ReadResult<Option<ObjectList<ValidatingAdmissionPolicy>>> =
        get(api, &format!("{group}/validatingadmissionpolicies")).await?;
    let bindings: ReadResult<Option<ObjectList<ValidatingAdmissionPolicyBinding>>> =
        get(api, &format!("{group}/validatingadmissionpolicybindings")).await?;
    let (all, bindings) = match (all, bindings) {
        (Ok(all), Ok(bindings)) => (all, bindings),
        (Err(problem), _) | (_, Err(problem)) => return Ok(Err(problem)),
    };
    let names = all.into_iter().flat_map(|list| list.items).filter_map(|policy| {
        let labels = policy.metadata.labels.unwrap_or_default();
        let chart = labels.get("app.kubernetes.io/name").is_some_and(|name| name == "giveway");
        policy.metadata.name.filter(|name| chart || name.starts_with("giveway-"))
    });
    let mut found: BTreeMap<String, BTreeSet<String>> = names.map(|name| (name, BTreeSet::new())).collect();
    for spec in bindings.into_iter().flat_map(|list| list.items).filter_map(|binding| binding.spec) {
        if let Some(actions) = spec.policy_name.and_then(|name| found.get_mut(&name)) {
            actions.extend(spec.validation_actions.into_iter().flatten());
        }
    }
    Ok(Ok(found))
}

/// Reads all pods, PodDisruptionBudgets and PriorityClasses of the cluster into the planner's model.
async fn world(api: &Api) -> Result<ReadResult<World>, CliError> {
    let wanted = ["Pod", "PodDisruptionBudget", "PriorityClass"];
    match World::of_cluster(api, |kind| wanted.contains(&kind)).await {
        Ok(world) => Ok(Ok(world)),
        Err(CliError::Cluster { problem, .. }) => Ok(Err(problem)),
        Err(error) => Err(error),
    }
}

/// Reads PodGroups and Preemptions, and computes which circuit breakers are open at `now`. `world` has the pods of the cluster.
async fn breakers(api: &Api, world: &ReadResult<World>, now: Timestamp) -> Result<ReadResult<OpenBreakers>, CliError> {
    let world = match world {
        Ok(world) => world,
        Err(problem) => return Ok(Err(problem.clone())),
    };
    let wanted = ["PodGroup", "Preemption"];
    let objects = match live::read_kinds(api, |kind| wanted.contains(&kind)).await {
        Ok(objects) => objects,
        Err(CliError::Cluster { problem, .. }) => return Ok(Err(problem)),
        Err(error) => return Err(error),
    };
    Ok(match objects.notes.into_iter().next() {
        Some(note) => Err(note),
        None => Ok(breakers::open(&objects.items, world, now)),
    })
}

/// Returns the number of pods that have not ended and have Giveway's scheduling gate.
fn gated_pods(world: &World) -> usize {
    world.cluster.pods().filter(|pod| pod.live() && pod.gated).count()
}

/// Returns which classes preempt through kube-scheduler, and which pods have both a threshold and a budget.
fn exposure(world: &World) -> Exposure {
    let preempts = |policy| policy != PreemptionPolicy::Never;
    let classes = world.cluster.classes();
    let mut found = Exposure::default();
    found.classes.extend(classes.iter().map(|class| ClassSummary {
        name: class.name.clone(),
        value: class.value,
        managed: class.managed,
        preempts: preempts(class.scheduler_policy),
    }));
    if classes.global_default().is_none() {
        found.classes.push(ClassSummary { name: String::new(), value: 0, managed: false, preempts: true });
    }
    for pod in world.cluster.pods().filter(|pod| pod.live() && pod.bound()) {
        let (Some(threshold), budgets) = (pod.threshold, world.cluster.budgets_of(pod)) else { continue };
        if !budgets.is_empty() {
            found.guarded.push(GuardedPod {
                namespace: pod.key.namespace.to_string(),
                name: pod.key.name.to_string(),
                priority: pod.priority,
                threshold,
                budgets: budgets.iter().map(|budget| budget.key.name.to_string()).collect(),
            });
        }
    }
    found.guarded.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}
