//! The metrics of the operator, each with its name, help text and label values. docs/reference/metrics.md is generated from this
//! list, and the dashboard and the alerting rules are checked against it.

use giveway_serving::metrics::{About, Label, build_info, label};
use prometheus_client::metrics::histogram::exponential_buckets;

const CLASSES: &str = "name of a PriorityClass, `none` or `other`";
const CLASS: Label = label("class", CLASSES);
const PREEMPTOR_CLASS: Label = label("preemptor_class", CLASSES);
const VICTIM_CLASS: Label = label("victim_class", CLASSES);
const VERB: Label = label("verb", "`get`, `create`, `update`, `patch`, `delete`, `other`");
const QUEUE: Label = label(
    "queue",
    "`inputs`: changes and answers that a pass left for the next one; calls to the API server that have not been sent: `evictions`, `plans`, \
     `groups`, `others`, `background` (no decision depends on them), `events`",
);

/// Defines each metric, and the list of all of them.
macro_rules! catalogue {
    ($($name:ident = $about:expr;)*) => {
        $(pub(crate) const $name: About = $about;)*

        /// All metrics of the operator, without those that every process has.
        pub const CATALOGUE: &[About] = &[$($name),*];
    };
}

catalogue! {
    BUILD = build_info("giveway_operator_build_info");
    LEADER = About::gauge("giveway_operator_leader", "1 while this process leads", &[]);
    MODE = About::gauge(
        "giveway_operator_mode",
        "1 for the mode that the leader is in",
        &[label("mode", "`enforce`, `observe`, `off`")],
    );
    WATCHES_BROKEN = About::gauge(
        "giveway_operator_watches_broken",
        "1 while a watch has been broken for so long that the operator makes no decisions",
        &[],
    );
    WATCH_BROKEN = About::gauge(
        "giveway_operator_watch_broken_seconds",
        "For how long a watch has been failing, so that the model may be old; 0 while it works",
        &[label("kind", "the kind that is watched")],
    );
    WAITING = About::gauge(
        "giveway_operator_waiting_groups",
        "PodGroups with pending pods, counted every two seconds by the leader",
        &[label("reason", "as in the condition Scheduled"), CLASS],
    );
    OLDEST = About::gauge(
        "giveway_operator_oldest_waiting_group_age_seconds",
        "How long the longest pending PodGroup of a class has been pending; 0 if none is pending",
        &[CLASS],
    );
    GATED = About::gauge("giveway_operator_gated_pods", "Pods that have the scheduling gate of Giveway", &[]);
    SUBMITTED_TO_BOUND = About::histogram(
        "giveway_operator_group_submitted_to_bound_seconds",
        "Time from the creation of the first pod of a PodGroup until it was scheduled for the first time, in whole seconds",
        &[CLASS],
    );
    PLANNED_TO_BOUND = About::histogram(
        "giveway_operator_planned_to_bound_seconds",
        "Time from a plan with victims until every placed pod was bound",
        &[PREEMPTOR_CLASS],
    );
    DECISION_SECONDS = About::histogram("giveway_operator_decision_duration_seconds", "Time to decide for one preemptor", &[]);
    IN_FLIGHT = About::gauge("giveway_operator_decisions_in_flight", "Decisions that are being carried out", &[]);
    LIMITED_PLANS = About::gauge(
        "giveway_operator_plans_held_back",
        "Plans that wait because of the limits of evictions in a minute",
        &[],
    );
    OUTCOMES = About::counter(
        "giveway_operator_outcomes_total",
        "Decisions and ends of plans, by reason; a decision that says the same as the last one is not counted",
        &[label("reason", "a reason of conditions and events")],
    );
    PLANS = About::counter(
        "giveway_operator_plans_total",
        "Plans with victims that have ended",
        &[label("outcome", "`Completed`, `Cancelled`, `Failed`")],
    );
    EVICTIONS = About::counter(
        "giveway_operator_evictions_total",
        "Pods whose eviction was accepted",
        &[
            PREEMPTOR_CLASS,
            VICTIM_CLASS,
            label("cause", "`plan`; `departure`: other pods of a PodGroup that is disrupted already, without a preemptor"),
            label("way", "`eviction`: by the Eviction API; `delete`: by deletion, after a budget that is not guaranteed refused the eviction"),
        ],
    );
    VIOLATIONS = About::counter(
        "giveway_operator_budget_violations_total",
        "Pods that were evicted although a PodDisruptionBudget, not guaranteed against this preemptor, refused the eviction",
        &[PREEMPTOR_CLASS, VICTIM_CLASS],
    );
    GUARANTEED = About::counter(
        "giveway_operator_guaranteed_refusals_total",
        "How often a guaranteed PodDisruptionBudget prevented a preemption",
        &[label("by", "`planner`: the planner made no plan; `eviction_api`: the Eviction API refused an eviction, and the plan was cancelled")],
    );
    CALLS = About::counter(
        "giveway_operator_api_calls_total",
        "Writes to the API server, by action and result",
        &[label("call", "the action, such as `evict`"), label("result", "`ok`, `error`")],
    );
    REQUESTS = About::counter(
        "giveway_operator_api_requests_total",
        "Requests to the API server, without watches",
        &[VERB, label("code", "status of the answer; `none` where there was no answer")],
    );
    REQUEST_SECONDS = About::histogram(
        "giveway_operator_api_request_duration_seconds",
        "Time until the API server began to answer a request, without watches",
        &[VERB],
    );
    UNREADABLE = About::counter(
        "giveway_operator_unreadable_objects_total",
        "Objects that could not be decoded, counted each time one was received",
        &[label("kind", "their kind")],
    );
    CERTIFICATES = About::gauge(
        "giveway_operator_certificate_expiry_timestamp_seconds",
        "When the webhook's certificate and its authority expire, in seconds since 1970; of the leader, where the operator makes them",
        &[label("certificate", "`leaf`, `authority`")],
    );
    CRITICAL_WAITING = About::gauge("giveway_operator_critical_addons_waiting", "Critical add-ons that are Unschedulable", &[]);
    RESCUES = About::counter(
        "giveway_operator_rescues_total",
        "Plans that free a node for a critical add-on, by step",
        &[label("step", "step of the choice of a node, from `1` to `3`")],
    );
    RESCUE_SECONDS = About::histogram(
        "giveway_operator_rescue_seconds",
        "Time from Unschedulable to bound of critical add-ons for which a pod was evicted",
        &[],
    );
    TAINTED = About::gauge("giveway_operator_tainted_nodes", "Nodes that Giveway reserves with a taint for critical add-ons", &[]);
    PASS_SECONDS = About::histogram(
        "giveway_operator_pass_duration_seconds",
        "Time of a pass, in which the operator applies changes, decides and requests calls; at least four passes are made in a second, also by \
         operators that do not lead, unless a pass takes longer",
        &[],
    );
    QUEUE_DEPTH = About::gauge("giveway_operator_queue_depth", "Number of entries in a queue", &[QUEUE]);
    QUEUE_AGE = About::gauge(
        "giveway_operator_queue_age_seconds",
        "For how long the oldest entry of a queue has been waiting; of `inputs`, for how long every pass has left some",
        &[QUEUE],
    );
    STATUSES_WAITING = About::gauge(
        "giveway_operator_statuses_waiting",
        "PodGroups whose status has changed and is not written yet, counted every two seconds by the leader",
        &[],
    );
    WATCH_EVENT_AGE = About::gauge(
        "giveway_operator_watch_event_age_seconds",
        "Time since the watch of a kind delivered something. A kind whose objects do not change has an old event and a working watch",
        &[label("kind", "the kind that is watched")],
    );
    PREEMPTIONS = About::gauge(
        "giveway_operator_preemptions_in_flight",
        "Plans with victims, and departures, by cause and stage, counted every two seconds by the leader",
        &[
            label("cause", "as in `spec.cause` of a Preemption"),
            label("stage", "`Planned`, `Evicting`, `WaitingForVictims`, `Ungating`"),
        ],
    );
    EVICTED_NOT_BOUND = About::counter(
        "giveway_operator_evicted_not_bound_total",
        "Plans that evicted pods and ended before every placed pod was bound, although their preemptor still exists",
        &[PREEMPTOR_CLASS],
    );
    REHEARSALS = About::counter(
        "giveway_operator_rehearsals_total",
        "Rehearsals of plans: dry runs of the calls that could be rejected, before the first eviction",
        &[label(
            "outcome",
            "`passed`; `refused`: by a PodDisruptionBudget; `rejected`: by a policy, a webhook, RBAC or a quota",
        )],
    );
    BANS = About::gauge(
        "giveway_operator_bans",
        "Bans that are in force, after a rejected eviction or a pod that was not bound",
        &[label(
            "ban",
            "`victim`: a pod that is not evicted; `node`: a node for which no pod is evicted for a certain pod or controller",
        )],
    );
    BREAKERS = About::gauge(
        "giveway_operator_breakers_open",
        "Circuit breakers that are open: plans evicted pods, and their preemptors were not bound. Counted every two seconds by the leader",
        &[label(
            "kind",
            "`preemptor`: no pod is evicted for a certain preemptor; `namespace`: for any preemptor of a certain namespace, or for one at a time; \
             `cluster`: for any preemptor, or for one at a time",
        )],
    );
}

/// Returns the upper limits of the buckets of the histogram `about`, in seconds, ascending.
pub(super) fn buckets(about: &About) -> Vec<f64> {
    match *about {
        DECISION_SECONDS => exponential_buckets(0.000_1, 4.0, 10).collect(),
        PASS_SECONDS => exponential_buckets(0.001, 4.0, 9).collect(),
        RESCUE_SECONDS => exponential_buckets(1.0, 2.0, 12).collect(),
        REQUEST_SECONDS => vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
        // From one second to one day.
        _ => {
            vec![1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0]
        }
    }
}
