//! Webhook configurations of the controllers, by URL.

use super::{Controller, READY};
use crate::control_plane::{ControlPlane, kubeconfig};
use crate::giveway::run_kubectl;
use crate::wait;
use anyhow::Result;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::fs;

impl Controller {
    /// Registers its webhooks by URL and waits until they answer.
    pub(super) async fn register_webhooks(self, plane: &ControlPlane, port: u16) -> Result<()> {
        let file = self.manifests().join("webhooks.yaml");
        if !file.is_file() {
            return Ok(());
        }
        let ca = kubeconfig::base64(plane.pki().ca().as_bytes());
        let text = fs::read_to_string(&file)?;
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let mut configuration = Value::deserialize(document)?;
            configuration["metadata"]["name"] = json!(self.configuration(&configuration));
            for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
                webhook["clientConfig"] =
                    json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca.as_str()});
            }
            let name = format!("{}-{}.json", self.name(), configuration["kind"].as_str().unwrap_or_default());
            let rendered = plane.directory().join(name);
            fs::write(&rendered, configuration.to_string())?;
            run_kubectl(&plane.kubeconfig(), &["apply", "-f", &rendered.display().to_string()]).await?;
        }
        for (object, answer) in self.probes() {
            self.wait_for_answer(plane, &object, answer).await?;
        }
        Ok(())
    }

    /// Returns the name of the configuration in the project's manifests. Trainer and training-operator get other names, because
    /// they would write their own authority into a configuration of that name.
    fn configuration(self, configuration: &Value) -> String {
        match configuration["kind"].as_str() {
            _ if matches!(self, Self::Trainer | Self::TrainingOperator) => self.name().to_owned(),
            Some("MutatingWebhookConfiguration") => format!("{}-mutating-webhook-configuration", self.name()),
            _ => format!("{}-validating-webhook-configuration", self.name()),
        }
    }

    /// Returns objects with the answer to their dry run when the mutating and validating webhooks are in force. The names are
    /// used in host names and begin with a letter.
    fn probes(self) -> Vec<(Value, &'static str)> {
        let pods = json!({"spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}});
        let object = |api_version: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        match self {
            Self::JobSet => {
                let set = |name: &str| {
                    let jobs = json!([{"name": "a", "template": {"spec": {"template": pods}}}]);
                    object("jobset.x-k8s.io/v1alpha2", "JobSet", name, json!({"replicatedJobs": jobs}))
                };
                vec![(set("probe"), "completionMode: Indexed"), (set("1"), "vjobset.kb.io")]
            }
            Self::LeaderWorkerSet => {
                let set = |name: &str| {
                    let spec = json!({"leaderWorkerTemplate": {"size": 1, "workerTemplate": pods}});
                    object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, spec)
                };
                vec![(set("probe"), "subdomainPolicy: Shared"), (set("1"), "vleaderworkerset.kb.io")]
            }
            Self::Trainer => {
                let spec = json!({"runtimeRef": {"name": "none"}});
                let job = object("trainer.kubeflow.org/v1alpha1", "TrainJob", "1", spec);
                vec![(job, "validator.trainjob.trainer.kubeflow.org")]
            }
            Self::TrainingOperator => {
                let master = json!({"Master": {"replicas": 1, "template": pods}});
                let job = object("kubeflow.org/v1", "PyTorchJob", "1", json!({"pytorchReplicaSpecs": master}));
                vec![(job, "validator.pytorchjob.training-operator.kubeflow.org")]
            }
            Self::KubeRay | Self::MpiOperator | Self::Karpenter => Vec::new(),
        }
    }

    async fn wait_for_answer(self, plane: &ControlPlane, object: &Value, answer: &str) -> Result<()> {
        let file = plane.directory().join(format!("{}-probe.json", self.name()));
        fs::write(&file, object.to_string())?;
        let file = file.display().to_string();
        let kubeconfig = plane.kubeconfig();
        wait::until(&format!("the webhooks of {self:?} are in force ({answer})"), READY, async || {
            let said = run_kubectl(&kubeconfig, &["create", "--dry-run=server", "-o", "yaml", "-f", &file]).await;
            let said = said.unwrap_or_else(|error| error.to_string());
            // The API server also names the webhook while it does not answer.
            let is_it = said.contains(answer) && !said.contains("failed calling webhook");
            if is_it { Ok(()) } else { Err(said) }
        })
        .await?;
        Ok(())
    }
}
