//! Converts PodGroup and Workload of any version of `scheduling.k8s.io` into those of Giveway.

use super::shapes::{self, ObjectFields};
use super::{COSCHEDULING, Converted, OURS, coscheduling, pods};
use crate::error::CliError;
use crate::world::name_of;
use giveway_crds::keys;
use giveway_crds::native::GROUP as NATIVE;
use serde_json::{Value, json};

/// Converts an object of any kind: PodGroups and Workloads of Kubernetes itself and PodGroups of coscheduling into those of Giveway,
/// and the group of pods and pod templates into Giveway's label. Other objects are unchanged.
///
/// # Errors
/// The object is already a PodGroup or Workload of Giveway.
pub(super) fn object(from: &Value) -> Result<Converted, CliError> {
    let (version, kind) = (from["apiVersion"].as_str().unwrap_or_default(), from["kind"].as_str().unwrap_or_default());
    match (version.split_once('/').map_or("", |(group, _)| group), kind) {
        (NATIVE, "PodGroup") => Ok(podgroup(from)),
        (NATIVE, "Workload") => Ok(workload(from)),
        (COSCHEDULING | coscheduling::EARLIER, "PodGroup") => Ok(coscheduling::podgroup(from)),
        (keys::GROUP, "PodGroup" | "Workload") => {
            let name = name_of(from);
            Err(CliError::NoSuchObject(format!("{kind} {name} is Giveway's already: there is nothing to import")))
        }
        _ => Ok(pods::relabelled(from)),
    }
}

/// Converts a PodGroup of Kubernetes (`scheduling.k8s.io`, v1alpha2 or later) to one of Giveway, with notes on what has no counterpart.
fn podgroup(from: &Value) -> Converted {
    let mut notes = Vec::new();
    let mut spec = ObjectFields::of(&from["spec"], "spec");
    // v1alpha2 has another name for the reference.
    let earlier = spec.take("podGroupTemplateRef").map(|reference| reference["workload"].clone());
    let name = |reference: &Value| [&reference["templateName"], &reference["podGroupTemplateName"]].map(Value::clone);
    if let Some(reference) = spec.take("workloadRef").or(earlier) {
        let [new, old] = name(&reference);
        let template = if new.is_null() { old } else { new };
        let workload = json!({"workloadName": reference["workloadName"], "podGroupTemplateName": template});
        spec.set("podGroupTemplateRef", json!({ "workload": workload }));
    }
    group(&mut spec, &mut notes);
    shapes::long_name(from, &mut notes);
    notes.push(shapes::label(from));
    let spec = spec.done(&mut notes);
    Converted { object: shapes::object(OURS, "PodGroup", from, spec), notes }
}

/// Converts a Workload of Kubernetes (`scheduling.k8s.io`) to one of Giveway, with notes on what has no counterpart.
fn workload(from: &Value) -> Converted {
    let mut notes = Vec::new();
    let mut spec = ObjectFields::of(&from["spec"], "spec");
    spec.same("controllerRef");
    let list = spec.take("podGroupTemplates").unwrap_or_default();
    let mut templates = Vec::new();
    for (index, template) in list.as_array().into_iter().flatten().enumerate() {
        let mut fields = ObjectFields::of(template, &format!("spec.podGroupTemplates[{index}]"));
        fields.same("name");
        group(&mut fields, &mut notes);
        templates.push(fields.done(&mut notes));
    }
    spec.set("podGroupTemplates", templates.into());
    let spec = spec.done(&mut notes);
    Converted { object: shapes::object(OURS, "Workload", from, spec), notes }
}

/// Converts the fields that a PodGroup and a template of a Workload share to those of Giveway, with notes on what has no counterpart.
/// Priority and preemption policy are dropped: on both sides they follow from the PriorityClass.
fn group(fields: &mut ObjectFields, notes: &mut Vec<String>) {
    let basic = fields.take("schedulingPolicy").is_some_and(|policy| {
        let basic = policy.get("basic").is_some_and(|basic| !basic.is_null());
        fields.set("schedulingPolicy", policy);
        basic
    });
    fields.same("schedulingConstraints");
    let whole = match fields.take("disruptionMode") {
        Some(Value::String(mode)) => mode == "PodGroup",
        Some(mode) => mode.get("all").is_some_and(|all| !all.is_null()),
        None => false,
    };
    if whole && basic {
        notes.push(format!(
            "{}: `all` cannot be used with schedulingPolicy `basic` here: it becomes `Pod`",
            fields.path("disruptionMode")
        ));
    }
    fields.set("disruptionMode", if whole && !basic { "PodGroup".into() } else { "Pod".into() });
    fields.same("priorityClassName");
    fields.take("priority");
    fields.take("preemptionPolicy");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(object: Value) -> (Value, Vec<String>) {
        let Converted { object, notes } = super::object(&object).unwrap();
        assert_eq!(object["apiVersion"], OURS);
        (object["spec"].clone(), notes)
    }

    fn native(version: &str, spec: Value) -> Value {
        let metadata = json!({"name": "g", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"team": "a"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}});
        json!({"apiVersion": format!("scheduling.k8s.io/{version}"), "kind": "PodGroup", "metadata": metadata, "spec": spec,
            "status": {"conditions": []}})
    }

    const LABEL: &str = "pods belong to it by the label scheduling.giveway.dev/pod-group: g when they are created";

    #[test]
    fn a_native_group_of_every_version_is_read() {
        let newest = json!({"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}}, "priority": 7,
            "priorityClassName": "high", "workloadRef": {"workloadName": "w", "templateName": "t"}});
        let earlier = json!({"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "PodGroup", "priority": 7,
            "priorityClassName": "high",
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}});
        let expected = json!({"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "PodGroup",
            "priorityClassName": "high",
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}});
        for (version, given) in [("v1", &newest), ("v1beta1", &newest), ("v1alpha2", &earlier)] {
            assert_eq!(spec(native(version, given.clone())), (expected.clone(), vec![LABEL.to_owned()]), "{version}");
        }
        let made = super::object(&native("v1beta1", newest)).unwrap().object;
        assert_eq!(made["metadata"], json!({"name": "g", "namespace": "n", "labels": {"team": "a"}}));
        serde_json::from_value::<giveway_crds::PodGroup>(made).unwrap();
    }

    #[test]
    fn fields_without_a_counterpart_are_named_with_what_they_say() {
        let given = json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}, "resourceClaims": [{"name": "c"}],
            "parentCompositePodGroupName": "p"});
        let (made, notes) = spec(native("v1beta1", given));
        assert_eq!(made, json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}));
        let expected = [
            "spec.disruptionMode: `all` cannot be used with schedulingPolicy `basic` here: it becomes `Pod`",
            LABEL,
            "spec.parentCompositePodGroupName: has no counterpart: \"p\" is left out",
            "spec.resourceClaims: has no counterpart: [{\"name\":\"c\"}] is left out",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn each_template_of_a_native_workload_is_imported() {
        let workload = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"},
            "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": [
                {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}, "priority": 1},
                {"name": "b", "schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "c"}]}]}});
        let (made, notes) = spec(workload);
        let expected = json!({"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": [
            {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup"},
            {"name": "b", "schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}]});
        assert_eq!(made, expected);
        assert_eq!(
            notes,
            ["spec.podGroupTemplates[1].resourceClaims: has no counterpart: [{\"name\":\"c\"}] is left out"]
        );
    }

    #[test]
    fn a_group_of_coscheduling_becomes_a_gang_of_its_members() {
        let group = |spec: Value| json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec});
        let (made, notes) =
            spec(group(json!({"minMember": 3, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 10})));
        assert_eq!(made, json!({"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "Pod"}));
        let class = "spec.priorityClassName: coscheduling uses the classes of the pods: name one here, otherwise the group has the default class";
        let expected = [
            class,
            LABEL,
            "spec.minResources: has no counterpart: {\"cpu\":\"3\"} is left out",
            "spec.scheduleTimeoutSeconds: has no counterpart: 10 is left out",
        ];
        assert_eq!(notes, expected);
        assert_eq!(spec(group(json!({}))).0["schedulingPolicy"], json!({"basic": {}}));
    }

    #[test]
    fn pods_and_templates_get_the_label_and_no_other_change() {
        let template = json!({"metadata": {"labels": {"app": "a", "scheduling.x-k8s.io/pod-group": "g"}},
            "spec": {"schedulerName": "coscheduler", "containers": [{"name": "c"}]}});
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
        let Converted { object, notes } = super::object(&job).unwrap();
        let labels = json!({"app": "a", "scheduling.giveway.dev/pod-group": "g"});
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(
            notes,
            [
                "spec.template.spec.schedulerName: coscheduler: Giveway preempts only for pods of the schedulers that it is configured for (default: default-scheduler)"
            ]
        );
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": []}});
        let made = super::object(&pod).unwrap().object;
        assert_eq!(made["metadata"]["labels"], json!({"scheduling.giveway.dev/pod-group": "g"}));
        assert_eq!(made["spec"], json!({"containers": []}));
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}});
        assert_eq!(super::object(&other).unwrap(), Converted { object: other, notes: vec![] });
    }

    #[test]
    fn an_object_of_giveway_is_not_imported_and_a_name_that_is_no_label_value_is_noted() {
        let ours = json!({"apiVersion": OURS, "kind": "PodGroup", "metadata": {"name": "g", "namespace": "n"}});
        let error = super::object(&ours).unwrap_err().to_string();
        assert_eq!(error, "PodGroup n/g is Giveway's already: there is nothing to import");
        let mut long = native("v1beta1", json!({"schedulingPolicy": {"basic": {}}}));
        long["metadata"]["name"] = "g".repeat(64).into();
        let (_, notes) = spec(long);
        assert_eq!(notes[0], "metadata.name: must be no more than 63 characters, it has 64: use a shorter name");
    }
}
