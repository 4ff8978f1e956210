//! The manifests of `manifests.yaml`, and how two components that judge one of them are compared.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How every message about an unknown class ends; the API server's Priority plugin begins it in another way.
const UNKNOWN_CLASS: &str = "no PriorityClass with name unknown was found";

/// A manifest to judge.
pub struct Case {
    /// Name of its table and of its entries.
    pub name: String,
    /// The object.
    pub object: Value,
    /// What the rejection begins with, for some of those that are rejected.
    pub words: Option<String>,
}

/// All manifests.
pub struct Table {
    /// The objects that exist before.
    pub cluster: Vec<Value>,
    /// The manifests.
    pub cases: Vec<Case>,
}

/// What is said about a manifest: why it is rejected, or the warnings.
pub type Said = Result<BTreeSet<String>, String>;

impl Table {
    /// Reads the table. Namespaced objects get this namespace. What a real API server cannot judge is included if `offline`.
    pub fn read(namespace: &str, offline: bool) -> Self {
        let file: Value = serde_yaml_ng::from_str(include_str!("manifests.yaml")).unwrap();
        let list = |field: &str| file[field].as_array().unwrap().clone();
        let further = if offline { list("offlineCluster") } else { Vec::new() };
        let objects = list("cluster").into_iter().chain(further);
        let tables = list("tables").into_iter().filter(|table| offline || table["offline"] != true);
        Self {
            cluster: objects.map(|object| placed(object, namespace)).collect(),
            cases: tables.flat_map(|table| cases_of(&table, namespace)).collect(),
        }
    }
}

fn placed(mut object: Value, namespace: &str) -> Value {
    if object["kind"] != "PriorityClass" {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// Returns a case for every combination of one entry of each axis.
fn cases_of(table: &Value, namespace: &str) -> Vec<Case> {
    let mut found: Vec<(Vec<&str>, Value)> = vec![(Vec::new(), table["base"].clone())];
    for axis in table["axes"].as_array().unwrap() {
        let mut longer = Vec::new();
        for (names, object) in &found {
            for (name, patch) in axis.as_object().unwrap() {
                let mut object = object.clone();
                json_patch::merge(&mut object, patch);
                longer.push(([&names[..], &[name.as_str()]].concat(), object));
            }
        }
        found = longer;
    }
    let case = |(names, object): (Vec<&str>, Value)| {
        let combination = names.join(", ");
        Case {
            name: format!("{}: {combination}", table["name"].as_str().unwrap()),
            object: placed(object, namespace),
            words: table["words"][&combination].as_str().map(str::to_owned),
        }
    };
    found.into_iter().map(case).collect()
}

impl Case {
    /// Returns kind and name as the plugin prints them.
    pub fn object_name(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &self.object["metadata"];
        let (kind, namespace, name) =
            (text(&self.object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }

    /// Returns the manifest for `plan -f`: the object, and a pod without relation to it, so that there is something to plan.
    pub fn manifest(&self) -> String {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler"},
            "spec": {"containers": [{"name": "c", "image": "registry.example/fake:1"}]},
        });
        json!({"apiVersion": "v1", "kind": "List", "items": [self.object, pod]}).to_string()
    }

    /// Returns what `plan -f FILE -o json` says about the object.
    pub fn said_by_plan(&self, file: &str, status: Option<i32>, out: &str, err: &str) -> Said {
        let object = self.object_name();
        if status != Some(0) {
            let error = err.trim_end();
            let words = error.strip_prefix(&format!("error: {file}: {object}: "));
            return Err(words.unwrap_or_else(|| panic!("{}: {status:?}: {error}", self.name)).to_owned());
        }
        let answer: Value = serde_json::from_str(out).unwrap_or_else(|error| panic!("{}: {error}: {out}", self.name));
        let notes = answer["notes"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str);
        let about = notes.filter_map(|note| note.strip_prefix(&format!("{object}: "))?.strip_suffix('.'));
        Ok(about.map(str::to_owned).collect())
    }

    /// Returns how the two differ, or from the table; `None` if they agree.
    pub fn difference(&self, admission: &Said, plan: &Said) -> Option<String> {
        let same = match (admission, plan) {
            (Ok(warnings), Ok(notes)) => plain(warnings) == plain(notes),
            (Err(theirs), Err(ours)) => {
                theirs == ours || (theirs.ends_with(UNKNOWN_CLASS) && ours.ends_with(UNKNOWN_CLASS))
            }
            _ => false,
        };
        let expected = self.words.as_ref().is_none_or(|words| {
            admission
                .as_ref()
                .is_err_and(|said| said.starts_with(words) || (words == UNKNOWN_CLASS && said.ends_with(words)))
        });
        (!same || !expected).then(|| {
            format!("{}\n  admission: {admission:?}\n  plan:      {plan:?}\n  table:     {:?}", self.name, self.words)
        })
    }
}

/// Returns texts without white space, which HTTP headers change.
fn plain(texts: &BTreeSet<String>) -> BTreeSet<String> {
    texts.iter().map(|text| text.split_whitespace().collect()).collect()
}
