//! Labels, annotations, gates and finalizers: everything that Giveway writes on objects of others.
//!
//! All of them start with [`PREFIX`], so that a cluster administrator can find and remove them with one search.

/// API group of the custom resources, and the prefix of every key without the slash.
pub const GROUP: &str = "scheduling.giveway.dev";
/// Prefix of every label, annotation, gate and finalizer of Giveway.
pub const PREFIX: &str = "scheduling.giveway.dev/";

/// Label of a pod: the name of its PodGroup, in the pod's own namespace.
pub const LABEL_POD_GROUP: &str = "scheduling.giveway.dev/pod-group";
/// Label of a pod: the name of the Workload whose template describes its group.
pub const LABEL_WORKLOAD: &str = "scheduling.giveway.dev/workload";
/// Label of a pod: the name of the template inside the Workload.
pub const LABEL_TEMPLATE: &str = "scheduling.giveway.dev/pod-group-template";
/// Label of a pod: which replica of the template it belongs to, for one group per replica.
pub const LABEL_REPLICA: &str = "scheduling.giveway.dev/pod-group-replica";
/// The labels that say which group a pod belongs to; immutable after creation.
pub const GROUP_LABELS: [&str; 4] = [LABEL_POD_GROUP, LABEL_WORKLOAD, LABEL_TEMPLATE, LABEL_REPLICA];

/// Label of an owner of pods or of a pod: `"true"` makes a gang of its pods; Giveway makes the PodGroup (see [`crate::kinds`]).
pub const LABEL_GANG: &str = "scheduling.giveway.dev/gang";
/// Label of a PodGroup that Giveway made itself (Kubernetes' recommended labels), with the value [`MANAGED_BY`].
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "giveway-operator";
/// Annotation beside [`LABEL_GANG`]: how many pods start together, where the owner's own fields do not say it.
pub const ANNOTATION_MIN_COUNT: &str = "scheduling.giveway.dev/min-count";
/// Annotation beside [`LABEL_GANG`]: the disruption mode of the gang, `Pod` or `PodGroup` (the default): whether its
/// pods are evicted one by one, or all together.
pub const ANNOTATION_DISRUPTION_MODE: &str = "scheduling.giveway.dev/disruption-mode";

/// Label of a ConfigMap in Giveway's namespace that stores a PriorityClass while it is deleted and created again; its
/// value is the change, `adopt` or `release`.
pub const LABEL_CLASS_CHANGE: &str = "scheduling.giveway.dev/class-change";

/// Label of a Preemption, `"true"` while it reserves a node for its preemptor: admission rejects the binding of other
/// pods to that node.
pub const LABEL_KEEPS_NODE: &str = "scheduling.giveway.dev/keeps-node";

/// Label of a placeholder pod, which the operator creates so that a cluster autoscaler adds nodes for a gang: the name
/// of the PodGroup. Admission rejects the label on pods that other clients create.
pub const LABEL_PLACEHOLDER: &str = "scheduling.giveway.dev/placeholder";
/// Label of a ProvisioningRequest and of its PodTemplates: the name of the PodGroup that they ask for.
pub const LABEL_PROVISIONING: &str = "scheduling.giveway.dev/provisioning";

/// Scheduling gate of the members of a gang. The operator removes it when the gang fits.
pub const GATE: &str = "scheduling.giveway.dev/pod-group";

/// Annotation of a PriorityClass: `"true"` makes Giveway preempt for this class instead of kube-scheduler.
pub const ANNOTATION_MANAGED: &str = "scheduling.giveway.dev/managed";
/// Annotation of a managed PriorityClass and of its pods: the preemption policy the class asked for.
pub const ANNOTATION_PREEMPTION_POLICY: &str = "scheduling.giveway.dev/preemption-policy";
/// Annotation of a PriorityClass and of its pods: the priority from which on their budgets may be violated (KEP-3280).
pub const ANNOTATION_THRESHOLD: &str = "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal";
/// Annotation of an eviction request of the operator: the name of the `Preemption`. On a pod it has no meaning, and admission rejects it.
pub const ANNOTATION_PLAN: &str = "scheduling.giveway.dev/preemption-plan";

/// Annotation of a pod: `"true"` makes it a critical add-on, in the namespaces that the chart names and nowhere else.
pub const ANNOTATION_CRITICAL: &str = "scheduling.giveway.dev/critical-addon";
/// The annotation of the rescheduler's design that says the same; its value is empty.
pub const ANNOTATION_CRITICAL_POD: &str = "scheduler.alpha.kubernetes.io/critical-pod";
/// Taint that reserves a node for critical add-ons. Node pools can have it permanently; the value of
/// [Giveway's](crate::critical::taint) is the UID of a pod.
pub const TAINT_CRITICAL: &str = "CriticalAddonsOnly";

/// Annotation of a Namespace: `"true"` keeps every pod in it from being evicted by Giveway. Admission lets only administrators
/// write it.
pub const ANNOTATION_NEVER_EVICT: &str = "scheduling.giveway.dev/never-evict";

/// Label of a Namespace for the chart's value `namespaces.selector`, which says where groups are served. Admission lets only
/// administrators write it.
pub const LABEL_ENABLED: &str = "scheduling.giveway.dev/enabled";
/// Annotation of the ValidatingAdmissionPolicy `giveway-namespaces`: the namespaces that the chart protects, separated by commas, for
/// the command line.
pub const ANNOTATION_PROTECTED: &str = "scheduling.giveway.dev/protected-namespaces";
/// Annotation of the same policy: the LabelSelector of the namespaces in which groups are served, in JSON, for the command line; absent
/// where they are served in all.
pub const ANNOTATION_SERVED: &str = "scheduling.giveway.dev/served-namespaces";
/// Annotation of the same policy: the namespaces of critical add-ons, separated by commas, for the command line; empty while no pod is
/// evicted for critical add-ons.
pub const ANNOTATION_CRITICAL_NAMESPACES: &str = "scheduling.giveway.dev/critical-namespaces";
/// Annotation of the same policy: what Giveway reads of the configuration of kube-scheduler, in JSON, for the command line; absent where the
/// chart has none.
pub const ANNOTATION_SCHEDULER_CONFIG: &str = "scheduling.giveway.dev/scheduler-config";

/// Finalizer that keeps a PodGroup for as long as it has live members.
pub const FINALIZER_PROTECTION: &str = "scheduling.giveway.dev/pod-group-protection";

/// Longest name of a PodGroup, in bytes: it must fit a label value.
pub const MAX_GROUP_NAME: usize = 63;
