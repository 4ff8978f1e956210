//! Converts PodGroup and Workload of `scheduling.giveway.dev` into those of `scheduling.k8s.io/v1beta1`.

use super::shapes::{self, ObjectFields};
use super::{Converted, NATIVE_VERSION};
use giveway_crds::keys;
use serde_json::{Value, json};

/// Converts a PodGroup or Workload of Giveway into one of Kubernetes itself (`scheduling.k8s.io`), with notes on what has no
/// counterpart.
pub(super) fn object(ours: &Value) -> Converted {
    let mut notes = Vec::new();
    let kind = ours["kind"].as_str().unwrap_or_default();
    let mut spec = ObjectFields::of(&ours["spec"], "spec");
    if kind == "Workload" {
        spec.same("controllerRef");
        let templates = spec.take("podGroupTemplates").unwrap_or_default();
        let of = |(index, template): (usize, &Value)| {
            let mut fields = ObjectFields::of(template, &format!("spec.podGroupTemplates[{index}]"));
            fields.same("name");
            group(&mut fields);
            fields.done(&mut notes)
        };
        let templates: Vec<Value> = templates.as_array().into_iter().flatten().enumerate().map(of).collect();
        spec.set("podGroupTemplates", templates.into());
        notes.push("kube-scheduler creates no groups from templates: create them together with the pods".to_owned());
    } else {
        if let Some(reference) = spec.take("podGroupTemplateRef") {
            let (workload, template) =
                (&reference["workload"]["workloadName"], &reference["workload"]["podGroupTemplateName"]);
            notes.push(format!(
                "spec.workloadRef: Workload {} has to exist first: kubectl giveway export workload/{0}",
                workload.as_str().unwrap_or_default()
            ));
            spec.set("workloadRef", json!({"workloadName": workload, "templateName": template}));
        }
        group(&mut spec);
        notes.push(format!(
            "pods belong to it by spec.schedulingGroup.podGroupName: {}, without the label {}",
            ours["metadata"]["name"].as_str().unwrap_or_default(),
            keys::LABEL_POD_GROUP
        ));
        notes.push(
            "kube-scheduler preempts for it only where its gate GenericWorkload is on, and for no class that Giveway manages"
                .to_owned(),
        );
    }
    let spec = spec.done(&mut notes);
    Converted { object: shapes::object(NATIVE_VERSION, kind, ours, spec), notes }
}

/// Converts the fields that a PodGroup and a template of a Workload share to those of Kubernetes itself. Drops `priority` and
/// `preemptionPolicy`: both APIs take them from the PriorityClass.
fn group(fields: &mut ObjectFields) {
    fields.same("schedulingPolicy");
    fields.same("schedulingConstraints");
    let whole = fields.take("disruptionMode").is_some_and(|mode| mode == "PodGroup");
    fields.set("disruptionMode", if whole { json!({"all": {}}) } else { json!({"single": {}}) });
    fields.same("priorityClassName");
    fields.take("priority");
    fields.take("preemptionPolicy");
    fields.drop_if("preemptionDelaySeconds", &json!(0));
    fields.drop_if("preemptFor", &json!("AllMembers"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::import;

    fn ours(spec: Value) -> Value {
        json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "spec": spec,
            "metadata": {"name": "g", "namespace": "n", "finalizers": ["scheduling.giveway.dev/pod-group-protection"]}})
    }

    #[test]
    fn an_exported_group_is_imported_unchanged() {
        let group = ours(json!({"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup",
            "priorityClassName": "high", "priority": 9, "preemptionPolicy": "PreemptLowerPriority",
            "preemptionDelaySeconds": 0, "schedulingConstraints": {"topology": [{"key": "rack"}]}}));
        let Converted { object, notes } = object(&group);
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": {"all": {}},
            "priorityClassName": "high", "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let metadata = json!({"name": "g", "namespace": "n"});
        let expected =
            json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec});
        assert_eq!(object, expected);
        let expected_notes = [
            "pods belong to it by spec.schedulingGroup.podGroupName: g, without the label scheduling.giveway.dev/pod-group",
            "kube-scheduler preempts for it only where its gate GenericWorkload is on, and for no class that Giveway manages",
        ];
        assert_eq!(notes, expected_notes);
        let back = import::object(&object).unwrap().object["spec"].clone();
        let expected = json!({"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup",
            "priorityClassName": "high", "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        assert_eq!(back, expected);
    }

    #[test]
    fn a_delay_and_a_missing_template_are_reported_as_not_exported() {
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        let Converted { object, notes } = object(&ours(json!({"schedulingPolicy": {"basic": {}},
            "preemptionDelaySeconds": 30, "podGroupTemplateRef": reference})));
        assert_eq!(object["spec"]["workloadRef"], json!({"workloadName": "w", "templateName": "t"}));
        assert_eq!(object["spec"]["disruptionMode"], json!({"single": {}}));
        assert_eq!(notes[0], "spec.workloadRef: Workload w has to exist first: kubectl giveway export workload/w");
        assert_eq!(notes[3], "spec.preemptionDelaySeconds: has no counterpart: 30 is left out");
    }

    #[test]
    fn a_workload_is_exported_as_a_native_one() {
        let workload = json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Workload", "metadata": {"name": "w"},
            "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}},
                "disruptionMode": "Pod", "priorityClassName": "low", "priority": 1}]}});
        let Converted { object, notes } = object(&workload);
        let spec = json!({"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"single": {}}, "priorityClassName": "low"}]});
        assert_eq!((&object["kind"], &object["spec"]), (&json!("Workload"), &spec));
        assert_eq!(notes, ["kube-scheduler creates no groups from templates: create them together with the pods"]);
    }
}
