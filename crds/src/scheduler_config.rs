//! The configuration of kube-scheduler (`KubeSchedulerConfiguration`), as far as it decides which nodes are feasible for a pod and no object
//! of the cluster shows it: resources that are ignored, node affinity that is added, and default topology spread constraints.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorTerm};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// `apiVersion` and `kind` of the file.
const VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";
/// Name of a profile that names no scheduler.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// Name of the only field of a node that a selector may read.
const NODE_NAME: &str = "metadata.name";
/// Length up to which a value is repeated in an error.
const LONGEST_VALUE: usize = 80;

static NULL: Value = Value::Null;

/// The profiles of a configuration, by the name of their scheduler. All other fields of the file are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerConfig {
    /// The profiles.
    pub profiles: BTreeMap<String, Profile>,
}

/// What a profile says about feasible nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Node affinity that is required in addition to that of a pod (`NodeAffinityArgs.addedAffinity`).
    pub added_affinity: Option<NodeSelector>,
    /// True if a pod without topology spread constraints gets some with `DoNotSchedule` (`PodTopologySpreadArgs.defaultConstraints`).
    pub spreads_by_default: bool,
    /// Resources that are not compared: those of `NodeResourcesFitArgs.ignoredResources`, or, if there are any, instead of them those that an
    /// extender manages with `ignoredByScheduler`.
    pub ignored_resources: BTreeSet<String>,
    /// Prefixes of resources that are not compared (`NodeResourcesFitArgs.ignoredResourceGroups`).
    pub ignored_groups: BTreeSet<String>,
}

impl Profile {
    /// Returns true if the scheduler of this profile ignores requests of this resource when it looks for a node. Only extended resources
    /// can be ignored.
    pub fn ignores(&self, resource: &str) -> bool {
        let Some((group, _)) = resource.split_once('/') else { return false };
        let is_extended = !resource.contains("kubernetes.io/") && !resource.starts_with("requests.");
        is_extended && (self.ignored_resources.contains(resource) || self.ignored_groups.contains(group))
    }

    /// Returns true if the scheduler of this profile ignores requests of any resource.
    pub fn ignores_any(&self) -> bool {
        !self.ignored_resources.is_empty() || !self.ignored_groups.is_empty()
    }
}

/// Why a configuration cannot be used: field, value and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl SchedulerConfig {
    /// Parses a configuration of kube-scheduler, in YAML or JSON.
    ///
    /// # Errors
    /// The text is neither, or a field that is read has a value that kube-scheduler rejects or that makes no node feasible.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_yaml_ng::from_str(text)
            .map_err(|error| ConfigError(format!("is no {KIND} in YAML or JSON: {error}")))?;
        let root = ConfigField { path: String::new(), value: &value };
        root.get("apiVersion").must_be(VERSION)?;
        root.get("kind").must_be(KIND)?;
        let mut profiles = BTreeMap::new();
        let listed = root.get("profiles").items()?;
        for profile in &listed {
            let field = profile.get("schedulerName");
            let name = match field.text()?.filter(|name| !name.is_empty()) {
                Some(name) => name,
                None if listed.len() == 1 => DEFAULT_SCHEDULER,
                None => return Err(field.required("each of several profiles names its scheduler")),
            };
            if profiles.insert(name.to_owned(), Profile::of(profile)?).is_some() {
                return Err(field.invalid("each profile must name another scheduler"));
            }
        }
        if profiles.is_empty() {
            profiles.insert(DEFAULT_SCHEDULER.to_owned(), Profile::default());
        }
        let managed = ignored_for_extenders(&root)?;
        if !managed.is_empty() {
            profiles.values_mut().for_each(|profile| profile.ignored_resources.clone_from(&managed));
        }
        Ok(Self { profiles })
    }
}

/// Returns the resources that an extender in the configuration manages with `ignoredByScheduler: true`. `root` is the whole configuration.
fn ignored_for_extenders(root: &ConfigField<'_>) -> Result<BTreeSet<String>, ConfigError> {
    let mut ignored = BTreeSet::new();
    for extender in root.get("extenders").items()? {
        for resource in extender.get("managedResources").items()? {
            let name = resource.get("name").name("the name of an extended resource, such as example.com/gpu")?;
            if resource.get("ignoredByScheduler").is_true()? {
                ignored.insert(name.to_owned());
            }
        }
    }
    Ok(ignored)
}

impl Profile {
    /// Reads a profile of the configuration: the arguments of those plugins that Giveway models.
    fn of(profile: &ConfigField<'_>) -> Result<Self, ConfigError> {
        let (mut read, mut known) = (Self::default(), BTreeSet::new());
        for config in profile.get("pluginConfig").items()? {
            let (field, args) = (config.get("name"), config.get("args"));
            let plugin = field.name("the name of the plugin that has these arguments")?;
            if !known.insert(plugin) {
                return Err(field.invalid("a profile has the arguments of a plugin once"));
            }
            match plugin {
                "NodeAffinity" => read.added_affinity = added_affinity(&args.get("addedAffinity"))?,
                "PodTopologySpread" => read.spreads_by_default = spreads_by_default(&args)?,
                "NodeResourcesFit" => {
                    for resource in args.get("ignoredResources").items()? {
                        read.ignored_resources.insert(resource.name("the name of an extended resource")?.to_owned());
                    }
                    for group in args.get("ignoredResourceGroups").items()? {
                        let name = group.name("the prefix of extended resources, such as example.com")?;
                        if name.contains('/') {
                            return Err(group.invalid("must have no slash: it is the part before it"));
                        }
                        read.ignored_groups.insert(name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

/// Returns the required part of `addedAffinity`, the field of `NodeAffinityArgs`; `None` if it has none. What is only preferred makes no
/// node infeasible.
fn added_affinity(added: &ConfigField<'_>) -> Result<Option<NodeSelector>, ConfigError> {
    let required = added.get("requiredDuringSchedulingIgnoredDuringExecution");
    if required.value.is_null() {
        return Ok(None);
    }
    for term in required.get("nodeSelectorTerms").items()? {
        for rule in term.get("matchExpressions").items()? {
            rule.get("operator").one_of(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])?;
        }
        for rule in term.get("matchFields").items()? {
            rule.get("key").must_be(NODE_NAME)?;
            rule.get("operator").one_of(&["In", "NotIn"])?;
        }
    }
    let selector: NodeSelector = serde_json::from_value(required.value.clone())
        .map_err(|error| required.invalid(&format!("must be a node selector: {error}")))?;
    let is_empty = |term: &NodeSelectorTerm| term.match_expressions.iter().chain(&term.match_fields).all(Vec::is_empty);
    if selector.node_selector_terms.iter().all(is_empty) {
        return Err(required.get("nodeSelectorTerms").required("without a requirement no node would be feasible"));
    }
    Ok(Some(selector))
}

/// Returns true if these `PodTopologySpreadArgs` give pods without topology spread constraints some with `DoNotSchedule`. The built-in
/// defaults of kube-scheduler (`System`) have none.
fn spreads_by_default(args: &ConfigField<'_>) -> Result<bool, ConfigError> {
    let (field, constraints) = (args.get("defaultingType"), args.get("defaultConstraints").items()?);
    let defaulting = if field.value.is_null() { "System" } else { field.one_of(&["List", "System"])? };
    if defaulting == "System" && !constraints.is_empty() {
        return Err(field.invalid("must be List, because there are defaultConstraints"));
    }
    let mut must_hold = false;
    for constraint in constraints {
        must_hold |=
            constraint.get("whenUnsatisfiable").one_of(&["DoNotSchedule", "ScheduleAnyway"])? == "DoNotSchedule";
    }
    Ok(must_hold)
}

/// A value in the configuration, with its path for errors.
struct ConfigField<'v> {
    path: String,
    value: &'v Value,
}

impl<'v> ConfigField<'v> {
    /// Returns the field `name` of this value; its value is null if it is absent.
    fn get(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path), value: self.value.get(name).unwrap_or(&NULL) }
    }

    /// Returns the items of this list; none if the field is absent. It is an error if the value is no list.
    fn items(&self) -> Result<Vec<Self>, ConfigError> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => {
                let item = |(at, value)| Self { path: format!("{}[{at}]", self.path), value };
                Ok(items.iter().enumerate().map(item).collect())
            }
            _ => Err(self.invalid("must be a list")),
        }
    }

    /// Returns the text of the field; `None` if it is absent.
    ///
    /// # Errors
    /// The value is not a string.
    fn text(&self) -> Result<Option<&'v str>, ConfigError> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.invalid("must be a string")),
        }
    }

    /// Returns the text of the field, which must be present and not empty; `what` describes the value in the error.
    fn name(&self, what: &str) -> Result<&'v str, ConfigError> {
        self.text()?.filter(|name| !name.is_empty()).ok_or_else(|| self.required(what))
    }

    /// Returns the value of a boolean field; false if it is absent.
    ///
    /// # Errors
    /// The value is not a boolean.
    fn is_true(&self) -> Result<bool, ConfigError> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(value) => Ok(*value),
            _ => Err(self.invalid("must be true or false")),
        }
    }

    /// Checks that the field is present and has exactly this text; otherwise returns an error.
    fn must_be(&self, text: &str) -> Result<(), ConfigError> {
        self.one_of(&[text]).map(drop)
    }

    /// Returns the text of the field, which must be present and one of `words`; otherwise returns an error.
    fn one_of(&self, words: &[&str]) -> Result<&'v str, ConfigError> {
        let must = || format!("must be {}", words.join(" or "));
        match self.text()? {
            None => Err(self.required(&must())),
            Some(text) if words.contains(&text) => Ok(text),
            Some(_) => Err(self.invalid(&must())),
        }
    }

    /// Creates the error that the field has an invalid value; `problem` says what it must be.
    fn invalid(&self, problem: &str) -> ConfigError {
        let text = self.value.to_string();
        let (shown, more) = match text.char_indices().nth(LONGEST_VALUE) {
            Some((end, _)) => (text.get(..end).unwrap_or_default(), "…"),
            None => (text.as_str(), ""),
        };
        ConfigError(format!("{}: Invalid value: {shown}{more}: {problem}", self.path))
    }

    /// Creates the error that the field is missing; `what` describes the value that it needs.
    fn required(&self, what: &str) -> ConfigError {
        ConfigError(format!("{}: Required value: {what}", self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(more: &Value) -> Result<SchedulerConfig, String> {
        let mut config = json!({"apiVersion": VERSION, "kind": KIND});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        SchedulerConfig::parse(&config.to_string()).map_err(|error| error.to_string())
    }

    fn with_plugin(name: &str, args: &Value) -> Result<Profile, String> {
        let mut config = config(&json!({"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}))?;
        Ok(config.profiles.remove("default-scheduler").unwrap())
    }

    #[test]
    fn a_file_of_a_cluster_is_read_as_far_as_nodes_are_feasible_by_it() {
        let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: ImageLocality}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/fpga], ignoredResourceGroups: [acme.com], scoringStrategy: {type: MostAllocated}}
- schedulerName: batch
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
";
        let read = SchedulerConfig::parse(text).unwrap();
        let names: Vec<&str> = read.profiles.keys().map(String::as_str).collect();
        assert_eq!(names, ["batch", "default-scheduler"]);
        let (batch, default) = (&read.profiles["batch"], &read.profiles["default-scheduler"]);
        assert!(batch.added_affinity.is_some() && batch.spreads_by_default && !batch.ignores_any());
        assert!(default.added_affinity.is_none() && !default.spreads_by_default && default.ignores_any());
        let ignored = ["example.com/fpga", "acme.com/any", "example.com/gpu", "cpu", "acme.com"]
            .map(|name| default.ignores(name));
        assert_eq!(ignored, [true, true, false, false, false]);
    }

    #[test]
    fn resources_of_an_extender_replace_those_that_the_plugin_ignores() {
        let fit = json!([{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/fpga"]}}]);
        let extender = |ignored: bool| {
            json!({"profiles": [{"pluginConfig": fit}],
                "extenders": [{"managedResources": [{"name": "acme.com/fpga", "ignoredByScheduler": ignored}]}]})
        };
        let ignored = |more: &Value| config(more).unwrap().profiles["default-scheduler"].ignored_resources.clone();
        assert_eq!(ignored(&extender(false)), BTreeSet::from(["example.com/fpga".to_owned()]));
        assert_eq!(ignored(&extender(true)), BTreeSet::from(["acme.com/fpga".to_owned()]));
        let without_profiles = json!({"extenders": extender(true)["extenders"]});
        assert_eq!(ignored(&without_profiles), BTreeSet::from(["acme.com/fpga".to_owned()]));
    }

    #[test]
    fn resources_of_kubernetes_itself_are_never_ignored() {
        let args = json!({"ignoredResources": ["cpu", "kubernetes.io/batch", "requests.example.com/a"],
            "ignoredResourceGroups": ["kubernetes.io"]});
        let profile = with_plugin("NodeResourcesFit", &args).unwrap();
        for name in ["cpu", "kubernetes.io/batch", "requests.example.com/a", "hugepages-2Mi"] {
            assert!(!profile.ignores(name), "{name}");
        }
    }

    #[test]
    fn default_constraints_must_hold_only_if_they_say_so() {
        let constraint = |when: &str| json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when});
        let spreads = |when: &str| {
            let args = json!({"defaultingType": "List", "defaultConstraints": [constraint(when)]});
            with_plugin("PodTopologySpread", &args).map(|profile| profile.spreads_by_default)
        };
        assert_eq!((spreads("DoNotSchedule"), spreads("ScheduleAnyway")), (Ok(true), Ok(false)));
        let system = with_plugin("PodTopologySpread", &json!({"defaultingType": "System"})).unwrap();
        assert!(!system.spreads_by_default);
    }

    #[test]
    fn an_error_names_field_value_and_what_it_must_be() {
        let plugin = |name: &str, args: Value| with_plugin(name, &args).map(drop);
        let added = |term: Value| json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        let required = "profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution";
        let args = "profiles[0].pluginConfig[0].args";
        let rows = [
            (
                SchedulerConfig::parse("apiVersion: kubescheduler.config.k8s.io/v1beta3").map(drop).map_err(|e| e.to_string()),
                "apiVersion: Invalid value: \"kubescheduler.config.k8s.io/v1beta3\": must be kubescheduler.config.k8s.io/v1".to_owned(),
            ),
            (
                SchedulerConfig::parse("apiVersion: kubescheduler.config.k8s.io/v1").map(drop).map_err(|e| e.to_string()),
                "kind: Required value: must be KubeSchedulerConfiguration".to_owned(),
            ),
            (config(&json!({"profiles": 7})).map(drop), "profiles: Invalid value: 7: must be a list".to_owned()),
            (
                config(&json!({"profiles": [{"schedulerName": "a"}, {}]})).map(drop),
                "profiles[1].schedulerName: Required value: each of several profiles names its scheduler".to_owned(),
            ),
            (
                config(&json!({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]})).map(drop),
                "profiles[1].schedulerName: Invalid value: \"a\": each profile must name another scheduler".to_owned(),
            ),
            (
                config(&json!({"extenders": [{"managedResources": [{"ignoredByScheduler": true}]}]})).map(drop),
                "extenders[0].managedResources[0].name: Required value: the name of an extended resource, such as example.com/gpu"
                    .to_owned(),
            ),
            (
                config(&json!({"extenders": [{"managedResources": [{"name": "a.b/c", "ignoredByScheduler": "yes"}]}]})).map(drop),
                "extenders[0].managedResources[0].ignoredByScheduler: Invalid value: \"yes\": must be true or false".to_owned(),
            ),
            (
                plugin("NodeResourcesFit", json!({"ignoredResourceGroups": ["a.b/c"]})),
                format!("{args}.ignoredResourceGroups[0]: Invalid value: \"a.b/c\": must have no slash: it is the part before it"),
            ),
            (
                plugin("PodTopologySpread", json!({"defaultConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]})),
                format!("{args}.defaultingType: Invalid value: null: must be List, because there are defaultConstraints"),
            ),
            (
                plugin("PodTopologySpread", json!({"defaultingType": "Own"})),
                format!("{args}.defaultingType: Invalid value: \"Own\": must be List or System"),
            ),
            (
                plugin("NodeAffinity", added(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}))),
                format!(
                    "{required}.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Is\": must be In or NotIn or Exists \
                     or DoesNotExist or Gt or Lt"
                ),
            ),
            (
                plugin("NodeAffinity", added(json!({}))),
                format!("{required}.nodeSelectorTerms: Required value: without a requirement no node would be feasible"),
            ),
        ];
        for (found, expected) in rows {
            assert_eq!(found.unwrap_err(), expected);
        }
        assert!(
            SchedulerConfig::parse("a: [")
                .unwrap_err()
                .to_string()
                .starts_with("is no KubeSchedulerConfiguration in YAML or JSON: ")
        );
    }
}
