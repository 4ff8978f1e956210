//! Request bodies, and the memory that they may use.
//!
//! Guarantees: a body does not exceed its size limit and arrives within its time limit, which is shorter for small
//! bodies. All bodies together use no more than the [`Budget`], for any number of clients. A request without free
//! budget waits until its deadline; then the failure policy decides. An eighth of the budget is reserved for small
//! bodies, so that many huge ones do not delay ordinary requests.

use crate::deadline::Deadline;
use crate::metrics::Metrics;
use futures::{Stream, StreamExt, pin_mut};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use warp::Buf;

/// A body up to this size in bytes is small.
pub const SMALL: usize = 64 * 1024;

/// Limits of one body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Maximum size in bytes. API servers accept objects of 3 MiB, and an update contains two of them.
    pub bytes: usize,
    /// Time limit for the body.
    pub time: Duration,
    /// Time limit for a small body, which is sent together with its request.
    pub small: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 8 * 1024 * 1024, time: Duration::from_secs(10), small: Duration::from_secs(2) }
    }
}

/// Why a body was not read completely.
#[derive(Debug)]
pub enum BodyError {
    /// The body exceeds its size limit.
    TooLarge,
    /// The body exceeded its time limit.
    TooSlow,
    /// Other bodies use the whole budget.
    NoRoom,
    /// The connection was closed, or the client broke the protocol.
    Broken(warp::Error),
}

/// A body that was read. Its bytes count against the budget until it is dropped.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    _share: Option<Share>,
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that counts against no budget.
impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, _share: None }
    }
}

/// Limit of the bytes that all bodies use together.
#[derive(Clone, Debug)]
pub struct Budget {
    limits: BodyLimits,
    small: Lane,
    large: Lane,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug)]
struct Lane {
    bytes: usize,
    free: Arc<Semaphore>,
}

impl Lane {
    fn new(bytes: usize) -> Self {
        Self { bytes, free: Arc::new(Semaphore::new(bytes)) }
    }
}

/// A reserved part of the budget, in bytes.
#[derive(Debug)]
struct Share {
    permit: OwnedSemaphorePermit,
    metrics: Arc<Metrics>,
}

impl Share {
    fn bytes(&self) -> i64 {
        i64::try_from(self.permit.num_permits()).unwrap_or(i64::MAX)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.metrics.body_bytes.dec_by(self.bytes());
    }
}

impl Budget {
    /// Creates a budget of `bytes`, for bodies with these limits.
    pub fn new(bytes: u32, limits: BodyLimits, metrics: Arc<Metrics>) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self { limits, small: Lane::new(bytes / 8), large: Lane::new(bytes - bytes / 8), metrics }
    }

    /// The limits of each body.
    pub fn limits(&self) -> BodyLimits {
        self.limits
    }

    /// Reads a body. `announced` is its `Content-Length`; without one, as much of the budget is reserved as the largest
    /// body needs.
    pub async fn read<B: Buf>(
        &self,
        announced: Option<u64>,
        body: impl Stream<Item = Result<B, warp::Error>>,
        deadline: Deadline,
    ) -> Result<Body, BodyError> {
        let announced = announced.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let length = announced.unwrap_or(self.limits.bytes);
        if length > self.limits.bytes {
            return Err(BodyError::TooLarge);
        }
        let share = self.take(length, deadline).await?;
        let time = if length <= SMALL { self.limits.small.min(self.limits.time) } else { self.limits.time };
        let deadline = deadline.or_earlier(Instant::now() + time);
        let read = collect(body, announced.unwrap_or_default(), length);
        let bytes = deadline.limit(read).await.unwrap_or(Err(BodyError::TooSlow))?;
        Ok(Body { bytes, _share: Some(share) })
    }

    async fn take(&self, bytes: usize, deadline: Deadline) -> Result<Share, BodyError> {
        let lane = if bytes <= SMALL { &self.small } else { &self.large };
        let wanted = u32::try_from(bytes.min(lane.bytes)).unwrap_or(u32::MAX);
        let taken = deadline.limit(Arc::clone(&lane.free).acquire_many_owned(wanted)).await;
        let Some(Ok(permit)) = taken else {
            self.metrics.bodies_without_room.inc();
            return Err(BodyError::NoRoom);
        };
        let share = Share { permit, metrics: Arc::clone(&self.metrics) };
        self.metrics.body_bytes.inc_by(share.bytes());
        Ok(share)
    }
}

async fn collect<B: Buf>(
    body: impl Stream<Item = Result<B, warp::Error>>,
    capacity: usize,
    most: usize,
) -> Result<Vec<u8>, BodyError> {
    pin_mut!(body);
    let mut bytes = Vec::with_capacity(capacity);
    while let Some(chunk) = body.next().await {
        let mut chunk = chunk.map_err(BodyError::Broken)?;
        if bytes.len() + chunk.remaining() > most {
            return Err(BodyError::TooLarge);
        }
        while chunk.has_remaining() {
            let part = chunk.chunk();
            bytes.extend_from_slice(part);
            let taken = part.len();
            chunk.advance(taken);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    const MIB: usize = 1 << 20;
    const SOON: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_secs(60);

    async fn read(budget: &Budget, length: usize, wait: Duration) -> Result<Body, BodyError> {
        let announced = u64::try_from(length).unwrap();
        let body = stream::iter([Ok(std::io::Cursor::new(vec![b'x'; length]))]);
        budget.read(Some(announced), body, Deadline::after(wait)).await
    }

    fn budget() -> Budget {
        Budget::new(8 << 20, BodyLimits { bytes: 4 * MIB, time: SOON, small: SOON }, Arc::default())
    }

    #[tokio::test]
    async fn all_bodies_together_stay_within_the_budget_and_the_next_one_waits_its_turn() {
        let budget = budget();
        let first = read(&budget, 4 * MIB, SOON).await.unwrap();
        let second = read(&budget, 3 * MIB, SOON).await.unwrap();
        assert_eq!((first.len(), budget.metrics.body_bytes.get()), (4 * MIB, 7 << 20));
        assert!(matches!(read(&budget, MIB, SOON).await, Err(BodyError::NoRoom)), "not within its deadline");
        assert_eq!(budget.metrics.bodies_without_room.get(), 1);

        let patient = budget.clone();
        let waiting =
            tokio::spawn(async move { read(&patient, 4 * MIB, Duration::from_secs(60)).await.unwrap().len() });
        drop(second);
        assert!(!waiting.is_finished(), "3 MiB are not enough");
        drop(first);
        assert_eq!(waiting.await.unwrap(), 4 * MIB);
        assert_eq!(budget.metrics.body_bytes.get(), 0);
    }

    #[tokio::test]
    async fn a_crowd_of_huge_bodies_delays_no_small_one() {
        let budget = budget();
        let _crowd = [read(&budget, 4 * MIB, SOON).await.unwrap(), read(&budget, 3 * MIB, SOON).await.unwrap()];
        let more = budget.clone();
        let _queue = tokio::spawn(async move { read(&more, 4 * MIB, Duration::from_secs(60)).await });
        assert_eq!(read(&budget, SMALL, SOON).await.unwrap().len(), SMALL);
    }

    #[tokio::test]
    async fn a_small_body_that_does_not_come_is_given_up_sooner_than_a_large_one() {
        let limits = BodyLimits { bytes: 4 * MIB, time: LATE, small: SOON };
        let budget = Budget::new(8 << 20, limits, Arc::default());
        let never = || stream::pending::<Result<std::io::Cursor<Vec<u8>>, warp::Error>>();
        let small = u64::try_from(SMALL).unwrap();
        assert!(matches!(budget.read(Some(small), never(), Deadline::after(LATE)).await, Err(BodyError::TooSlow)));
        assert_eq!(budget.metrics.body_bytes.get(), 0, "its room is free again");
        let large = budget.read(Some(small + 1), never(), Deadline::after(LATE));
        assert!(tokio::time::timeout(4 * SOON, large).await.is_err(), "still waited for");
        assert_eq!(BodyLimits::default().small, Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_takes_as_much_as_the_largest_while_it_is_read() {
        let budget = budget();
        let (chunk, body) = tokio::sync::mpsc::channel::<Result<std::io::Cursor<Vec<u8>>, warp::Error>>(1);
        let body = stream::unfold(body, async |mut body| body.recv().await.map(|chunk| (chunk, body)));
        let endless = BodyLimits { bytes: 4 * MIB, time: LATE, small: LATE };
        let patient = Budget { limits: endless, ..budget.clone() };
        let reading =
            tokio::spawn(async move { patient.read(None, Box::pin(body), Deadline::after(endless.time)).await });
        // The channel buffers one chunk: the second one fits after the first one was read.
        for _ in 0..2 {
            chunk.send(Ok(std::io::Cursor::new(vec![b'x'; 5]))).await.unwrap();
        }
        assert_eq!(budget.metrics.body_bytes.get(), 4 << 20);
        drop(chunk);
        assert_eq!(&*reading.await.unwrap().unwrap(), b"xxxxxxxxxx");
        assert_eq!(budget.metrics.body_bytes.get(), 0);
    }
}
