//! `kubectl giveway export` and `import`: convert PodGroups and Workloads of Giveway into native ones and back, and
//! import PodGroups of the scheduler plugin coscheduling. They print the result and apply nothing. Fields without a
//! counterpart are named on standard error.

mod coscheduling;
mod export;
mod import;
mod maps;
mod pods;
mod shapes;

use crate::args::{ExportArgs, ImportArgs, SourceKind};
use crate::connect::{Api, ClusterConnection, GetResult, block_on};
use crate::error::CliError;
use crate::files::{check, documents, read_text};
use crate::output;
use crate::world::name_of;
use giveway_crds::native::{GROUP as NATIVE, version};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use serde_json::Value;
use std::path::Path;

/// The version in which native objects are printed.
const NATIVE_VERSION: &str = "scheduling.k8s.io/v1beta1";
/// Giveway's version.
const OURS: &str = "scheduling.giveway.dev/v1alpha1";
/// The API group of coscheduling.
const COSCHEDULING: &str = "scheduling.x-k8s.io";

/// A converted object, and notes for the user on what has no counterpart.
#[derive(Debug, PartialEq)]
struct Converted {
    object: Value,
    notes: Vec<String>,
}

/// Runs `kubectl giveway export`: prints a PodGroup or Workload of Giveway as one of Kubernetes itself.
pub(crate) fn export(args: &ExportArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    let (kind, name) = &args.target;
    let plural = if *kind == SourceKind::Workload { "workloads" } else { "podgroups" };
    let mut object: Value = block_on(async {
        let api = connection.api().await?;
        let path = format!("/apis/{OURS}/namespaces/{}/{plural}/{name}", api.namespace);
        read_object(&api, &path).await?.ok_or_else(|| missing_error(&api, plural, "scheduling.giveway.dev", name))
    })?;
    set_kind(&mut object, if *kind == SourceKind::Workload { "Workload" } else { "PodGroup" }, OURS);
    print(vec![export::object(&object)])
}

/// Runs `kubectl giveway import`: prints PodGroups and Workloads of Kubernetes itself as ones of Giveway.
pub(crate) fn import(args: &ImportArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    if let Some(file) = &args.file {
        return print(objects_of(file)?.iter().map(import::object).collect::<Result<_, _>>()?);
    }
    let Some((kind, name)) = &args.target else { return Ok(()) };
    let object = block_on(async { find(&connection.api().await?, *kind, name).await })?;
    print(vec![import::object(&object)?])
}

/// Returns the objects of a file, including the items of Lists. It is an error if a field that a conversion reads has the wrong type.
fn objects_of(path: &Path) -> Result<Vec<Value>, CliError> {
    let (file, text) = read_text(path)?;
    let mut found = Vec::new();
    for (index, document) in documents(&file, &text)?.into_iter().enumerate().filter(|(_, d)| !d.is_null()) {
        let place = format!("document {}", index + 1);
        check(&document, &file, || place.clone())?;
        if document["kind"] != "List" {
            maps::check(&document, &file)?;
            found.push(document);
            continue;
        }
        let refused = |(field, problem)| {
            let (file, kind, object) = (file.clone(), "List".to_owned(), place.clone());
            CliError::Object { file, kind, object, field, problem }
        };
        for (index, item) in maps::list(&document["items"], "items").map_err(refused)?.iter().enumerate() {
            check(item, &file, || format!("{place}, items[{index}]"))?;
            maps::check(item, &file)?;
            found.push(item.clone());
        }
    }
    Ok(found)
}

/// Reads the PodGroup or Workload `name` of Kubernetes itself in any version that the API server serves, or the PodGroup of
/// coscheduling. It is an error if there is none.
async fn find(api: &Api, kind: SourceKind, name: &str) -> Result<Value, CliError> {
    let (plural, in_words) = match kind {
        SourceKind::Workload => ("workloads", "Workload"),
        SourceKind::PodGroup | SourceKind::Coscheduling => ("podgroups", "PodGroup"),
    };
    let groups: &[&str] = match kind {
        SourceKind::Workload => &[NATIVE],
        SourceKind::PodGroup => &[NATIVE, COSCHEDULING],
        SourceKind::Coscheduling => &[COSCHEDULING],
    };
    for group in groups {
        let served: Option<APIGroup> = read_object(api, &format!("/apis/{group}")).await?;
        let versions = served.into_iter().flat_map(|group| group.versions).map(|v| v.version).collect::<Vec<_>>();
        for version in version::by_preference(&versions) {
            let path = format!("/apis/{group}/{version}/namespaces/{}/{plural}/{name}", api.namespace);
            if let Some(mut object) = read_object::<Value>(api, &path).await? {
                set_kind(&mut object, in_words, &format!("{group}/{version}"));
                return Ok(object);
            }
        }
    }
    Err(missing_error(api, plural, &groups.join(" or "), name))
}

/// Reads the object at this path of the API server; `None` if it does not exist.
async fn read_object<T: serde::de::DeserializeOwned>(api: &Api, path: &str) -> Result<Option<T>, CliError> {
    match api.get(path).await? {
        GetResult::Found(object) => Ok(Some(object)),
        GetResult::Missing => Ok(None),
        GetResult::Forbidden(problem) => Err(CliError::Cluster { what: format!("GET {path}"), problem }),
    }
}

/// Returns the error that the namespace of the command has no object `name` of this resource (`plural`, API group `group`).
fn missing_error(api: &Api, plural: &str, group: &str, name: &str) -> CliError {
    CliError::NoSuchObject(format!("{plural} ({group}) {}/{name} does not exist", api.namespace))
}

/// Sets `kind` and `apiVersion` of an object, which the API server may have left out.
fn set_kind(object: &mut Value, kind: &str, api_version: &str) {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
}

/// Prints the converted objects as YAML on standard output, and the notes on standard error.
fn print(converted: Vec<Converted>) -> Result<(), CliError> {
    let mut text = String::new();
    for Converted { object, notes } in converted {
        for note in notes {
            output::note(&format!("{} {}: {note}", object["kind"].as_str().unwrap_or_default(), name_of(&object)));
        }
        let yaml = serde_yaml_ng::to_string(&object).map_err(|error| CliError::stdout(std::io::Error::other(error)))?;
        text.push_str("---\n");
        text.push_str(&yaml);
    }
    output::show(&text)
}
