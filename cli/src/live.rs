//! Reads what the planner needs from the API server: lists, page by page, each trimmed as it arrives.

use crate::connect::{Api, Got, page_of};
use crate::error::CliError;
use crate::mask::{KINDS, ListedKind, NATIVE_GROUPS};
use crate::role::Role;
use giveway_crds::native;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use serde::Deserialize;
use serde_json::Value;

/// Objects per page.
const PAGE: usize = 2000;

/// Objects, their source, and notes about them.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Source: a file, or `cluster`.
    pub(crate) source: String,
    /// True if they are from a live cluster, of which unreadable objects are skipped, as by the operator.
    pub(crate) live: bool,
    /// The objects.
    pub(crate) items: Vec<Value>,
    /// What is missing, as sentences.
    pub(crate) notes: Vec<String>,
}

#[derive(Deserialize)]
struct ListPage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Reads everything that the planner needs.
pub(crate) async fn read(api: &Api) -> Result<Objects, CliError> {
    read_kinds(api, |_| true).await
}

/// Reads the kinds for which `wanted` returns true.
pub(crate) async fn read_kinds(api: &Api, wanted: impl Fn(&str) -> bool) -> Result<Objects, CliError> {
    let mut objects = Objects { source: "cluster".to_owned(), live: true, ..Objects::default() };
    for kind in KINDS.iter().filter(|kind| wanted(kind.kind)) {
        if !list(api, kind, &mut objects).await? && kind.is_own() {
            objects.notes.push(format!("The cluster has no {}s: Giveway is not installed.", kind.kind));
        }
    }
    if wanted("PodGroup")
        && let Some(kind) = native_groups(api).await?
    {
        list(api, kind, &mut objects).await?;
    }
    Ok(objects)
}

/// Returns the kind of native PodGroups in the newest version that is served. Every user may read which versions are
/// served; a missing permission to list native PodGroups is reported only if a version is served.
async fn native_groups(api: &Api) -> Result<Option<&'static ListedKind>, CliError> {
    for kind in &NATIVE_GROUPS {
        let served: Got<APIResourceList> = api.get(&format!("/apis/{}", kind.api_version)).await?;
        if let Got::Found(list) = served
            && list.resources.iter().any(|resource| resource.name == native::PLURAL)
        {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

/// Lists a kind. Returns false if the cluster lacks the kind.
///
/// # Errors
/// The cluster lacks a kind that every cluster has: its objects are unknown.
async fn list(api: &Api, kind: &ListedKind, objects: &mut Objects) -> Result<bool, CliError> {
    let mut next = String::new();
    loop {
        let failed = |problem: String| CliError::Cluster { what: format!("GET {}", kind.path), problem };
        let page = match api.get::<ListPage>(&page_of(kind.path, PAGE, &next)).await? {
            Got::Found(page) => page,
            Got::Missing if kind.may_be_missing() => return Ok(false),
            Got::Forbidden(problem) if kind.may_be_forbidden => {
                let problem = Role::Planner.explain(&problem);
                objects.notes.push(format!("You may not list {}, so none is known: {problem}", plural(kind)));
                return Ok(true);
            }
            Got::Missing => return Err(failed("the API server does not know this kind".to_owned())),
            Got::Forbidden(problem) => return Err(failed(Role::Planner.explain(&problem))),
        };
        for mut item in page.items {
            kind.trim(&mut item);
            objects.items.push(item);
        }
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(true);
        }
    }
}

fn plural(kind: &ListedKind) -> String {
    let native =
        if kind.api_version.starts_with("scheduling.k8s.io/") && kind.kind == native::KIND { "native " } else { "" };
    match kind.kind {
        "ValidatingAdmissionPolicy" => "ValidatingAdmissionPolicies".to_owned(),
        name if name.ends_with('s') => format!("{native}{name}es"),
        name => format!("{native}{name}s"),
    }
}
