//! Reservations: capacity of a node that is set aside for a pod that is not bound yet.

/// What sets the capacity aside, with the priority of the preemptor.
///
/// The nomination of a pod reserves as much as a plan that has started, at the pod's effective priority, unless a plan for the pod says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// A plan that has evicted or ungated a pod.
    Started(i32),
    /// A plan that has done neither, and may still be cancelled.
    Planned(i32),
    /// Nothing, because the plan was cancelled. The nomination of the pod, which may still exist, reserves nothing either.
    Withdrawn,
}
