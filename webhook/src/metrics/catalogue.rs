//! Every metric of the webhook: its name, help text and label values. docs/reference/metrics.md is generated from this list, and
//! dashboard and alerting rules are checked against it.

use giveway_serving::metrics::{About, Label, build_info, label};

const ENDPOINT: Label = label("endpoint", "`mutate`, `templates`, `validate`");
const KIND: Label = label("kind", "the objects, such as `pods` or `podgroups`; `other` for those without a rule");

pub(super) const BUILD: About = build_info("giveway_webhook_build_info");
pub(super) const READY: About =
    About::gauge("giveway_webhook_ready", "Whether the webhook is ready, as /readyz reports it: 1 or 0", &[]);
pub(super) const REQUESTS: About = About::counter(
    "giveway_webhook_requests_total",
    "Admission requests by verdict",
    &[
        ENDPOINT,
        KIND,
        label("operation", "`CREATE`, `UPDATE`, `DELETE`, `CONNECT`"),
        label("allowed", "`true`, `false`"),
        label("code", "`200`, or the status code of the rejection"),
    ],
);
pub(super) const SECONDS: About =
    About::histogram("giveway_webhook_request_duration_seconds", "Time to a verdict", &[ENDPOINT, KIND]);
pub(super) const UNDECODABLE: About =
    About::counter("giveway_webhook_undecodable_requests_total", "Requests that were not admission reviews", &[]);
pub(super) const PANICS: About =
    About::counter("giveway_webhook_panics_total", "Panics of rules, each answered with a rejection", &[]);
pub(super) const LOOKUPS: About = About::counter(
    "giveway_webhook_lookups_total",
    "Objects that were looked up because no watch had delivered them yet",
    &[],
);
pub(super) const CERTIFICATE: About = About::gauge(
    "giveway_webhook_certificate_expiry_timestamp_seconds",
    "When the certificate in use expires, in seconds since 1970; 0 while there is none",
    &[],
);
pub(super) const RELOADS: About = About::counter(
    "giveway_webhook_certificate_reloads_total",
    "Attempts to use a new certificate",
    &[label("result", "`success`, `failure`")],
);
pub(super) const WATCH_BROKEN: About = About::gauge(
    "giveway_webhook_watch_broken_seconds",
    "For how long a watch has been broken, so that the webhook may have old objects; 0 while it works",
    &[label("watch", "what is watched, such as `podgroups`")],
);
pub(super) const BODY_BYTES: About =
    About::gauge("giveway_webhook_body_bytes", "Bytes that are reserved for request bodies above 32 KiB", &[]);
pub(super) const NO_ROOM: About = About::counter(
    "giveway_webhook_bodies_without_room_total",
    "Requests that were rejected because memory for their body was not free in time",
    &[],
);
pub(super) const CONNECTIONS: About = About::gauge("giveway_webhook_connections", "Open connections", &[]);
pub(super) const CLOSED: About = About::counter(
    "giveway_webhook_connections_closed_for_room_total",
    "Unfinished requests and idle connections that were closed so that others could be served",
    &[],
);
pub(super) const HANDSHAKES: About =
    About::counter("giveway_webhook_handshake_failures_total", "TLS handshakes that failed or timed out", &[]);
pub(super) const GUARD_DECISIONS: About = About::counter(
    "giveway_webhook_guard_decisions_total",
    "Preemptions by kube-scheduler and other schedulers that the guard decided about, by decision",
    &[label("verdict", "`permitted`, `guaranteed_budget`, `no_preemptor`, `not_ready`")],
);
pub(super) const GUARD_DELAYED: About =
    About::gauge("giveway_webhook_guard_delayed_denials", "Rejections of the guard that are being delayed now", &[]);
pub(super) const GUARD_DELAYS: About =
    About::counter("giveway_webhook_guard_denials_delayed_total", "Rejections of the guard that were delayed", &[]);
pub(super) const GUARD_IMMEDIATE: About = About::counter(
    "giveway_webhook_guard_immediate_denials_total",
    "Rejections of the guard that were sent at once, because too many were being delayed",
    &[],
);
pub(super) const GUARD_CLAIMS: About = About::counter(
    "giveway_webhook_guard_claims_total",
    "Victims that the guard permitted and counted in the status of a PodDisruptionBudget, by result",
    &[label("result", "`made`, `not_needed`, `spent`, `failed`")],
);
pub(super) const GUARD_MARKS: About = About::counter(
    "giveway_webhook_guard_marks_total",
    "Permitted victims of PodGroups in mode `PodGroup` that were written into the status of the PodGroup, by result",
    &[label("result", "`made`, `failed`")],
);

/// All metrics of the webhook, without those that every process has.
pub const CATALOGUE: &[About] = &[
    BUILD,
    READY,
    REQUESTS,
    SECONDS,
    UNDECODABLE,
    PANICS,
    LOOKUPS,
    CERTIFICATE,
    RELOADS,
    WATCH_BROKEN,
    BODY_BYTES,
    NO_ROOM,
    CONNECTIONS,
    CLOSED,
    HANDSHAKES,
    GUARD_DECISIONS,
    GUARD_DELAYED,
    GUARD_DELAYS,
    GUARD_IMMEDIATE,
    GUARD_CLAIMS,
    GUARD_MARKS,
];
