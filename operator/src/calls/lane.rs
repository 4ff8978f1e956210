//! A lane: a limit on the number of calls in flight. The next call is the one with the highest priority, then the one
//! that has waited longest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Position in the queue: priority, then number of calls that asked before.
pub(super) type QueuePosition = (Reverse<i32>, u64);

/// A limit on the number of calls in flight. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lane(Arc<Mutex<LaneQueue>>);

/// The calls that wait in a lane, and how many more may be made.
#[derive(Debug)]
struct LaneQueue {
    /// Number of calls that may start now.
    free: usize,
    /// Number of callers that have waited so far.
    asked: u64,
    waiting: BTreeMap<QueuePosition, oneshot::Sender<CallPermit>>,
}

/// Permission to make one call. When the value is dropped, the next call in the queue gets the permission.
#[derive(Debug)]
pub(super) struct CallPermit(Option<Lane>);

impl Lane {
    /// Creates a lane in which at most `calls` calls are in flight.
    pub(super) fn new(calls: usize) -> Self {
        Self(Arc::new(Mutex::new(LaneQueue { free: calls, asked: 0, waiting: BTreeMap::new() })))
    }

    /// Locks the queue of waiting calls; a panic in another thread while it was locked is ignored.
    fn queue(&self) -> MutexGuard<'_, LaneQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for permission to make a call of this priority. If the caller drops this future, its turn is passed on to the next caller.
    pub(super) async fn take(&self, priority: i32) -> CallPermit {
        let receiver = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return CallPermit(Some(self.clone()));
            }
            queue.asked += 1;
            let (sender, receiver) = oneshot::channel();
            let place = (Reverse(priority), queue.asked);
            queue.waiting.insert(place, sender);
            receiver
        };
        // The queue keeps the sender until it has sent a turn.
        receiver.await.unwrap_or(CallPermit(None))
    }

    /// Gives a permission that was returned to the first caller that still waits, or counts it as free.
    fn pass_on(&self) {
        let mut queue = self.queue();
        while let Some((_, sender)) = queue.waiting.pop_first() {
            match sender.send(CallPermit(Some(self.clone()))) {
                Ok(()) => return,
                // The caller does not wait any more. The unsent turn must not be given back a second time when it is
                // dropped.
                Err(mut turn) => turn.0 = None,
            }
        }
        queue.free += 1;
    }
}

impl Drop for CallPermit {
    /// Gives the permission to the next caller.
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            lane.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn the_highest_priority_has_the_next_turn_then_the_one_that_waited_longest() {
        let lane = Lane::new(1);
        let first = lane.take(0).await;
        let (order, mut tasks) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        for (name, priority) in [("old", 10), ("young", 10), ("urgent", 1000)] {
            let (lane, order) = (lane.clone(), Arc::clone(&order));
            let before = lane.queue().waiting.len();
            tasks.push(tokio::spawn({
                let lane = lane.clone();
                async move {
                    let _turn = lane.take(priority).await;
                    order.lock().unwrap().push(name);
                }
            }));
            while lane.queue().waiting.len() == before {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["urgent", "old", "young"]);
    }

    #[tokio::test]
    async fn a_dropped_caller_wastes_no_slot() {
        let lane = Lane::new(2);
        let taken = [lane.take(0).await, lane.take(0).await];
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(lane.take(0))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        // Half of the callers stop waiting before a turn was sent to them; one stops after a turn was sent to it.
        waiting.truncate(50);
        drop(taken);
        drop(waiting);
        let queue = lane.queue();
        assert_eq!((queue.free, queue.waiting.len()), (2, 0));
    }
}
