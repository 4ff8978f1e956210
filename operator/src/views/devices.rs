//! DeviceClasses (resource.k8s.io/v1), reduced to the fields that Giveway needs. API servers before 1.34 do not have
//! them, and neither does the API version of the crate `k8s-openapi` that is used for all other kinds.

use giveway_cluster::objects::kinds::{DEVICE_CLASS, KindFields, TrimmedObject};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A DeviceClass.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(group = "resource.k8s.io", version = "v1", kind = "DeviceClass", plural = "deviceclasses", schema = "disabled")]
#[serde(rename_all = "camelCase")]
pub struct DeviceClassSpec {
    /// The extended resource that devices of this class serve, such as `example.com/gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<String>,
}

impl TrimmedObject for DeviceClass {
    fn row() -> &'static KindFields {
        &DEVICE_CLASS
    }

    fn decode(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use giveway_planner::{Context, Decision, Preemptor};
    use serde_json::json;

    fn class(resource: &str) -> Update<DeviceClass> {
        let spec = json!({"selectors": [], "extendedResourceName": resource});
        let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"},
            "spec": spec});
        Update::Applied(Box::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn a_class_makes_unknown_what_it_serves_until_a_list_without_it_comes() {
        let mut world = World::new();
        let asks = json!([{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]);
        world.pod(TestPod::new("p", 0).spec("containers", asks));
        world.node("n1", 1);
        let preemptor = Preemptor::Pod(world.key("p"));
        let fits = |world: &World| {
            matches!(
                giveway_planner::plan(&world.model.cluster, &preemptor, &Context::default()),
                Decision::Fits { .. }
            )
        };
        assert!(!fits(&world));
        let version = world.model.version;
        world.model.apply(Input::DeviceClass(class("example.com/gpu")));
        assert!(fits(&world));
        assert!(world.model.version > version, "it may change a decision");
        world.model.apply(Input::DeviceClass(Update::Replaced(Vec::new())));
        assert!(!fits(&world));
    }

    #[test]
    fn claims_and_volumes_are_known_by_what_the_watches_say() {
        let mut world = World::new();
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        world.pod(TestPod::new("p", 0).spec("volumes", volumes));
        let unknown = |world: &World| world.model.cluster.pod(&world.key("p")).unwrap().unknown.clone();
        assert_eq!(unknown(&world), ["claim data, which was not found"]);
        let claim = json!({"metadata": {"namespace": "default", "name": "data"}, "spec": {"volumeName": "pv"},
            "status": {"phase": "Bound"}});
        world.model.apply(Input::Claim(Update::Applied(serde_json::from_value(claim).map(Box::new).unwrap())));
        assert_eq!(unknown(&world), ["claim data, whose volume pv was not found"]);
        let volume = json!({"metadata": {"name": "pv"}, "spec": {}});
        world.model.apply(Input::Volume(Update::Applied(serde_json::from_value(volume).map(Box::new).unwrap())));
        assert_eq!(unknown(&world), Vec::<String>::new());
        world.model.apply(Input::Volume(Update::Replaced(Vec::new())));
        assert_eq!(unknown(&world), ["claim data, whose volume pv was not found"]);
    }
}
