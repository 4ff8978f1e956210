//! Decides the next step of a renewal: a pure function of the stored objects, the `caBundle`s, the certificates that
//! the webhook replicas serve, and the time. It creates and writes nothing, so the operator can be interrupted at every
//! step and finds the same step again.
//!
//! A change of the authority passes through these states; each arrow is one write:
//!
//! ```text
//! Secret giveway-webhook-ca     caBundle of both configurations    Secret giveway-webhook-tls
//! current                       current                            signed by current
//!   ↓ Prepare
//! current, next                   ↓ Publish
//!   ↓ Published (the time)      current + next
//!   … settling time: every API server notices the new bundle …
//!   ↓ Promote
//! current (was next)            old + current                        ↓ Issue
//!   … until every replica serves it …                              signed by current
//!                                 ↓ Publish
//!                               current
//! ```
//!
//! Guarantee: if every API server notices a changed bundle within the settling time, it trusts at any moment every
//! certificate that any replica serves. For that, an authority that is in a bundle and in no Secret (the old authority,
//! the authority of a deleted Secret, or cert-manager's) counts as *retired*, and stays in the bundle until no replica
//! needs it. Only authorities become trusted that the operator created or that were trusted before.

use super::material::{Anchor, Authority, Leaf};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// Maximum number of retired authorities in a bundle; the oldest are removed. Each change that starts before the
/// previous one has finished adds one.
const RETIRED: usize = 16;

/// The usable content of the authority's Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredAuthorities {
    /// The authority that signs.
    pub current: Option<Authority>,
    /// The authority that will sign after the change.
    pub next: Option<Authority>,
    /// When the API server had confirmed that both configurations contain `next` in their bundles.
    pub published: Option<Timestamp>,
}

impl StoredAuthorities {
    /// Returns the certificates of the current and of the next authority, without those that do not exist.
    fn anchors(&self) -> impl Iterator<Item = &Anchor> {
        [&self.current, &self.next].into_iter().flatten().map(Authority::anchor)
    }

    /// Returns a copy without the authorities that have expired or are not valid yet at `now`. The latter were created by an operator with
    /// a wrong clock.
    fn valid(&self, now: Timestamp) -> Self {
        let valid =
            |authority: &Option<Authority>| authority.clone().filter(|authority| authority.anchor().is_valid(now));
        let (current, next) = (valid(&self.current), valid(&self.next));
        Self { current, published: self.published.filter(|_| next.is_some()), next }
    }
}

/// Whether the webhook replicas serve a certificate of the current authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// A client that trusts only the current authority accepts every replica.
    Accepted,
    /// Such a client does not accept this replica, or the replica does not answer.
    Waiting(String),
}

/// What was read from the cluster, from which [`next_step`] decides.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The content of the authority's Secret.
    pub stored: StoredAuthorities,
    /// The content of the certificate's Secret.
    pub leaf: Leaf,
    /// `caBundle` of each webhook of both configurations.
    pub bundles: Vec<Vec<u8>>,
    /// The result of checking the replicas, if they were checked in this round.
    pub replicas: Option<Replicas>,
}

/// Lifetimes and names of the certificates that are renewed.
#[derive(Clone, Debug)]
pub struct RotationPolicy {
    /// Lifetime of an authority.
    pub authority: SignedDuration,
    /// Lifetime of a certificate.
    pub leaf: SignedDuration,
    /// How long API servers may take to notice a changed bundle.
    pub settle: SignedDuration,
    /// The server names that API servers use for the webhook.
    pub names: Vec<String>,
}

/// A step of the renewal: one write, or what the operator waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationStep {
    /// Create the first authority; API servers trust no other. With the reason.
    Found(String),
    /// Create the next authority. With the reason.
    Prepare(String),
    /// Make the current authority the next one, because it is in no bundle.
    Demote,
    /// Write this `caBundle`.
    Publish(Vec<u8>),
    /// Record that the next authority is in all bundles from now on.
    Published,
    /// Remove that record: a bundle does not contain the next authority.
    Retract,
    /// Make the next authority the current one.
    Promote,
    /// Sign a certificate. With the reason.
    Issue(String),
    /// Check which certificates the replicas serve.
    Ask,
    /// Do nothing, at most until the given time.
    Rest {
        /// When the next step is due.
        until: Option<Timestamp>,
        /// The replica for which a change of the authority is delayed.
        waiting: Option<String>,
    },
}

/// Returns the next step of the renewal for the objects and bundles in `seen`. Pure: the same input gives the same step.
pub fn next_step(seen: &Seen, policy: &RotationPolicy, now: Timestamp) -> RotationStep {
    let stored = seen.stored.valid(now);
    let anchors: Vec<BTreeSet<Anchor>> =
        seen.bundles.iter().map(|bundle| Anchor::bundle(bundle).into_iter().collect()).collect();
    let retired: BTreeSet<&Anchor> = anchors.iter().flatten().filter(|anchor| !anchor.has_expired(now)).collect();
    let mut retired: Vec<&Anchor> =
        retired.into_iter().filter(|anchor| stored.anchors().all(|known| known != *anchor)).collect();
    // The authority that replicas still need comes last, so that it is the last one to be removed.
    retired.sort_by_cached_key(|anchor| seen.leaf.accepted_by(anchor, &policy.names, now).is_ok());
    retired.drain(..retired.len().saturating_sub(RETIRED));

    match (&stored.current, &stored.next) {
        (None, None) if retired.is_empty() => return RotationStep::Found("there is no usable one".to_owned()),
        (None, None) => return RotationStep::Prepare("there is no usable one".to_owned()),
        (None, Some(_)) if retired.is_empty() => return RotationStep::Promote,
        (Some(current), None) if current.renew_at() <= now => {
            return RotationStep::Prepare("less than a third of the validity of the current one is left".to_owned());
        }
        (Some(current), _)
            if !retired.is_empty() && !anchors.iter().any(|anchors| anchors.contains(current.anchor())) =>
        {
            return RotationStep::Demote;
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
        && anchors.iter().any(|anchors| !anchors.contains(next.anchor()))
    {
        return RotationStep::Retract;
    }
    if seen.bundles.iter().any(|anchors| *anchors != bundle) {
        return RotationStep::Publish(bundle);
    }

    let mut due = Vec::new();
    if stored.next.is_some() {
        match stored.published.filter(|published| *published <= now) {
            None => return RotationStep::Published,
            Some(published) if published + policy.settle <= now => return RotationStep::Promote,
            Some(published) => due.push(published + policy.settle),
        }
    }
    match leaf {
        Some(Err(why)) => return RotationStep::Issue(why.to_string()),
        Some(Ok(renew_at)) => due.push(renew_at),
        None => {}
    }
    if let (Some(current), None) = (&stored.current, &stored.next) {
        due.push(current.renew_at());
    }
    let waiting = match &seen.replicas {
        None if !retired.is_empty() && stored.current.is_some() => return RotationStep::Ask,
        Some(Replicas::Waiting(replica)) => Some(replica.clone()),
        _ => None,
    };
    due.extend(wanted.iter().map(|anchor| anchor.validity().1));
    RotationStep::Rest { until: due.into_iter().min(), waiting }
}

/// Returns what the authority's Secret must contain after `step`, if it contains `stored` before: for steps that do not write this Secret,
/// its valid authorities. `made` is the new authority that the steps `Found` and `Prepare` need.
pub fn stored_after(
    stored: &StoredAuthorities,
    step: &RotationStep,
    made: Option<Authority>,
    now: Timestamp,
) -> StoredAuthorities {
    let stored = stored.valid(now);
    match step {
        RotationStep::Found(_) => StoredAuthorities { current: made, ..StoredAuthorities::default() },
        RotationStep::Prepare(_) => StoredAuthorities { next: made, published: None, ..stored },
        RotationStep::Demote => StoredAuthorities { next: stored.current, ..StoredAuthorities::default() },
        RotationStep::Promote => StoredAuthorities { current: stored.next, ..StoredAuthorities::default() },
        RotationStep::Published => StoredAuthorities { published: Some(now), ..stored },
        RotationStep::Retract => StoredAuthorities { published: None, ..stored },
        RotationStep::Publish(_) | RotationStep::Issue(_) | RotationStep::Ask | RotationStep::Rest { .. } => stored,
    }
}

#[cfg(test)]
mod tests;
