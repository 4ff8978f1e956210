//! The calls of an urgent plan are made before the queued calls of a large plan. The calls of the arbiter are carried out by the real
//! actuator, whose API server answers one request when the test says so.

use crate::driven::{Answer, Driven, Kind, config, gang, leadership, running};
use giveway_operator::calls::Actuator;
use giveway_operator::messages::command::{Command, Dispatch as _};
use giveway_operator::observability::metrics::Metrics;
use kube::Client;
use kube::client::Body;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Pods on each of the three nodes of the large plan.
const PODS: usize = 100;
/// Number of calls at the same time.
const FLAGS: [&str; 2] = ["--concurrent-calls=4", "--evictions-per-second=10000"];
/// Of four calls at the same time, three are left beside the writes of plans; and three times as many evictions as calls.
const IN_FLIGHT: usize = 3 + 3 * 4;

/// The requests that have arrived at the API server.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<Request>>>);

struct Request {
    /// `METHOD PATH`.
    call: String,
    answer: Option<oneshot::Sender<()>>,
}

impl Requests {
    /// Returns a client of this API server.
    fn client(&self) -> Client {
        let requests = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (sender, answer) = oneshot::channel();
            let call = format!("{} {}", request.method(), request.uri().path());
            requests.0.lock().unwrap().push(Request { call, answer: Some(sender) });
            async move {
                let _ = answer.await;
                Ok::<_, Infallible>(http::Response::new(Body::from(br#"{"metadata":{"name":"p"}}"#.to_vec())))
            }
        });
        Client::new(service, "default")
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Waits until this number of requests has arrived, and returns the last one.
    async fn wait(&self, count: usize) -> String {
        let arrived = async {
            while self.count() < count {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), arrived).await;
        assert!(in_time.is_ok(), "{} of {count} requests have arrived", self.count());
        self.0.lock().unwrap()[count - 1].call.clone()
    }

    /// Answers the oldest request whose path ends with this text.
    fn answer_one(&self, end: &str) {
        let mut requests = self.0.lock().unwrap();
        let open = requests.iter_mut().find(|request| request.answer.is_some() && request.call.ends_with(end));
        let answer = open.and_then(|request| request.answer.take()).unwrap();
        answer.send(()).unwrap();
    }
}

/// Lets every task run until it waits.
async fn let_tasks_run() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

/// Returns a cluster in which the plan of gang `bulk` evicts 300 pods. 100 nominations and 200 evictions have no answer.
fn large_plan() -> Driven {
    let mut driven = Driven::new(&FLAGS);
    for node in ["m1", "m2", "m3"] {
        driven.node(node, PODS);
        for number in 0..PODS {
            driven.apply(Kind::Pod, running(&format!("low-{node}-{number}"), 10, node, None));
        }
    }
    driven.node("u1", 1);
    driven.apply(Kind::Pod, running("other", 400, "u1", None));
    driven.answer(|command| match command {
        Command::Nominate { node: Some(node), .. } if node != "m1" && node != "m2" => Answer::Hold,
        Command::Evict(call) if !call.rehearsal => Answer::Hold,
        _ => Answer::Succeed,
    });
    driven.submit(gang("bulk", 3 * PODS, 500), 1);
    driven.settle();
    let evictions = driven.unanswered().iter().filter(|command| matches!(command, Command::Evict(_))).count();
    assert_eq!((driven.unanswered().len(), evictions), (3 * PODS, 2 * PODS));
    driven
}

/// Returns the call without an answer that concerns this pod.
fn unanswered(driven: &Driven, name: &str) -> Command {
    let concerns = |command: &&Command| match command {
        Command::Nominate { pod, .. } => pod.name == name,
        Command::Evict(call) => call.pod.name == name,
        _ => false,
    };
    driven.unanswered().iter().find(concerns).cloned().unwrap()
}

#[tokio::test]
async fn the_nomination_and_the_eviction_of_an_urgent_plan_are_the_next_calls() {
    let mut driven = large_plan();
    let queued = driven.unanswered().to_vec();
    driven.submit_for("u1", "urgent", 1_000);
    driven.settle();
    let nomination = unanswered(&driven, "urgent-0");
    driven.answer_unanswered(|command| matches!(command, Command::Nominate { pod, .. } if pod.name == "urgent-0"));
    driven.settle();
    let eviction = unanswered(&driven, "other");

    let (requests, (reports, _received)) = (Requests::default(), mpsc::channel(1_000));
    let (metrics, config) = (Metrics::default(), config(&FLAGS));
    let actuator = Actuator::new(requests.client(), leadership("operator-00000001"), metrics, &config, reports);
    queued.into_iter().for_each(|command| actuator.dispatch(command));
    requests.wait(IN_FLIGHT).await;
    let_tasks_run().await;
    assert_eq!(requests.count(), IN_FLIGHT, "the other calls are queued");
    actuator.dispatch(nomination);
    let_tasks_run().await;
    requests.answer_one("/status");
    let next = requests.wait(IN_FLIGHT + 1).await;
    assert_eq!(next, "PATCH /api/v1/namespaces/default/pods/urgent-0/status", "nominations of gang bulk wait");
    actuator.dispatch(eviction);
    let_tasks_run().await;
    requests.answer_one("/eviction");
    let next = requests.wait(IN_FLIGHT + 2).await;
    assert_eq!(next, "POST /api/v1/namespaces/default/pods/other/eviction", "evictions for gang bulk wait");
}
