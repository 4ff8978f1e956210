//! The processes of the operator: they elect a leader, observe changes, decide, and make calls that can fail.

use super::turns::evicts;
use super::{Event, World};
use crate::simulation::calls::{self, Reply, execute, first_step, report, version_after};
use crate::simulation::faults::Fault;
use crate::simulation::object::{Kind, text};
use crate::simulation::plot::Turn;
use crate::simulation::process::{Process, namespace, switched};
use crate::simulation::replica::{Call, Lease};
use giveway_operator::messages::command::{Command, EvictOutcome, EvictionCause};
use giveway_operator::messages::input::Input;
use giveway_operator::messages::report::CallError;

/// How long a Lease is valid without renewal, in milliseconds.
const LEASE: u64 = 15_000;
/// Time limit of one command, in milliseconds.
const CALL: u64 = 10_000;

impl World {
    /// Returns the process with this number if it is still running.
    fn process(&mut self, replica: usize, number: u32) -> Option<&mut Process> {
        let replica = &mut self.replicas[replica];
        replica.process.as_mut().filter(|_| replica.started == number)
    }

    pub fn boot(&mut self, replica: usize) {
        let it = &mut self.replicas[replica];
        if it.process.is_some() {
            return;
        }
        it.started += 1;
        it.observed = None;
        // Names of plans contain the end of the term, so no two terms may have the same end.
        let (term, number) = (format!("operator-{replica}{:07}", it.started), it.started);
        it.process = Some(Process::new(term.clone(), &self.config));
        self.say(&term, "starts");
        self.after(0, Event::Elect(replica, number));
        // The others lead before they have listed anything, like a process that has just been started.
        if number % 2 == 1 {
            self.after(50, Event::List(replica, number));
        }
    }

    /// Ends a process. Another one starts a moment later.
    fn end(&mut self, replica: usize, why: &str) {
        if let Some(process) = self.replicas[replica].process.take() {
            self.say(&process.term, format!("ends: {why}"));
            if process.deadline.is_some() {
                self.ended.push(self.now);
            }
            let soon = self.between(500, 8_000);
            self.after(soon, Event::Boot(replica));
        }
    }

    /// One round of the election, as in `lease.rs`.
    pub fn elect(&mut self, replica: usize, number: u32) {
        let (now, cut) = (self.now, self.cut_until() > self.now);
        let Some(process) = self.process(replica, number) else { return };
        if process.paused_until > now {
            let until = process.paused_until;
            return self.at(until, Event::Elect(replica, number));
        }
        let (led, term) = (process.deadline, process.term.clone());
        self.after(LEASE / 5, Event::Elect(replica, number));
        let ours = self.lease.as_ref().is_some_and(|lease| lease.holder == term);
        if cut {
            if led.is_some_and(|until| until <= now) {
                self.end(replica, "the lease could not be renewed in time");
            }
        } else if led.is_some() && (!ours || led.is_some_and(|until| until <= now)) {
            self.end(replica, "the lease was lost");
        } else if ours || self.lease_is_free(replica) {
            self.lease = Some(Lease { holder: term.clone(), renewed: now });
            if let Some(process) = self.process(replica, number) {
                process.deadline = Some(now + LEASE);
            }
            if led.is_none() {
                self.say(&term, "leads");
                let soon = self.between(10, 200);
                self.after(soon, Event::List(replica, number));
            }
        }
    }

    /// Returns true if the Lease has no holder, or no renewal was observed during its duration.
    fn lease_is_free(&mut self, replica: usize) -> bool {
        let Some(lease) = self.lease.clone() else { return true };
        let now = self.now;
        let observed = &mut self.replicas[replica].observed;
        let since = match observed {
            Some((seen, since)) if *seen == lease => *since,
            _ => {
                *observed = Some((lease, now));
                now
            }
        };
        now - since >= LEASE
    }

    pub fn list(&mut self, replica: usize, number: u32) {
        if self.cut_until() > self.now {
            let until = self.cut_until();
            return self.at(until, Event::List(replica, number));
        }
        let (now, protected) = (self.instant(), self.protected.iter().any(|(_, until)| *until > self.now));
        let replica_of = &mut self.replicas[replica];
        let Some(process) = replica_of.process.as_mut().filter(|_| replica_of.started == number) else { return };
        let starts = process.delivered.is_empty();
        if starts {
            process.list_cluster(&self.server, now);
            process.take(switched(self.mode), now);
            process.take(namespace(protected), now);
        }
        if process.deadline.is_some() && !process.watches(Kind::Preemption) {
            process.list(&self.server, Kind::Preemption, now);
            self.halves.begin_term(&self.server);
        }
        if starts {
            self.at(self.now, Event::Tick(replica, number));
        } else {
            self.stir(replica);
        }
    }

    /// Schedules the delivery of changes by the watches of a kind.
    pub fn tell_soon(&mut self, kind: Kind, upto: usize) {
        let lag = self.lag.get(&kind).copied().unwrap_or(0).max(self.now);
        for replica in 0..self.replicas.len() {
            let it = &self.replicas[replica];
            if it.process.as_ref().is_some_and(|process| !process.delivered.is_empty()) {
                let number = it.started;
                let late = if self.faults.percent(5) { self.between(50, 400) } else { self.between(1, 15) };
                self.at(lag + late, Event::Tell(replica, number, kind, upto));
            }
        }
    }

    pub fn tell(&mut self, replica: usize, number: u32, kind: Kind, upto: usize) {
        let (now, instant) = (self.now, self.instant());
        let late = self.cut_until().max(self.lag.get(&kind).copied().unwrap_or(0));
        let Some(process) = self.process(replica, number) else { return };
        let until = late.max(process.paused_until);
        if until > now {
            return self.at(until, Event::Tell(replica, number, kind, upto));
        }
        if let Some(process) = self.replicas[replica].process.as_mut() {
            process.tell(&self.server, kind, upto, instant);
        }
        self.stir(replica);
    }

    /// Schedules a pass of a process that has observed something.
    fn stir(&mut self, replica: usize) {
        let now = self.now;
        let it = &mut self.replicas[replica];
        let Some(process) = it.process.as_mut() else { return };
        process.busy = now;
        let number = it.started;
        if !std::mem::replace(&mut process.stirred, true) {
            self.after(5, Event::Pass(replica, number));
        }
    }

    pub fn pass(&mut self, replica: usize, number: u32, tick: bool) {
        let (now, mut clock, cut) = (self.now, self.clock(), self.cut_until() > self.now);
        clock.epoch_seconds += self.skew[replica];
        let Some(process) = self.process(replica, number) else { return };
        if process.paused_until > now {
            let until = process.paused_until;
            return self.at(until, if tick { Event::Tick(replica, number) } else { Event::Pass(replica, number) });
        }
        process.stirred &= tick;
        if cut {
            Kind::ALL.iter().for_each(|kind| process.watches.failed(kind.name().into(), clock.now));
        }
        let commands = process.pass(now, clock);
        if !commands.is_empty() {
            process.busy = now;
        }
        let (is_standby, term) = (process.deadline.is_none(), process.term.clone());
        // Without observations the timer fires less often.
        let next = if now - process.busy < 5_000 { 250 } else { 1_000 };
        if let Some(command) = commands.first().filter(|_| is_standby) {
            self.broken.push(format!("{} by {term}, which does not lead", calls::describe(command)));
        }
        self.dispatch(replica, number, commands);
        if tick {
            self.after(next, Event::Tick(replica, number));
        }
    }

    fn dispatch(&mut self, replica: usize, number: u32, commands: Vec<Command>) {
        for command in commands {
            let Some(process) = self.process(replica, number) else { return };
            let term = process.term.clone();
            self.requests.note(&command, self.now);
            self.judge_delay(&term, &command);
            if let Command::Publish(_) = command {
                self.say(&term, calls::describe(&command));
                continue;
            }
            let soon = if command.in_background() { self.between(1, 2_000) } else { self.between(0, 8) };
            let step = first_step(&command);
            let call = Call { replica, process: number, term, command, step, deadline: 0, late: false, version: None };
            self.after(soon, Event::Send(Box::new(call)));
        }
    }

    /// Sends a call, if its process may still make it and has not withdrawn it.
    pub fn send(&mut self, mut call: Box<Call>) {
        let (now, cut) = (self.now, self.cut_until() > self.now);
        let Some(process) = self.process(call.replica, call.process) else { return };
        if process.paused_until > now {
            let until = process.paused_until;
            return self.at(until, Event::Send(call));
        }
        let first = call.deadline == 0;
        if first || matches!(call.command, Command::StorePlan { .. }) {
            if let Command::Evict(eviction) = &call.command
                && eviction.permission.is_cancelled()
            {
                if !eviction.rehearsal {
                    let cause = eviction.cause.clone();
                    self.eviction_not_made(&cause);
                }
                return self.answer(call, Reply::Evicted(EvictOutcome::Withdrawn));
            }
            if let Command::Evict(eviction) = &call.command {
                let listened = now - process.paused_until.min(now) > 1_000;
                let protected = |(from, until): &(u64, u64)| from + 1_000 < now && now < *until;
                if listened && !eviction.rehearsal && self.protected.iter().any(protected) {
                    let message = format!("{}: the namespace is protected", calls::describe(&call.command));
                    return self.broken.push(message);
                }
            }
            let Some(process) = self.process(call.replica, call.process) else { return };
            let Some(until) = process.deadline.filter(|until| *until > now) else {
                return self.answer(call, Reply::Failed(CallError::NotLeader));
            };
            call.deadline = until.min(now + CALL);
        }
        if cut {
            let failed = Reply::Failed(CallError::Unanswered("the API server cannot be reached".into()));
            let later = call.deadline.min(now + 1_000);
            return self.at(later, Event::Answer(call, failed));
        }
        let there = self.between(1, 12);
        self.after(there, Event::Arrive(call));
    }

    /// Handles the arrival of a call at the API server unless a fault occurs, and schedules the response.
    pub fn arrive(&mut self, mut call: Box<Call>) {
        if call.late && self.process(call.replica, call.process).is_none() {
            return;
        }
        let overload = self.is_rejected_as_overload(&call.command).then_some(Fault::Overloaded);
        let fault = self.faults.draw(self.now).or(overload);
        let what = calls::describe(&call.command);
        if let Some(fault) = fault {
            self.say(&call.term, format!("{what} [{}]: {}", call.step, fault.name()));
            if let Command::Evict(eviction) = &call.command
                && !eviction.rehearsal
            {
                self.thwarted.insert(eviction.uid.to_string(), self.now);
            }
            if fault == Fault::Late {
                let late = self.faults.between(200, 8_000);
                if self.now + late < call.deadline {
                    call.late = true;
                    return self.after(late, Event::Arrive(call));
                }
            }
        }
        if self.ends_at_call(&call, true) {
            return;
        }
        let failed = |why: &str| Reply::Failed(CallError::Failed(why.to_owned()));
        let unanswered = |why: &str| Reply::Failed(CallError::Unanswered(why.to_owned()));
        let real = match fault {
            Some(fault) if !fault.is_made() => None,
            _ => Some(self.make(&call, &what)),
        };
        if let Some(Reply::Next) = real {
            call.version = version_after(&self.server, &call.command, call.step).or(call.version.take());
        }
        let mut late = self.between(1, 12);
        let reply = match (fault, real) {
            (None | Some(Fault::Late), Some(reply)) => reply,
            (Some(Fault::AnswerLate), Some(reply)) => {
                late = self.faults.between(200, 12_000);
                reply
            }
            (Some(Fault::Overloaded), _) => unanswered("too many requests (429)"),
            (Some(Fault::Error | Fault::ErrorAfterwards), _) => failed("etcdserver: request timed out (500)"),
            (Some(Fault::Conflict), _) => failed("the object has been modified (409)"),
            _ => {
                late = if self.faults.percent(50) { late } else { CALL };
                unanswered("connection reset")
            }
        };
        if self.ends_at_call(&call, false) {
            return;
        }
        let (at, reply) = match self.now + late {
            at if at < call.deadline => (at, reply),
            _ => (call.deadline, unanswered("no answer in time")),
        };
        self.at(at, Event::Answer(call, reply));
    }

    /// Returns true if the process crashes at this call.
    fn ends_at_call(&mut self, call: &Call, before: bool) -> bool {
        match &mut self.crash {
            Some((0, at)) if *at == before => {
                self.crash = None;
                if self.process(call.replica, call.process).is_some() {
                    self.end(call.replica, if before { "before a call" } else { "after a call" });
                }
                true
            }
            Some((left, _)) if *left > 0 && before => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    /// Carries out a call in the API server.
    fn make(&mut self, call: &Call, what: &str) -> Reply {
        self.calls += 1;
        if let Command::Evict(eviction) = &call.command
            && !eviction.rehearsal
        {
            self.check_eviction(call, &eviction.cause);
            if let EvictionCause::Departure { group, id } = &eviction.cause
                && self.cause_of(id) == giveway_crds::plan::Cause::PartiallyScheduled.as_str()
            {
                self.broken.extend(self.halves.ask(&self.server, &group.name, &eviction.uid, self.now));
            }
        }
        let reply = match self.denied(call) {
            Some(reply) => reply,
            None => execute(&mut self.server, &call.command, call.step, call.version.as_deref()),
        };
        let answer = match &reply {
            Reply::Done | Reply::Next => String::new(),
            Reply::Evicted(outcome) => format!(" → {outcome:?}"),
            Reply::Failed(error) => format!(" → {error}"),
        };
        self.say(&call.term, format!("{what}{answer}"));
        if let (Command::Evict(eviction), Reply::Evicted(EvictOutcome::Accepted | EvictOutcome::Forced)) =
            (&call.command, &reply)
        {
            match &eviction.cause {
                EvictionCause::Departure { id, .. } => {
                    let cause = self.cause_of(id).to_owned();
                    *self.departed.entry(cause).or_default() += 1;
                }
                EvictionCause::Plan { .. } => {
                    self.judge_denial(eviction);
                    self.interrupt(eviction);
                }
            }
        }
        reply
    }

    /// Returns the cause in a stored `Preemption`.
    fn cause_of(&self, id: &str) -> &str {
        self.server.get(Kind::Preemption, id).map_or("", |stored| text(stored, "/spec/cause"))
    }

    /// Promise 4: an eviction is requested only while its `Preemption` is stored, of this term and in flight.
    fn check_eviction(&mut self, call: &Call, cause: &EvictionCause) {
        let id = cause.id();
        // Units that were already disrupted are evicted completely after an administrator deletes the Preemption.
        if self.deleted.iter().any(|plan| plan.name == id) {
            return;
        }
        let Some(plan) = self.server.get(Kind::Preemption, id) else {
            return self.broken.push(format!("{}: the plan is not stored", calls::describe(&call.command)));
        };
        let finishes = self.cause_of(id) == giveway_crds::plan::Cause::PartiallyDisrupted.as_str();
        if !self.mode.evicts() && !self.begun.contains(id) && !finishes {
            let message = format!("{} by {}: Giveway only observes", calls::describe(&call.command), call.term);
            return self.broken.push(message);
        }
        let (term, state) = (text(plan, "/status/term"), text(plan, "/status/state"));
        if term != call.term || !evicts(plan) {
            let what = calls::describe(&call.command);
            let message = format!("{what} by {}: the plan is stored as {state:?} of term {term:?}", call.term);
            self.broken.push(message);
        }
    }

    /// Delivers an answer to the process that made the call, if it is still running.
    pub fn answer(&mut self, mut call: Box<Call>, reply: Reply) {
        let (now, instant) = (self.now, self.instant());
        let Some(process) = self.process(call.replica, call.process) else { return };
        if process.paused_until > now {
            let until = process.paused_until;
            return self.at(until, Event::Answer(call, reply));
        }
        if let Reply::Next = reply {
            call.step += 1;
            return self.send(call);
        }
        let (replica, number) = (call.replica, call.process);
        let Some(report) = report(call.command, reply) else { return };
        process.take(Input::Report(report), instant);
        let commands = process.commands();
        self.dispatch(replica, number, commands);
        self.stir(replica);
    }

    /// Applies a fault of a process or watch.
    pub fn trouble(&mut self, turn: &Turn) {
        let now = self.now;
        match turn {
            Turn::Crash(replica) => self.end(*replica, "it crashes"),
            Turn::Stop(replica) => {
                let holder = self.replicas[*replica].process.as_ref().map(|process| process.term.clone());
                if self.lease.as_ref().map(|lease| &lease.holder) == holder.as_ref() {
                    self.lease = None;
                }
                self.end(*replica, "it is stopped");
            }
            Turn::Pause(replica, time) => {
                if let Some(process) = self.replicas[*replica].process.as_mut() {
                    process.paused_until = now + time;
                }
            }
            Turn::Lag(kind, time) => drop(self.lag.insert(*kind, now + time)),
            Turn::Relist(kind) => {
                let instant = self.instant();
                for replica in 0..self.replicas.len() {
                    if let Some(process) = self.replicas[replica].process.as_mut().filter(|it| it.watches(*kind)) {
                        process.list(&self.server, *kind, instant);
                        self.stir(replica);
                    }
                }
            }
            Turn::Cut(time) => self.cuts.push((now, now + time)),
            Turn::CrashAtCall(after, before) => self.crash = Some((*after, *before)),
            _ => {}
        }
    }
}
