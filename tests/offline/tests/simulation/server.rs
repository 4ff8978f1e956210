//! The API server: objects, versions, changes for watches, and the audit log. Requests are carried out at once; the
//! world simulates their transit times.

use crate::simulation::object::{Kind, merge, terminating, text, uid};
use giveway_tests::audit::log::{Line, ObjectRef, Status as Answered, User};
use jiff::Timestamp;
use kube::core::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Start time of every simulation, in seconds since the epoch.
pub const EPOCH: i64 = 1_767_225_600;

/// Returns the time after this number of milliseconds.
pub fn time_of(milliseconds: u64) -> Timestamp {
    Timestamp::from_millisecond(EPOCH * 1_000 + milliseconds as i64).expect("a time")
}

/// A change of an object.
#[derive(Clone)]
pub struct Change {
    pub name: String,
    /// The object after the change; `None` if it was removed.
    pub object: Option<Rc<Value>>,
}

/// A request, as the audit log records it.
pub struct Request<'r> {
    pub user: &'r str,
    pub verb: &'r str,
    pub kind: Kind,
    pub name: &'r str,
    pub subresource: &'r str,
    pub body: Value,
}

/// The API server.
#[derive(Default)]
pub struct Server {
    objects: BTreeMap<(Kind, String), Rc<Value>>,
    changes: BTreeMap<Kind, Vec<Change>>,
    /// The lines of the audit log that the audit reads.
    pub audit: Vec<Line>,
    /// Milliseconds since the start.
    pub now: u64,
    /// Time of the last write, in milliseconds.
    pub written: u64,
    version: u64,
    uids: u64,
    micros: i64,
}

/// Returns the status of an answer as the audit log records it: this code, or code and message of the error.
pub fn answered<T>(result: &Result<T, Box<Status>>, code: u16) -> Answered {
    match result {
        Ok(_) => Answered { code, message: String::new() },
        Err(status) => Answered { code: status.code, message: status.message.clone() },
    }
}

/// Returns the error of a rejected request.
pub fn refusal(code: u16, message: impl Into<String>) -> Box<Status> {
    Box::new(Status { code, message: message.into(), ..Status::default() })
}

impl Server {
    /// Returns the wall-clock time.
    pub fn time(&self) -> String {
        Timestamp::from_second(self.second()).expect("a time").to_string()
    }

    /// Returns the wall-clock time, in seconds since the epoch.
    pub fn second(&self) -> i64 {
        EPOCH + (self.now / 1000) as i64
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<&Rc<Value>> {
        self.objects.get(&(kind, name.to_owned()))
    }

    /// Returns all objects of a kind, sorted by name.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Rc<Value>> {
        let all = self.objects.range((kind, String::new())..);
        all.take_while(move |((of, _), _)| *of == kind).map(|(_, object)| object)
    }

    pub fn pod_of_uid(&self, wanted: &str) -> Option<&Rc<Value>> {
        self.list(Kind::Pod).find(|pod| uid(pod) == wanted)
    }

    /// Returns all changes of the objects of a kind.
    pub fn changes(&self, kind: Kind) -> &[Change] {
        self.changes.get(&kind).map_or(&[], Vec::as_slice)
    }

    /// Creates an object. The server sets its UID, version and creation time.
    pub fn create(&mut self, user: &str, kind: Kind, mut object: Value) -> Result<(), Box<Status>> {
        let name = text(&object, "/metadata/name").to_owned();
        if self.get(kind, &name).is_some() {
            return Err(refusal(409, format!("{} {name} already exists", kind.name())));
        }
        self.uids += 1;
        let time = self.time();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.insert("uid".into(), json!(format!("uid-{}", self.uids)));
        metadata.insert("creationTimestamp".into(), json!(time));
        metadata.insert("generation".into(), json!(1));
        if !kind.namespace().is_empty() {
            metadata.insert("namespace".into(), json!(kind.namespace()));
        }
        object["kind"] = json!(kind.name());
        if kind.resource().1.contains('.') {
            object["apiVersion"] = json!(format!("{}/v1alpha1", kind.resource().1));
        }
        self.put(kind, &name, object);
        let request = Request { user, verb: "create", kind, name: &name, subresource: "", body: Value::Null };
        let answer = self.get(kind, &name).cloned();
        self.log(request, 201, answer.as_deref());
        Ok(())
    }

    /// Changes some fields of an existing object.
    pub fn change(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(object) = self.get(kind, name) else { return };
        let mut object = Value::clone(object);
        change(&mut object);
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        if kind != Kind::Pod && terminating(&object) && finalizers.is_none_or(Vec::is_empty) {
            self.remove(kind, name);
        } else {
            self.put(kind, name, object);
        }
    }

    /// Applies a merge patch with the UID as a precondition.
    pub fn patch(&mut self, request: Request<'_>) -> Result<(), Box<Status>> {
        self.write(request, merge)
    }

    /// Replaces the status, with the UID as a precondition.
    pub fn write_status(&mut self, request: Request<'_>) -> Result<(), Box<Status>> {
        self.write(request, |object, body| object["status"] = body["status"].clone())
    }

    fn write(&mut self, request: Request<'_>, change: fn(&mut Value, &Value)) -> Result<(), Box<Status>> {
        let (kind, name) = (request.kind, request.name);
        let Some(object) = self.get(kind, name) else {
            return Err(refusal(404, format!("{} {name} not found", kind.name())));
        };
        let wanted = text(&request.body, "/metadata/uid");
        if !wanted.is_empty() && wanted != uid(object) {
            return Err(refusal(409, "Precondition failed: UID in precondition: another object has the name"));
        }
        let body = request.body.clone();
        self.change(kind, name, |object| change(object, &body));
        let answer = self.get(kind, name).cloned();
        self.log(request, 200, answer.as_deref());
        Ok(())
    }

    /// Deletes an object; it is removed when it has no finalizers.
    pub fn delete(&mut self, user: &str, kind: Kind, name: &str) {
        let Some(object) = self.get(kind, name).cloned() else { return };
        if object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
            let time = self.time();
            self.change(kind, name, |object| object["metadata"]["deletionTimestamp"] = json!(time));
        } else {
            self.remove(kind, name);
        }
        let request = Request { user, verb: "delete", kind, name, subresource: "", body: Value::Null };
        self.log(request, 200, Some(&object));
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        if self.objects.remove(&(kind, name.to_owned())).is_some() {
            self.note(kind, name, None);
        }
    }

    fn put(&mut self, kind: Kind, name: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Rc::new(object);
        self.objects.insert((kind, name.to_owned()), Rc::clone(&object));
        self.note(kind, name, Some(object));
    }

    fn note(&mut self, kind: Kind, name: &str, object: Option<Rc<Value>>) {
        self.written = self.now;
        self.changes.entry(kind).or_default().push(Change { name: name.to_owned(), object });
    }

    /// Writes a line of the audit log about a successful request.
    pub fn log(&mut self, request: Request<'_>, code: u16, answer: Option<&Value>) {
        self.log_answer(request, Answered { code, message: String::new() }, answer);
    }

    /// Writes a line of the audit log; no two lines have the same time.
    pub fn log_answer(&mut self, request: Request<'_>, status: Answered, answer: Option<&Value>) {
        let now = EPOCH * 1_000_000 + (self.now * 1000) as i64;
        self.micros = now.max(self.micros + 1);
        let at = Timestamp::from_microsecond(self.micros).expect("a time");
        let (resource, api_group) = request.kind.resource();
        self.audit.push(Line {
            verb: request.verb.to_owned(),
            user: User { username: request.user.to_owned() },
            uri: "/".to_owned(),
            object_ref: ObjectRef {
                resource: resource.to_owned(),
                subresource: request.subresource.to_owned(),
                namespace: request.kind.namespace().to_owned(),
                name: request.name.to_owned(),
                api_group: api_group.to_owned(),
            },
            response_status: status,
            request_object: request.body,
            response_object: answer.cloned().unwrap_or_default(),
            request_received_timestamp: at,
            stage_timestamp: at,
        });
    }
}
