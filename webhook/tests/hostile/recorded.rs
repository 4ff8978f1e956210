//! Real reviews, and where API servers sent them.

/// Where a review is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Mutate,
    Validate,
    Guard,
}

/// All of them.
pub fn all() -> Vec<(Endpoint, &'static str)> {
    use Endpoint::{Guard, Mutate, Validate};
    vec![
        (Mutate, include_str!("../data/create-pod-member.json")),
        (Mutate, include_str!("../data/create-pod-bound-member.json")),
        (Mutate, include_str!("../data/create-pod-of-template.json")),
        (Mutate, include_str!("../data/create-pod-single.json")),
        (Mutate, include_str!("../data/create-podgroup.json")),
        (Mutate, include_str!("../data/update-podgroup.json")),
        (Mutate, include_str!("../data/create-workload.json")),
        (Mutate, include_str!("../data/create-priorityclass.json")),
        (Validate, include_str!("../data/create-pod-member.json")),
        (Validate, include_str!("../data/create-pod-of-template.json")),
        (Validate, include_str!("../data/update-podgroup.json")),
        (Validate, include_str!("../data/validate-podgroup.json")),
        (Validate, include_str!("../data/validate-workload.json")),
        (Validate, include_str!("../data/validate-priorityclass.json")),
        (Guard, include_str!("../data/announce-victim.json")),
        (Guard, include_str!("../data/delete-victim.json")),
    ]
}
