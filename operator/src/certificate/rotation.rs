//! The next step of a renewal: a pure function from what is stored, what API servers are told, what replicas of the webhook
//! show, and the time. It makes nothing and writes nothing, so every step can be interrupted and is found again.
//!
//! A change of the authority goes through these states; each arrow is one write:
//!
//! ```text
//! Secret giveway-webhook-ca     caBundle of both configurations    Secret giveway-webhook-tls
//! current                       current                            signed by current
//!   ↓ Prepare
//! current, next                   ↓ Publish
//!   ↓ Published (the time)      current + next
//!   … settling time: every API server learns of it …
//!   ↓ Promote
//! current (was next)            old + current                        ↓ Issue
//!   … until every replica shows it …                               signed by current
//!                                 ↓ Publish
//!                               current
//! ```
//!
//! Promise: as long as an API server learns of a bundle within the settling time, it trusts whatever any replica shows at
//! any moment. For that, whatever a bundle holds and nobody remembers (the old authority; that of a Secret that was
//! deleted; cert-manager's) counts as *retired* and stays until the replicas do without it. Nothing becomes trusted but
//! what was made here or was trusted before.

use super::material::{Anchor, Authority, Leaf};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// The most retired authorities that a bundle keeps, the newest: each change that is begun before the last one was
/// finished leaves one.
const RETIRED: usize = 16;

/// What the Secret of the authority holds, as far as it can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The authority that signs.
    pub current: Option<Authority>,
    /// The one that will.
    pub next: Option<Authority>,
    /// When both configurations had `next` in their bundles, acknowledged.
    pub published: Option<Timestamp>,
}

impl Stored {
    fn anchors(&self) -> impl Iterator<Item = &Anchor> {
        [&self.current, &self.next].into_iter().flatten().map(Authority::anchor)
    }

    /// Forgets what has expired, or is not valid yet: its clock was wrong.
    fn valid(&self, now: Timestamp) -> Self {
        let valid =
            |authority: &Option<Authority>| authority.clone().filter(|authority| authority.anchor().is_valid(now));
        let (current, next) = (valid(&self.current), valid(&self.next));
        Self { current, published: self.published.filter(|_| next.is_some()), next }
    }
}

/// What the replicas of the webhook show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// Each of them is accepted by who trusts the current authority alone.
    Accepted,
    /// This one is not, or does not answer.
    Waiting(String),
}

/// Everything that the next step depends on.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The Secret of the authority.
    pub stored: Stored,
    /// The Secret of the certificate.
    pub leaf: Leaf,
    /// `caBundle` of each webhook of both configurations.
    pub bundles: Vec<Vec<u8>>,
    /// What the replicas show, when they were asked in this round.
    pub replicas: Option<Replicas>,
}

/// What the administrator chose.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Life of an authority.
    pub authority: SignedDuration,
    /// Life of a certificate.
    pub leaf: SignedDuration,
    /// How long API servers may take to learn of a bundle.
    pub settle: SignedDuration,
    /// The names by which API servers call the webhook.
    pub names: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the first authority: nobody trusts any other.
    Found(String),
    /// Make the next authority.
    Prepare(String),
    /// Make the current authority the next one: no API server has been told of it.
    Demote,
    /// Write this `caBundle`.
    Publish(Vec<u8>),
    /// Note that the next authority is in all bundles since now.
    Published,
    /// Forget that note: the next authority is not in all bundles.
    Retract,
    /// Make the next authority the current one.
    Promote,
    /// Sign a certificate.
    Issue(String),
    /// Ask the replicas what they show.
    Ask,
    /// Nothing, until then at the latest.
    Rest {
        /// When something is due.
        until: Option<Timestamp>,
        /// The replica that a change of the authority waits for.
        waiting: Option<String>,
    },
}

/// The next step.
pub fn next(seen: &Seen, policy: &Policy, now: Timestamp) -> Step {
    let stored = seen.stored.valid(now);
    let told: Vec<BTreeSet<Anchor>> =
        seen.bundles.iter().map(|bundle| Anchor::bundle(bundle).into_iter().collect()).collect();
    let retired: BTreeSet<&Anchor> = told.iter().flatten().filter(|anchor| !anchor.has_expired(now)).collect();
    let mut retired: Vec<&Anchor> =
        retired.into_iter().filter(|anchor| stored.anchors().all(|known| known != *anchor)).collect();
    // The one that the replicas still need is the last to go.
    retired.sort_by_cached_key(|anchor| seen.leaf.accepted_by(anchor, &policy.names, now).is_ok());
    retired.drain(..retired.len().saturating_sub(RETIRED));

    match (&stored.current, &stored.next) {
        (None, None) if retired.is_empty() => return Step::Found("there is none that can be used".to_owned()),
        (None, None) => return Step::Prepare("there is none that can be used".to_owned()),
        (None, Some(_)) if retired.is_empty() => return Step::Promote,
        (Some(current), None) if current.renew_at() <= now => {
            return Step::Prepare("less than a third of its life is left".to_owned());
        }
        (Some(current), _) if !retired.is_empty() && !told.iter().any(|told| told.contains(current.anchor())) => {
            return Step::Demote;
        }
        _ => {}
    }

    let leaf = stored.current.as_ref().map(|current| seen.leaf.check(current.anchor(), &policy.names, now));
    let done = matches!(leaf, Some(Ok(_))) && seen.replicas == Some(Replicas::Accepted);
    let kept = retired.iter().copied().filter(|_| !done);
    let wanted: BTreeSet<&Anchor> = stored.anchors().chain(kept).collect();
    let bundle: Vec<u8> = wanted.iter().flat_map(|anchor| anchor.pem().into_bytes()).collect();
    if let Some(next) = &stored.next
        && stored.published.is_some()
        && told.iter().any(|told| !told.contains(next.anchor()))
    {
        return Step::Retract;
    }
    if seen.bundles.iter().any(|told| *told != bundle) {
        return Step::Publish(bundle);
    }

    let mut due = Vec::new();
    if stored.next.is_some() {
        match stored.published.filter(|published| *published <= now) {
            None => return Step::Published,
            Some(published) if published + policy.settle <= now => return Step::Promote,
            Some(published) => due.push(published + policy.settle),
        }
    }
    match leaf {
        Some(Err(why)) => return Step::Issue(why.to_string()),
        Some(Ok(renew_at)) => due.push(renew_at),
        None => {}
    }
    if let (Some(current), None) = (&stored.current, &stored.next) {
        due.push(current.renew_at());
    }
    let waiting = match &seen.replicas {
        None if !retired.is_empty() && stored.current.is_some() => return Step::Ask,
        Some(Replicas::Waiting(replica)) => Some(replica.clone()),
        _ => None,
    };
    due.extend(wanted.iter().map(|anchor| anchor.validity().1));
    Step::Rest { until: due.into_iter().min(), waiting }
}

/// What is stored after a step that changes the authorities; `made` is the new authority of those that need one.
pub fn after(stored: &Stored, step: &Step, made: Option<Authority>, now: Timestamp) -> Stored {
    let stored = stored.valid(now);
    match step {
        Step::Found(_) => Stored { current: made, ..Stored::default() },
        Step::Prepare(_) => Stored { next: made, published: None, ..stored },
        Step::Demote => Stored { next: stored.current, ..Stored::default() },
        Step::Promote => Stored { current: stored.next, ..Stored::default() },
        Step::Published => Stored { published: Some(now), ..stored },
        Step::Retract => Stored { published: None, ..stored },
        Step::Publish(_) | Step::Issue(_) | Step::Ask | Step::Rest { .. } => stored,
    }
}

#[cfg(test)]
mod tests;
