//! Changes one PriorityClass step by step until it has the wanted form.
//!
//! Guarantees: nothing is deleted before admission has accepted the new form and the class is recorded. If the class
//! does not exist, its creation is retried for [`LIMIT`], in the old form if the new one is rejected after all. At any
//! time the class or its record exists.

use super::form::{self, ClassChange};
use super::record::{ClassRecord, name_for};
use super::step::{AdoptStep, Why, next_step};
use super::store::ClassStore;
use crate::connect::RequestError;
use crate::error::CliError;
use crate::output::note;
use crate::role::ChartRole;
use giveway_crds::keys::ANNOTATION_MANAGED;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time limit of the change of one class.
const LIMIT: Duration = Duration::from_secs(60);
/// Delay before a step is retried.
const PAUSE: Duration = Duration::from_millis(100);
/// Name of the class used in dry runs to find out which new classes become managed. It is never stored.
const PROBE: &str = "giveway-change-probe";

/// A change of one class in progress.
pub(super) struct ClassRun<'a> {
    store: &'a ClassStore<'a>,
    change: ClassChange,
    name: &'a str,
    /// True if a released class must be marked as not managed; `None` if not yet known.
    exempt: Option<bool>,
    /// True if this run, or the interrupted run that it continues, changed anything.
    acted: bool,
    /// Since when the class does not exist; `None` while it exists.
    gone: Option<Instant>,
    /// Error of the new form, which was rejected although admission had accepted it in the dry run.
    refused: Option<String>,
    /// The class that became the global default meanwhile.
    other_default: Option<String>,
}

/// What follows after one step of a change of a class: the next step, a retry, or the end.
enum AdoptProgress {
    More,
    /// Retry the step after a delay.
    Pause,
    Done,
    Failed(CliError),
}

impl<'a> ClassRun<'a> {
    /// Prepares a change of the class `name`; nothing is read or written yet.
    pub(super) fn new(store: &'a ClassStore<'a>, change: ClassChange, name: &'a str) -> Self {
        Self { store, change, name, exempt: None, acted: false, gone: None, refused: None, other_default: None }
    }

    /// Makes the steps of the change until the class is adopted or released. Returns true if anything was changed.
    ///
    /// # Errors
    /// The class does not exist, or the API server does not accept the change in time; the text describes the current state.
    pub(super) async fn finish(mut self) -> Result<bool, CliError> {
        let start = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(start.elapsed());
            let step = tokio::time::timeout(left.max(Duration::from_secs(1)), self.step()).await;
            let late = start.elapsed() >= LIMIT;
            match step {
                Ok(Ok(AdoptProgress::Done)) => return Ok(self.acted),
                Ok(Ok(AdoptProgress::Failed(error))) => return Err(error),
                Ok(Ok(AdoptProgress::More)) if !late => {}
                Ok(Ok(AdoptProgress::Pause)) if !late => tokio::time::sleep(PAUSE).await,
                Ok(Err(error)) if !late && self.gone.is_some() && error.may_pass() => {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(Err(error)) => return Err(self.error_with_state(&error.to_string())),
                Ok(Ok(_)) | Err(_) => {
                    return Err(self.error_with_state(&format!("it was not done within {} s", LIMIT.as_secs())));
                }
            }
        }
    }

    /// Returns the class as the change would create it, after the API server accepted it in a dry run; `None` if the change is not
    /// needed.
    pub(super) async fn preview(mut self) -> Result<Option<PriorityClass>, CliError> {
        let (record, live) = match self.read_state().await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(error),
            Err(error) => return Err(self.error_with_state(&error.to_string())),
        };
        let class = match next_step(self.change, record.clone(), live.as_ref().ok()) {
            AdoptStep::Unknown => return Err(self.not_found_error(live.err())),
            AdoptStep::Done => return Ok(None),
            AdoptStep::Wait { finalizers } => return Err(self.terminating_error(&finalizers)),
            AdoptStep::Begin(record) | AdoptStep::Delete(record) | AdoptStep::Create(record) => record.class,
            AdoptStep::Forget(record, _) => live.unwrap_or(record.class),
        };
        let planned = self.planned(&class).await.map_err(|error| self.error_with_state(&error.to_string()))?;
        Ok(Some(planned))
    }

    /// Reads the record of a change in progress, if there is one, and the class. The outer error is a failed call, the middle one an
    /// invalid record, and the inner one says that the class does not exist.
    async fn read_state(
        &self,
    ) -> Result<Result<(Option<ClassRecord>, Result<PriorityClass, RequestError>), CliError>, RequestError> {
        let record = match self.store.record(self.name).await? {
            Ok(record) => record,
            Err(problem) => {
                let problem = format!("its record in {}: {problem}: repair it or delete it", self.record_name());
                return Ok(Err(self.error_with_state(&problem)));
            }
        };
        match self.store.class(self.name).await {
            Err(error) if error.code() != Some(404) => Err(error),
            live => Ok(Ok((record, live))),
        }
    }

    /// Reads the record and the class, and makes the next step of the change: it writes or removes the record, or deletes or creates
    /// the class. Returns what follows.
    async fn step(&mut self) -> Result<AdoptProgress, RequestError> {
        let (record, live) = match self.read_state().await? {
            Ok(found) => found,
            Err(error) => return Ok(AdoptProgress::Failed(error)),
        };
        if let (Some(record), false) = (&record, self.acted) {
            self.acted = true;
            note(&format!(
                "an earlier `{}` of PriorityClass {} was interrupted, or another one is running; finishing it",
                record.change, self.name
            ));
        }
        match next_step(self.change, record, live.as_ref().ok()) {
            AdoptStep::Unknown => Ok(AdoptProgress::Failed(self.not_found_error(live.err()))),
            AdoptStep::Done => Ok(self.final_progress()),
            AdoptStep::Wait { finalizers } if finalizers.is_empty() || self.acted => Ok(AdoptProgress::Pause),
            AdoptStep::Wait { finalizers } => Ok(AdoptProgress::Failed(self.terminating_error(&finalizers))),
            AdoptStep::Begin(record) => self.start(&record).await,
            AdoptStep::Delete(record) => self.delete(&record).await,
            AdoptStep::Create(record) => self.create(&record).await,
            AdoptStep::Forget(record, why) => self.delete_record(&record, why).await,
        }
    }

    /// Starts the change: checks that the class can be deleted and created again, and writes its record. Returns `Pause` if another run
    /// has written a record.
    async fn start(&mut self, record: &ClassRecord) -> Result<AdoptProgress, RequestError> {
        let class = &record.class;
        let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.is_empty() {
            let list = finalizers.join(", ");
            let problem = format!("its finalizers would delay its deletion for an unknown time: remove {list} first");
            return Ok(AdoptProgress::Failed(self.error_with_state(&problem)));
        }
        self.planned(class).await?;
        if !self.store.write(record).await? {
            return Ok(AdoptProgress::Pause);
        }
        self.acted = true;
        note(&format!(
            "PriorityClass {} is deleted and created again: until it exists again, new pods that name it are rejected{}",
            self.name,
            match class.global_default {
                Some(true) => ", and new pods that name no class get priority 0",
                _ => "",
            }
        ));
        Ok(AdoptProgress::More)
    }

    /// Returns the class in its new form, after admission accepted it in a dry run.
    ///
    /// # Errors
    /// The API server rejects it, or Giveway's webhook would not make an adopted class a managed one.
    async fn planned(&mut self, class: &PriorityClass) -> Result<PriorityClass, RequestError> {
        if self.change == ClassChange::Adopt && !self.would_be_managed(Some("true")).await? {
            return Err(RequestError::Failed(
                "Giveway is not installed, or its admission is not in force: kube-scheduler would stop preempting for \
                 the class, and Giveway would not preempt for it either"
                    .to_owned(),
            ));
        }
        let exempt = self.exempt().await?;
        let planned = form::of(self.change, class, exempt);
        // While the class itself is the global default, a dry run that creates a second default would be rejected.
        self.store.try_create(&PriorityClass { global_default: None, ..planned.clone() }).await?;
        Ok(planned)
    }

    /// Returns true if a released class needs the annotation `managed: "false"`, because admission would make a class without the
    /// annotation managed. A dry run tests that once.
    async fn exempt(&mut self) -> Result<bool, RequestError> {
        if let Some(known) = self.exempt {
            return Ok(known);
        }
        let exempt = self.change == ClassChange::Release && self.would_be_managed(None).await?;
        self.exempt = Some(exempt);
        Ok(exempt)
    }

    /// Returns true if admission, in a dry run, makes a class with this value of the annotation `managed` (`None`: without it) a
    /// managed one.
    async fn would_be_managed(&self, annotation: Option<&str>) -> Result<bool, RequestError> {
        let annotations = annotation.map(|value| BTreeMap::from([(ANNOTATION_MANAGED.to_owned(), value.to_owned())]));
        let metadata = ObjectMeta { name: Some(PROBE.to_owned()), annotations, ..ObjectMeta::default() };
        let probe = PriorityClass { metadata, ..PriorityClass::default() };
        Ok(self.store.try_create(&probe).await?.is_some_and(|stored| form::is_managed(&stored)))
    }

    /// Deletes the class if it still is as it was recorded, and returns `More`; otherwise returns `Pause`, so that the next step is
    /// decided again.
    async fn delete(&mut self, record: &ClassRecord) -> Result<AdoptProgress, RequestError> {
        match self.store.delete(record).await {
            Ok(true) => {
                self.gone = Some(Instant::now());
                Ok(AdoptProgress::More)
            }
            Ok(false) => Ok(AdoptProgress::Pause),
            Err(error) => {
                // As far as is known nothing was deleted: a remaining record does no harm.
                let _ = self.store.delete_record(record).await;
                Err(error)
            }
        }
    }

    /// Creates the recorded class in its new form, or in its old form if the API server rejected the new one. Returns `Pause` if the
    /// creation has to be retried.
    async fn create(&mut self, record: &ClassRecord) -> Result<AdoptProgress, RequestError> {
        let deleted_at = *self.gone.get_or_insert_with(Instant::now);
        let mut class = match self.refused {
            None => form::of(self.change, &record.class, self.exempt().await?),
            Some(_) => form::bare(&record.class),
        };
        if self.other_default.is_some() {
            class.global_default = None;
        }
        let Err(error) = self.store.create(&class).await else {
            note(&format!("PriorityClass {} exists again; it was missing for {:.1?}", self.name, deleted_at.elapsed()));
            return Ok(AdoptProgress::More);
        };
        let default = error.code().filter(|code| *code == 403).and_then(|_| default_in(&error.to_string()));
        match default {
            // The API server's cache still has the deleted class.
            Some(other) if other == self.name => Ok(AdoptProgress::Pause),
            Some(other) => {
                self.other_default = Some(other);
                Ok(AdoptProgress::More)
            }
            None if error.code() == Some(409) => Ok(AdoptProgress::Pause),
            None if error.may_pass() || self.refused.is_some() => Err(error),
            None => {
                self.refused = Some(error.to_string());
                Ok(AdoptProgress::More)
            }
        }
    }

    /// Deletes the record of the change, and prints the reason `why`, except for a finished change. Returns `Failed` if the new form of
    /// the class was rejected, so that it was created in its old form.
    async fn delete_record(&mut self, record: &ClassRecord, why: Why) -> Result<AdoptProgress, RequestError> {
        match why {
            Why::Finished => {}
            Why::Changed => note(&format!("PriorityClass {} was not deleted yet; looking at it again", self.name)),
            Why::Replaced(differences) => note(&format!(
                "another client created PriorityClass {} in the meantime ({}); that class is kept",
                self.name,
                differences.join(", ")
            )),
        }
        self.gone = None;
        self.store.delete_record(record).await?;
        Ok(match &self.refused {
            None => AdoptProgress::More,
            Some(refusal) => {
                let problem = format!("it is as it was, because its new form was refused: {refusal}");
                AdoptProgress::Failed(self.error_with_state(&problem))
            }
        })
    }

    /// Returns `Done`, or `Failed` if another class became the global default while this one did not exist.
    fn final_progress(&self) -> AdoptProgress {
        match &self.other_default {
            None => AdoptProgress::Done,
            Some(other) => AdoptProgress::Failed(self.error_with_state(&format!(
                "it was {}, but it is not the global default any more: PriorityClass {other} became that in the meantime",
                self.change.done()
            ))),
        }
    }

    /// Returns the error that the class does not exist, with the API server's message (`error`) if there is one.
    fn not_found_error(&self, error: Option<RequestError>) -> CliError {
        let words = error.map_or_else(|| super::not_found(self.name), |error| error.to_string());
        CliError::UnknownClass(words)
    }

    /// Returns the error that the class is being deleted and these finalizers delay that.
    fn terminating_error(&self, finalizers: &[String]) -> CliError {
        self.error_with_state(&format!("it is being deleted, and its finalizers delay that: {}", finalizers.join(", ")))
    }

    /// Returns the ConfigMap with the record of the change, as `configmap NAMESPACE/NAME`.
    fn record_name(&self) -> String {
        format!("configmap {}/{}", self.store.namespace, name_for(self.name))
    }

    /// Returns an error about this class because of `problem`. While the class is deleted, it also says so, and how to create the class
    /// again.
    fn error_with_state(&self, problem: &str) -> CliError {
        let problem = ChartRole::ClassAdmin(self.store.namespace).explain(problem);
        let problem = match self.gone {
            None => problem,
            Some(_) => format!(
                "it does NOT exist now, and pods that name it are refused; it is kept in {}: run `kubectl giveway {} {}` \
                 again. The reason: {problem}",
                self.record_name(),
                self.change,
                self.name
            ),
        };
        CliError::Class { class: self.name.to_owned(), problem }
    }
}

/// Returns the name of the global default class from the API server's message that rejects a second one; `None` for any other message.
fn default_in(message: &str) -> Option<String> {
    let (before, _) = message.split_once(" is already marked as default")?;
    before.rsplit(' ').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::default_in;

    #[test]
    fn the_class_that_is_the_default_is_read_from_the_refusal() {
        let said = "priorityclasses.scheduling.k8s.io \"a\" is forbidden: PriorityClass b.c is already marked as default. Only one default can exist";
        assert_eq!(default_in(said).as_deref(), Some("b.c"));
        assert_eq!(default_in("priorityclasses.scheduling.k8s.io \"a\" is forbidden: no"), None);
    }
}
