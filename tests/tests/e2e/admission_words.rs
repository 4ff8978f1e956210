//! `kubectl giveway plan -f` rejects and warns as the API server with Giveway's webhook does, in the same words.

#[path = "../../cases/admission/table.rs"]
mod table;

use crate::cli::{Printed, giveway};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::path::Path;
use table::{Case, Said, Table};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            plan_reports_the_same_as_admission_for_every_manifest;
    ]
}

const NAMESPACE: &str = "team";

/// Creates the object of a case as a dry run, over the API server's connection to the webhook.
async fn created(client: &Client, case: &Case) -> Said {
    let object = &case.object;
    let collection = match object["kind"].as_str().unwrap() {
        "PriorityClass" => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
        kind => {
            let version = object["apiVersion"].as_str().unwrap();
            let api = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
            format!("{api}/namespaces/{NAMESPACE}/{}s", kind.to_lowercase())
        }
    };
    let request = http::Request::post(format!("{collection}?dryRun=All"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Body::from(object.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let is_created = response.status().is_success();
    let warnings = response
        .headers()
        .get_all(http::header::WARNING)
        .iter()
        .map(|value| text_of(&String::from_utf8_lossy(value.as_bytes())));
    let warnings = warnings.collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    if is_created {
        return Ok(warnings);
    }
    let status: Value = serde_json::from_slice(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    Err(message.split_once(" denied the request: ").map_or(message, |(_, words)| words).to_owned())
}

/// Returns the text of a header `299 - "TEXT"`.
fn text_of(header: &str) -> String {
    let quoted = header.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
    let mut characters = quoted.unwrap_or_else(|| panic!("{header}")).chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' { characters.next().unwrap() } else { character });
    }
    text
}

/// What `plan -f` says in the snapshot.
async fn planned(world: &mut World, case: &Case, directory: &Path, snapshot: &str) -> Said {
    let file = directory.join("manifest.json").display().to_string();
    std::fs::write(&file, case.manifest()).unwrap();
    let args = ["plan", "-f", &file, "--snapshot", snapshot, "-n", NAMESPACE, "-o", "json"];
    let Printed { out, err, status } = giveway(world, &args).await;
    case.said_by_plan(&file, status, &out, &err)
}

async fn plan_reports_the_same_as_admission_for_every_manifest(world: &mut World) {
    let table = Table::read(NAMESPACE, false);
    world.namespace(NAMESPACE).await;
    world.nodes(1).cpus(4).create().await;
    for object in &table.cluster {
        world.apply(&object.to_string()).await.unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("cluster.json").display().to_string();
    giveway(world, &["snapshot", "-o", &snapshot]).await.ok();
    let client = world.client();
    let (mut differences, mut rejected) = (Vec::new(), 0);
    for case in &table.cases {
        let admission = created(&client, case).await;
        rejected += usize::from(admission.is_err());
        let plan = planned(world, case, directory.path(), &snapshot).await;
        differences.extend(case.difference(&admission, &plan));
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(table.cases.len() >= 250 && rejected >= 100, "{} manifests, {rejected} rejected", table.cases.len());
    world.check_promises().await;
}
