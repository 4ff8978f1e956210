//! What a standby does in a pass: it keeps the model up to date, so that it decides as soon as it leads.
//!
//! It makes no call: [`observe`] has no access to the actuator, and nothing that it calls returns a command.
//!
//! A new leader keeps what it observed as a standby:
//! * the model, with marks of preempted pods, recent preemptions by kube-scheduler, the outages of nodes, and the pods whose PodGroup is not
//!   known yet: these are facts about objects, and a list at the beginning of the term would show fewer of them;
//! * how fast kube-scheduler works, and whether it runs;
//! * which gangs have had enough bound members: afterwards the objects do not always show it.
//!
//! Everything else begins with the term: stored plans and departures, which are listed after the Lease was acquired, and with them bans,
//! circuit breakers and the evictions of the last minute; calls and their retries; queued preemptors; what was published or written as a
//! status; and each time limit after which the operator acts, because the earlier leader may just have acted.

use crate::clock::Clock;
use crate::config::Config;
use crate::gangs::partial::PartialGangs;
use crate::model::Model;

/// Seconds by which a preemption may be older than the Lease of the leader that handled it: until another process leads and has listed the
/// stored plans.
const HANDLED: u64 = 60;

/// Updates the model and what is known about partially scheduled gangs in a standby. It must be called only while the model is up to date.
pub(super) fn observe(model: &mut Model, partial_gangs: &mut PartialGangs, config: &Config, clock: Clock) {
    model.close_outdated_marks(clock.epoch_seconds);
    partial_gangs.note(model, &model.touched, clock.now);
    let unhandled = config.lease_duration_seconds.saturating_add(HANDLED);
    model.drop_changes(clock.epoch_seconds, i64::try_from(unhandled).unwrap_or(i64::MAX));
}
