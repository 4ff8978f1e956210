//! The API calls of each command, and the report that the real actuator returns for their answers.

use crate::simulation::evictions::is_for_budget;
use crate::simulation::object::{Kind, set_condition, terminating, text, uid};
use crate::simulation::server::{Request, Server, refusal};
use giveway_crds::keys;
use giveway_crds::preemption::{PART_BYTES, parts_of};
use giveway_operator::messages::command::{Command, EvictCall, EvictOutcome};
use giveway_operator::messages::report::{CallError, MemberCall, Report};
use giveway_tests::audit::OPERATOR;
use kube::core::Status;
use serde_json::{Value, json};

/// The result of a call.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The command continues with its next call.
    Next,
    /// The command is complete.
    Done,
    /// An eviction ended.
    Evicted(EvictOutcome),
    /// The command failed.
    Failed(CallError),
}

/// Converts an error of the API server as the actuator does.
pub fn error(status: Box<Status>) -> CallError {
    CallError::from(kube::Error::Api(status))
}

fn reply(result: Result<(), Box<Status>>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(status) => Reply::Failed(error(status)),
    }
}

/// Makes the call with this number of a command.
pub fn execute(server: &mut Server, command: &Command, step: usize, version: Option<&str>) -> Reply {
    match command {
        Command::Nominate { pod, uid: of, rehearsal: true, .. }
        | Command::Ungate { pod, uid: of, rehearsal: true, .. } => match server.get(Kind::Pod, &pod.name) {
            Some(pod) if uid(pod) == *of => Reply::Done,
            _ => Reply::Failed(CallError::Gone),
        },
        Command::Nominate { pod, uid, node, .. } => {
            let body = json!({"metadata": {"uid": uid.as_str()}, "status": {"nominatedNodeName": node.as_deref()}});
            reply(server.patch(patch(Kind::Pod, &pod.name, "status", body)))
        }
        Command::Ungate { pod, uid, .. } => {
            let body = json!({"metadata": {"uid": uid.as_str()}, "spec": {"schedulingGates": Value::Null}});
            reply(server.patch(patch(Kind::Pod, &pod.name, "", body)))
        }
        Command::Evict(call) => evict(server, call, step, version),
        Command::WriteGroupStatus { group, uid, from, to, .. } => {
            let mut status = serde_json::to_value(to.as_ref()).expect("a status");
            // The guard may have added marks meanwhile: only those are removed that the operator knew.
            let stored = server.get(Kind::Group, &group.name).and_then(|group| group.pointer("/status/preemptedPods"));
            let mut marks = stored.and_then(Value::as_object).cloned().unwrap_or_default();
            marks.retain(|uid, _| to.preempted_pods.contains_key(uid) || !from.preempted_pods.contains_key(uid));
            status["preemptedPods"] = Value::Object(marks);
            let body = json!({"metadata": {"uid": uid.as_str()}, "status": status});
            reply(server.write_status(patch(Kind::Group, &group.name, "status", body)))
        }
        Command::StorePlan { plan, status, .. } => {
            let parts = parts_of(plan, PART_BYTES);
            let Some(part) = parts.get(step) else { return write_plan(server, &plan.id, status) };
            let object = serde_json::to_value(part).expect("a plan");
            let name = text(&object, "/metadata/name").to_owned();
            match server.create(OPERATOR, Kind::Preemption, object.clone()) {
                Ok(()) => Reply::Next,
                Err(_) if server.get(Kind::Preemption, &name).is_some_and(|it| it["spec"] == object["spec"]) => {
                    Reply::Next
                }
                Err(_) => Reply::Failed(CallError::Failed(format!("another Preemption has the name {name}"))),
            }
        }
        Command::WritePlan { plan, status, .. } => write_plan(server, plan, status),
        Command::ForgetPlan { name, uid: known } => {
            if server.get(Kind::Preemption, name).is_some_and(|plan| uid(plan) == known) {
                server.delete(OPERATOR, Kind::Preemption, name);
            }
            Reply::Done
        }
        Command::Protect { group, uid: known, protect } => {
            let Some(found) = server.get(Kind::Group, &group.name).filter(|group| uid(group) == known) else {
                return Reply::Failed(CallError::Gone);
            };
            if *protect && terminating(found) {
                return reply(Err(refusal(422, "metadata.finalizers: no new finalizers can be added")));
            }
            let list = if *protect { json!([keys::FINALIZER_PROTECTION]) } else { json!([]) };
            server.change(Kind::Group, &group.name, |group| group["metadata"]["finalizers"] = list);
            Reply::Done
        }
        // The simulation does not use the results of these calls.
        Command::WriteWorkloadStatus { .. }
        | Command::ReleaseNode { .. }
        | Command::BackFill { .. }
        | Command::CreateGroup(_)
        | Command::DeleteGroup { .. }
        | Command::ReadOwner(_)
        | Command::ReadFailures { .. }
        | Command::RequestCapacity(_)
        | Command::WithdrawRequest { .. }
        | Command::MakePlaceholder(_)
        | Command::RemovePlaceholder { .. }
        | Command::SetMinCount { .. }
        | Command::AdoptGroup { .. }
        | Command::Taint { .. }
        | Command::ReadSchedulerLease(_)
        | Command::Publish(_) => Reply::Done,
    }
}

fn patch<'r>(kind: Kind, name: &'r str, subresource: &'r str, body: Value) -> Request<'r> {
    Request { user: OPERATOR, verb: "patch", kind, name, subresource, body }
}

fn write_plan(server: &mut Server, plan: &str, status: &giveway_crds::preemption::PreemptionStatus) -> Reply {
    let body = json!({ "status": status });
    reply(server.patch(patch(Kind::Preemption, plan, "status", body)))
}

/// Makes the calls of an eviction: read the pod if an earlier call failed, evict it, and, if deletion is permitted although a budget
/// refuses the eviction, write the condition and delete the pod.
fn evict(server: &mut Server, call: &EvictCall, step: usize, version: Option<&str>) -> Reply {
    let name = call.pod.name.as_str();
    match step {
        0 if call.rehearsal => match server.evict(OPERATOR, (name, &call.uid, None), call.grace, None, true) {
            Ok(()) => Reply::Evicted(EvictOutcome::Allowed),
            Err(status) if is_for_budget(&status) && call.may_force => Reply::Evicted(EvictOutcome::Allowed),
            Err(status) if is_for_budget(&status) => Reply::Evicted(EvictOutcome::Refused(status.message)),
            Err(status) => Reply::Failed(error(status)),
        },
        0 if call.again => match server.get(Kind::Pod, name) {
            None => Reply::Failed(CallError::Gone),
            Some(pod) if uid(pod) != call.uid => Reply::Evicted(EvictOutcome::Gone),
            Some(pod) if terminating(pod) => Reply::Evicted(EvictOutcome::Accepted),
            Some(_) => Reply::Next,
        },
        0 | 1 => match server.evict(OPERATOR, (name, &call.uid, version), call.grace, Some(call.cause.id()), false) {
            Ok(()) => Reply::Evicted(EvictOutcome::Accepted),
            Err(status) if is_for_budget(&status) && call.may_force => Reply::Next,
            Err(status) if is_for_budget(&status) => Reply::Evicted(EvictOutcome::Refused(status.message)),
            Err(status) => not_evicted(status),
        },
        2 => mark(server, call),
        _ => match server.delete_pod_within(OPERATOR, (name, &call.uid, version), call.grace) {
            Ok(()) => Reply::Evicted(EvictOutcome::Forced),
            Err(status) => not_evicted(status),
        },
    }
}

/// A pod that has changed since it was read is read again.
fn not_evicted(status: Box<Status>) -> Reply {
    match status.message.contains("ResourceVersion in precondition") {
        true => Reply::Failed(CallError::Unanswered(status.message)),
        false => Reply::Failed(error(status)),
    }
}

/// Writes the condition with the preemptor to the pod.
fn mark(server: &mut Server, call: &EvictCall) -> Reply {
    let time = server.time();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": call.message.to_string(), "lastTransitionTime": time
    });
    let found = server.get(Kind::Pod, &call.pod.name);
    if found.is_none_or(|pod| uid(pod) != call.uid) {
        return Reply::Failed(CallError::Gone);
    }
    let body = json!({"status": {"conditions": [condition.clone()]}});
    server.change(Kind::Pod, &call.pod.name, |pod| set_condition(pod, condition));
    server.log(patch(Kind::Pod, &call.pod.name, "status", body), 200, None);
    match server.get(Kind::Pod, &call.pod.name) {
        Some(pod) if terminating(pod) => Reply::Evicted(EvictOutcome::Accepted),
        _ => Reply::Next,
    }
}

/// Returns the version of the pod that an eviction has just read or written, if that is a precondition of its next calls.
pub fn version_after(server: &Server, command: &Command, step: usize) -> Option<String> {
    let Command::Evict(call) = command else { return None };
    let pod = server.get(Kind::Pod, &call.pod.name).filter(|_| call.again && step != 1)?;
    Some(text(pod, "/metadata/resourceVersion").to_owned())
}

/// Returns the number of a command's first call: the first attempt of an eviction does not read the pod.
pub fn first_step(command: &Command) -> usize {
    match command {
        Command::Evict(call) if !call.again && !call.rehearsal => 1,
        _ => 0,
    }
}

/// Returns the report of the actuator about a command with this result; `None` if the operator expects no report.
pub fn report(command: Command, reply: Reply) -> Option<Report> {
    let key = command.key();
    let result = match &reply {
        Reply::Failed(error) => Err(error.clone()),
        _ => Ok(()),
    };
    Some(match command {
        Command::Nominate { node: None, .. } | Command::Publish(_) => return None,
        Command::Nominate { preemptor, plan, uid, rehearsal, .. } => {
            Report::Member { preemptor, plan, uid, call: MemberCall::Nominate, rehearsal, result }
        }
        Command::Ungate { preemptor, plan, uid, rehearsal, .. } => {
            Report::Member { preemptor, plan, uid, call: MemberCall::Ungate, rehearsal, result }
        }
        Command::Evict(call) => {
            let outcome = match reply {
                Reply::Evicted(outcome) => outcome,
                Reply::Failed(CallError::Gone) => EvictOutcome::Gone,
                Reply::Failed(CallError::Unanswered(why)) => EvictOutcome::Unanswered(why),
                Reply::Failed(CallError::Rejected(words)) => EvictOutcome::Rejected(words),
                Reply::Failed(error) => EvictOutcome::Error(error.to_string()),
                Reply::Next | Reply::Done => EvictOutcome::Accepted,
            };
            Report::Evicted { cause: call.cause, pod: call.pod, uid: call.uid, rehearsal: call.rehearsal, outcome }
        }
        Command::WriteGroupStatus { group, to, .. } => Report::GroupStatus { group, status: to, result },
        Command::StorePlan { plan, status, .. } => Report::Plan { plan: plan.id, status, result },
        Command::WritePlan { plan, status, .. } => Report::Plan { plan, status, result },
        Command::BackFill { pod, uid, correction } => {
            Report::BackFilled { pod, uid, result: result.map(|()| correction) }
        }
        Command::Taint { node, uid, add, plan, .. } => Report::Taint { node, uid, add, plan, result },
        Command::ReadSchedulerLease(_) => Report::SchedulerLease(result.map(|()| None)),
        Command::Protect { .. }
        | Command::ForgetPlan { .. }
        | Command::WriteWorkloadStatus { .. }
        | Command::ReleaseNode { .. }
        | Command::CreateGroup(_)
        | Command::DeleteGroup { .. }
        | Command::SetMinCount { .. }
        | Command::AdoptGroup { .. } => Report::Answered { call: key?, result },
        // The simulation has no autoscaler, and no controllers that write events.
        Command::ReadFailures { .. }
        | Command::RequestCapacity(_)
        | Command::WithdrawRequest { .. }
        | Command::MakePlaceholder(_)
        | Command::RemovePlaceholder { .. } => return None,
        Command::ReadOwner(owner) => Report::Owner { owner, result: Err(CallError::Gone) },
    })
}

/// Describes the command in a few words, for the trace.
pub fn describe(command: &Command) -> String {
    match command {
        Command::Nominate { pod, node, .. } => format!("nominate {} to {}", pod.name, node.as_deref().unwrap_or("-")),
        Command::Ungate { pod, .. } => format!("ungate {}", pod.name),
        Command::Evict(call) if call.rehearsal => format!("rehearse the eviction of {}", call.pod.name),
        Command::Evict(call) => {
            let (again, force) =
                (if call.again { " again" } else { "" }, if call.may_force { ", by force" } else { "" });
            format!("evict {} ({}) for {}{again}{force}", call.pod.name, call.uid, call.cause)
        }
        Command::StorePlan { plan, .. } => {
            let victims: Vec<&str> =
                plan.victims.iter().flat_map(|unit| &unit.pods).map(|pod| pod.name.as_str()).collect();
            let places: Vec<String> =
                plan.placements.iter().map(|place| format!("{} on {}", place.pod, place.node)).collect();
            format!("store plan {}: {} for {}", plan.id, victims.join(" "), places.join(", "))
        }
        Command::WritePlan { plan, status, .. } => format!("write plan {plan}: {:?}, {}", status.state, status.message),
        Command::WriteGroupStatus { group, to, .. } => {
            let summary = to.preemption.as_ref().map(|plan| format!(", {} {:?}", plan.name, plan.state));
            format!("write status of {}{}", group.name, summary.unwrap_or_default())
        }
        Command::Publish(notice) => format!("event on {} {}: {}", notice.kind, notice.key.name, notice.note),
        Command::Protect { group, protect, .. } => format!("finalizer of {}: {protect}", group.name),
        Command::ForgetPlan { name, .. } => format!("forget plan {name}"),
        other => format!("{other:?}"),
    }
}
