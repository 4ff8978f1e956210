//! A lane: a bounded number of calls at the same time. The next turn has the call with the highest priority, then the one that has waited
//! longest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Priority, and how many calls asked before.
pub(super) type Place = (Reverse<i32>, u64);

/// A lane. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lane(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    asked: u64,
    waiting: BTreeMap<Place, oneshot::Sender<Turn>>,
}

/// A turn. It ends when the value is dropped, and the next call has it.
#[derive(Debug)]
pub(super) struct Turn(Option<Lane>);

impl Lane {
    /// Turns for this many calls at the same time.
    pub(super) fn new(calls: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue { free: calls, asked: 0, waiting: BTreeMap::new() })))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn. A caller that stops waiting loses no turn for others.
    pub(super) async fn take(&self, priority: i32) -> Turn {
        let receiver = {
            let mut queue = self.queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Turn(Some(self.clone()));
            }
            queue.asked += 1;
            let (sender, receiver) = oneshot::channel();
            let place = (Reverse(priority), queue.asked);
            queue.waiting.insert(place, sender);
            receiver
        };
        // The queue keeps the sender until it has sent a turn.
        receiver.await.unwrap_or(Turn(None))
    }

    /// Gives a turn back: to the first caller that still waits.
    fn give_back(&self) {
        let mut queue = self.queue();
        while let Some((_, sender)) = queue.waiting.pop_first() {
            match sender.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // The caller waits no more. What was meant for it must not give the turn back a second time.
                Err(mut turn) => turn.0 = None,
            }
        }
        queue.free += 1;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            lane.give_back();
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
    async fn callers_that_stop_waiting_lose_no_turn() {
        let lane = Lane::new(2);
        let taken = [lane.take(0).await, lane.take(0).await];
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(lane.take(0))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        // Half of them stop before they have a turn, one after it was sent.
        waiting.truncate(50);
        drop(taken);
        drop(waiting);
        let queue = lane.queue();
        assert_eq!((queue.free, queue.waiting.len()), (2, 0));
    }
}
