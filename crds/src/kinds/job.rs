//! Specs of the Jobs of an owner.

use super::Kind;
use super::templates::Grouped;
use crate::json::{Json, places};
use serde::Deserialize;

/// The fields of a Job's spec that concern its pods as a gang.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    #[serde(default)]
    parallelism: Option<i64>,
    #[serde(default)]
    completions: Option<i64>,
}

impl JobSpec {
    /// Returns how many pods run at the same time.
    pub fn size(&self) -> i64 {
        let parallelism = self.parallelism.unwrap_or(1);
        self.completions.map_or(parallelism, |completions| completions.min(parallelism))
    }
}

/// Returns the spec of the Job that a template belongs to; `None` if its kind has none, or if it cannot be read.
pub fn of_template<'a, J: Json<'a>>(row: &Kind, owner: J, template: &Grouped<J>) -> Option<JobSpec> {
    let specs = places(owner, row.jobs?.specs);
    specs.into_iter().find(|spec| template.place.path.starts_with(&spec.path))?.value?.read()
}
