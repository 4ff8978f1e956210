//! Reads what the planner needs from the API server: lists, page by page, whose objects are decoded one by one while they arrive.

use crate::connect::{Api, GetResult};
use crate::error::CliError;
use crate::role::ChartRole;
use giveway_cluster::objects::KindFields;
use giveway_cluster::objects::kinds::{IN_SNAPSHOTS, NATIVE_GROUPS};
use giveway_crds::native;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::ListParams;
use serde_json::Value;

/// Objects per page.
const PAGE: u32 = 2000;

/// The kinds without which no command works. The others may be missing in the user's permissions.
const NECESSARY: [&str; 4] = ["Node", "Pod", "PodDisruptionBudget", "PriorityClass"];

/// The kinds of which a user may have rights in one namespace only.
const NAMESPACED: [&str; 6] =
    ["Pod", "PodDisruptionBudget", "PersistentVolumeClaim", "ResourceClaim", "PodGroup", "Workload"];

/// What is read of a kind that the user may not list in the whole cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fallback<'a> {
    /// Nothing. It is an error for a necessary kind.
    None,
    /// The objects of this namespace.
    Namespace(&'a str),
}

/// Kinds that were not read completely because the user lacks rights, by their plural.
#[derive(Debug, Default)]
pub(crate) struct UnreadKinds {
    /// Kinds of which only the objects of one namespace are known.
    pub(crate) elsewhere: Vec<String>,
    /// Kinds of which nothing is known.
    pub(crate) everywhere: Vec<String>,
    /// Kinds that may be listed and not watched.
    pub(crate) unwatched: Vec<String>,
}

impl UnreadKinds {
    /// Returns true if so much was not read (nodes, pods, budgets or classes) that the planner could use capacity that other pods use.
    pub(crate) fn hides_used_capacity(&self) -> bool {
        let names = NECESSARY.map(|kind| plural_of(kind, false));
        self.elsewhere.iter().chain(&self.everywhere).any(|kind| names.contains(kind))
    }

    /// Returns a sentence for each way in which kinds were not read completely; none if all were. `namespace` is the one that was read of
    /// the kinds in `elsewhere`.
    pub(crate) fn notes(&self, namespace: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.elsewhere.is_empty() {
            let kinds = self.elsewhere.join(", ");
            notes.push(format!(
                "You may not list {kinds} of all namespaces, so only those of namespace {namespace} are known."
            ));
        }
        if !self.everywhere.is_empty() {
            let kinds = self.everywhere.join(", ");
            notes.push(format!(
                "You may not list {kinds}, so none is known. The chart's ClusterRole giveway-planner allows it."
            ));
        }
        if !self.unwatched.is_empty() {
            let kinds = self.unwatched.join(", ");
            notes.push(format!(
                "You may not watch {kinds}, so their changes are seen only when they are listed again, after some seconds. The chart's \
                 ClusterRole giveway-planner allows it."
            ));
        }
        notes
    }
}

/// Objects, their source, and notes about them.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Source: a file, or `cluster`.
    pub(crate) source: String,
    /// The objects.
    pub(crate) items: Vec<Value>,
    /// What is missing, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads from the API server all objects that the planner needs. Kinds that the user may not read are named in notes.
pub(crate) async fn read(api: &Api) -> Result<Objects, CliError> {
    read_kinds(api, |_| true).await
}

/// Reads all objects of the kinds for whose name `wanted` returns true. Kinds that the user may not read are named in notes.
pub(crate) async fn read_kinds(api: &Api, wanted: impl Fn(&str) -> bool) -> Result<Objects, CliError> {
    let mut items = Vec::new();
    let gaps = each(api, Fallback::None, wanted, |object| {
        items.push(object);
        Ok(())
    })
    .await?;
    Ok(Objects { source: "cluster".to_owned(), items, notes: gaps.notes })
}

/// What a read of the cluster lacks, because the user may not read it or Giveway is not installed.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// What is missing, as sentences.
    pub(crate) notes: Vec<String>,
    /// True if too much is missing for the planner to decide.
    pub(crate) blind: bool,
}

/// Reads the kinds for whose name `wanted` returns true, and calls `take` with each object as it arrives. `fallback` says what is read
/// of a kind that the user may not list in the whole cluster. Returns what is missing.
pub(crate) async fn each(
    api: &Api,
    fallback: Fallback<'_>,
    wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(Value) -> Result<(), CliError>,
) -> Result<Gaps, CliError> {
    let (mut notes, mut unseen) = (Vec::new(), UnreadKinds::default());
    for kind in IN_SNAPSHOTS.iter().copied().filter(|kind| wanted(kind.kind)) {
        if !list(api, kind, fallback, &mut take, &mut notes, &mut unseen).await? && kind.is_own() {
            notes.push(not_installed(kind));
        }
    }
    if wanted("PodGroup")
        && let Some(kind) = native_groups(api).await?
    {
        list(api, kind, fallback, &mut take, &mut notes, &mut unseen).await?;
    }
    if let Fallback::Namespace(namespace) = fallback {
        notes.extend(unseen.notes(namespace));
    }
    Ok(Gaps { notes, blind: unseen.hides_used_capacity() })
}

/// Returns the note that the cluster does not have a kind of Giveway.
pub(crate) fn not_installed(kind: &KindFields) -> String {
    format!("The cluster has no {}s: Giveway is not installed.", kind.kind)
}

/// Returns how PodGroups of Kubernetes itself are read, in the newest version that the API server serves; `None` if it serves none.
/// Every user may read which versions are served.
pub(crate) async fn native_groups(api: &Api) -> Result<Option<&'static KindFields>, CliError> {
    for kind in &NATIVE_GROUPS {
        let served: GetResult<APIResourceList> = api.get(&format!("/apis/{}", kind.api_version)).await?;
        if let GetResult::Found(list) = served
            && list.resources.iter().any(|resource| resource.name == native::PLURAL)
        {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

/// Returns true if a cluster may lack the kind: an optional kind of Kubernetes, or one of Giveway, which may not be installed.
pub(crate) fn may_be_missing(kind: &KindFields) -> bool {
    kind.is_own() || kind.is_optional()
}

/// Returns true for a kind that a user may be permitted to read in one namespace only.
pub(crate) fn is_namespaced(kind: &KindFields) -> bool {
    NAMESPACED.contains(&kind.kind)
}

/// Returns the field selector by which the objects of a kind are listed; `None` to list all of them.
pub(crate) fn field_selector(kind: &KindFields) -> Option<String> {
    (kind.kind == "ValidatingAdmissionPolicy").then(|| "metadata.name=giveway-namespaces".to_owned())
}

/// Lists the objects of a kind, and calls `take` with each. `fallback` says what is read if the user may not list the kind in the whole
/// cluster; what is missing is added to `notes` and `unseen`. Returns false if the cluster lacks the kind.
///
/// # Errors
/// The cluster lacks a kind that every cluster has: its objects are unknown.
async fn list(
    api: &Api,
    kind: &KindFields,
    fallback: Fallback<'_>,
    take: &mut impl FnMut(Value) -> Result<(), CliError>,
    notes: &mut Vec<String>,
    unseen: &mut UnreadKinds,
) -> Result<bool, CliError> {
    let mut namespace = None;
    let mut params = ListParams { limit: Some(PAGE), field_selector: field_selector(kind), ..ListParams::default() };
    loop {
        let failed = |problem: String| CliError::Cluster { what: format!("GET {}", kind.path()), problem };
        let next = match (api.page(kind, namespace, &params, take).await?, fallback) {
            (GetResult::Found(next), _) => next,
            (GetResult::Missing, _) if may_be_missing(kind) => return Ok(false),
            (GetResult::Forbidden(_), Fallback::Namespace(own)) if namespace.is_none() && is_namespaced(kind) => {
                namespace = Some(own);
                params.continue_token = None;
                continue;
            }
            (GetResult::Forbidden(_), Fallback::Namespace(_)) => {
                unseen.everywhere.push(plural(kind));
                return Ok(true);
            }
            (GetResult::Forbidden(problem), Fallback::None) if !NECESSARY.contains(&kind.kind) => {
                let problem = ChartRole::Planner.explain(&problem);
                notes.push(format!("You may not list {}, so none is known: {problem}", plural(kind)));
                return Ok(true);
            }
            (GetResult::Missing, _) => return Err(failed("the API server does not know this kind".to_owned())),
            (GetResult::Forbidden(problem), Fallback::None) => {
                return Err(failed(ChartRole::Planner.explain(&problem)));
            }
        };
        if next.is_empty() {
            unseen.elsewhere.extend(namespace.map(|_| plural(kind)));
            return Ok(true);
        }
        params.continue_token = Some(next);
    }
}

/// Returns the plural of a kind for a sentence; that of PodGroups of Kubernetes itself begins with `native`.
pub(crate) fn plural(kind: &KindFields) -> String {
    plural_of(kind.kind, kind.api_version.starts_with("scheduling.k8s.io/") && kind.kind == native::KIND)
}

/// Returns the plural of `kind` for a sentence; it begins with `native` if `is_native`.
fn plural_of(kind: &str, is_native: bool) -> String {
    let native = if is_native { "native " } else { "" };
    match kind {
        "ValidatingAdmissionPolicy" => "ValidatingAdmissionPolicies".to_owned(),
        name if name.ends_with('s') => format!("{native}{name}es"),
        name => format!("{native}{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_of_giveway_and_of_newer_versions_of_kubernetes_may_be_missing() {
        let missing: Vec<_> = IN_SNAPSHOTS.iter().filter(|kind| may_be_missing(kind)).map(|kind| kind.kind).collect();
        assert_eq!(missing, ["DeviceClass", "ResourceSlice", "ResourceClaim", "PodGroup", "Preemption", "Workload"]);
        assert!(NATIVE_GROUPS.iter().all(|kind| !may_be_missing(kind)), "only a version that is served is listed");
    }

    #[test]
    fn kinds_that_the_user_may_not_list_are_reported_in_two_sentences() {
        let unseen = UnreadKinds {
            elsewhere: vec!["Pods".to_owned(), "PodGroups".to_owned()],
            everywhere: vec!["Nodes".to_owned(), "Preemptions".to_owned()],
            unwatched: Vec::new(),
        };
        assert_eq!(
            unseen.notes("team"),
            [
                "You may not list Pods, PodGroups of all namespaces, so only those of namespace team are known.",
                "You may not list Nodes, Preemptions, so none is known. The chart's ClusterRole giveway-planner allows it.",
            ]
        );
        assert!(unseen.hides_used_capacity());
        let unseen = UnreadKinds {
            elsewhere: vec!["PodGroups".to_owned()],
            everywhere: vec!["Preemptions".to_owned()],
            unwatched: vec!["Nodes".to_owned()],
        };
        assert!(!unseen.hides_used_capacity());
        let unwatched = "You may not watch Nodes, so their changes are seen only when they are listed again, after some seconds. The \
                         chart's ClusterRole giveway-planner allows it.";
        assert_eq!(unseen.notes("team")[2], unwatched);
        assert_eq!(UnreadKinds::default().notes("team"), Vec::<String>::new());
        assert!(NAMESPACED.iter().all(|name| IN_SNAPSHOTS.iter().any(|kind| kind.kind == *name)));
    }

    #[test]
    fn every_necessary_kind_is_listed() {
        let listed = |name: &&str| IN_SNAPSHOTS.iter().any(|kind| kind.kind == *name);
        assert!(NECESSARY.iter().all(listed));
    }
}
