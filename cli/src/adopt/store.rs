//! API calls of `adopt` and `release`: classes, and the records of changes in progress.

use super::form;
use super::record::{ClassRecord, name_for};
use crate::connect::{Api, RequestError};
use giveway_crds::keys::LABEL_CLASS_CHANGE;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::core::ObjectList;
use serde_json::{Value, json};

/// Path of all priority classes.
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// The field manager of all writes.
const MANAGER: &str = "fieldManager=kubectl-giveway";

/// Access to classes, and to the records in one namespace.
pub(crate) struct ClassStore<'a> {
    pub(crate) api: &'a Api,
    pub(crate) namespace: &'a str,
}

impl ClassStore<'_> {
    /// Reads the class `name`; if it does not exist, the error is a 404 with the API server's message.
    pub(super) async fn class(&self, name: &str) -> Result<PriorityClass, RequestError> {
        self.api.call(Method::GET, &format!("{CLASSES}/{name}"), Vec::new()).await
    }

    /// Returns the names of all classes in the cluster that have the annotation `managed: "true"`.
    pub(crate) async fn annotated(&self) -> Result<Vec<String>, RequestError> {
        let all: ObjectList<PriorityClass> = self.api.call(Method::GET, CLASSES, Vec::new()).await?;
        let mine = all.items.into_iter().filter(|class| !form::is_done(form::ClassChange::Release, class));
        Ok(mine.filter_map(|class| class.metadata.name).collect())
    }

    /// Creates the class in the cluster, and returns it as it was stored.
    pub(super) async fn create(&self, class: &PriorityClass) -> Result<PriorityClass, RequestError> {
        self.api.send(Method::POST, &format!("{CLASSES}?{MANAGER}"), class).await
    }

    /// Creates the class in a dry run with all admission checks, and returns it as it would be stored. Returns `None` on 409: the API
    /// server reports an existing class of this name only after admission has accepted the new one.
    pub(crate) async fn try_create(&self, class: &PriorityClass) -> Result<Option<PriorityClass>, RequestError> {
        match self.api.send(Method::POST, &format!("{CLASSES}?dryRun=All&{MANAGER}"), class).await {
            Ok(class) => Ok(Some(class)),
            Err(error) if error.code() == Some(409) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the recorded class. Returns false, without a deletion, if the class does not exist or its UID or resource version is not
    /// the recorded one.
    pub(super) async fn delete(&self, record: &ClassRecord) -> Result<bool, RequestError> {
        let metadata = &record.class.metadata;
        let path = format!("{CLASSES}/{}", metadata.name.as_deref().unwrap_or_default());
        let conditions = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        self.remove(&path, &conditions).await
    }

    /// Returns the record of a change of this class that is in progress, or `None` if there is none.
    ///
    /// # Errors
    /// The call failed, or (inner) the ConfigMap is not a valid record.
    pub(super) async fn record(&self, class: &str) -> Result<Result<Option<ClassRecord>, String>, RequestError> {
        let path = format!("{}/{}", self.records(), name_for(class));
        match self.api.call::<ConfigMap>(Method::GET, &path, Vec::new()).await {
            Ok(map) => Ok(ClassRecord::from_config_map(&map).map(Some)),
            Err(error) if error.code() == Some(404) => Ok(Ok(None)),
            Err(error) => Err(error),
        }
    }

    /// Returns the records of all unfinished changes of classes. ConfigMaps that are no valid records are left out.
    pub(crate) async fn all_records(&self) -> Result<Vec<ClassRecord>, RequestError> {
        let selector = LABEL_CLASS_CHANGE.replace('/', "%2F");
        let path = format!("{}?labelSelector={selector}", self.records());
        let all: ObjectList<ConfigMap> = self.api.call(Method::GET, &path, Vec::new()).await?;
        Ok(all.items.iter().filter_map(|map| ClassRecord::from_config_map(map).ok()).collect())
    }

    /// Creates the ConfigMap of a record. Returns false if the ConfigMap exists, because another run has created it.
    pub(super) async fn write(&self, record: &ClassRecord) -> Result<bool, RequestError> {
        let map = record.to_config_map(self.namespace).map_err(|error| RequestError::Failed(error.to_string()))?;
        match self.api.send::<ConfigMap>(Method::POST, &format!("{}?{MANAGER}", self.records()), &map).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(409) => Ok(false),
            Err(error) if error.code() == Some(404) => Err(RequestError::Failed(format!(
                "{error}: set --giveway-namespace to the namespace in which Giveway is installed"
            ))),
            Err(error) => Err(error),
        }
    }

    /// Deletes the ConfigMap of a record. Returns false if it does not exist or has another UID than the record.
    pub(super) async fn delete_record(&self, record: &ClassRecord) -> Result<bool, RequestError> {
        let class = record.class.metadata.name.as_deref().unwrap_or_default();
        self.remove(&format!("{}/{}", self.records(), name_for(class)), &json!({"uid": record.uid})).await
    }

    /// Returns the path of the ConfigMaps in the installation's namespace, where the records are stored.
    fn records(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Deletes the object at this path of the API server. Returns false if it does not exist or does not meet the preconditions (`uid`,
    /// `resourceVersion`).
    async fn remove(&self, path: &str, preconditions: &Value) -> Result<bool, RequestError> {
        match self.api.delete(path, preconditions).await {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
