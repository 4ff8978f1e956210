//! The times of events are in the order in which the arbiter published them, although the actuator writes several at the same time.

use crate::driven::{config, leadership};
use giveway_crds::condition::Reason;
use giveway_operator::calls::Actuator;
use giveway_operator::messages::command::{Command, Dispatch as _};
use giveway_operator::observability::metrics::Metrics;
use giveway_operator::speaker::notice::EventNotice;
use giveway_planner::ObjectKey;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Number of events on one PodGroup.
const EVENTS: usize = 200;

/// Returns a client of an API server that stores the events.
fn server(written: &Arc<Mutex<Vec<Value>>>) -> Client {
    let written = Arc::clone(written);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let written = Arc::clone(&written);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            written.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            Ok::<_, Infallible>(http::Response::new(Body::from(body)))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_times_of_events_are_in_the_order_in_which_they_were_published() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (reports, _received) = mpsc::channel(10);
    let (metrics, config) = (Metrics::default(), config(&[]));
    let actuator = Actuator::new(server(&written), leadership("operator-00000001"), metrics, &config, reports);
    for number in 0..EVENTS {
        let group = (ObjectKey::new("default", "train"), "uid-train".into());
        let action = format!("Action {number}");
        let notice = EventNotice::on("PodGroup", group, false, Reason::Planned, action, "It is planned.");
        actuator.dispatch(Command::Publish(notice));
    }
    let all = async {
        while written.lock().unwrap().len() < EVENTS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    let mut events = written.lock().unwrap().clone();
    events.sort_by_key(|event| event["eventTime"].as_str().unwrap().to_owned());
    let actions: Vec<&str> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..EVENTS).map(|number| format!("Action {number}")).collect();
    assert_eq!(actions, expected);
    events.dedup_by_key(|event| event["eventTime"].as_str().unwrap().to_owned());
    assert_eq!(events.len(), EVENTS, "no two events have the same time");
}
