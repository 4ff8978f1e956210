//! The contents of one random round, derived from the seed.

use giveway_tests::random::Random;

/// Nodes of a slot.
pub const NODES: usize = 2;
/// Pods of 1 CPU that fit on each node.
pub const PODS_PER_NODE: usize = 4;
/// Thresholds of the classes. [`PRIORITIES`] of preemptors are below, equal to and above them.
pub const THRESHOLDS: [i32; 3] = [300, 500, 700];
pub const PRIORITIES: [i32; 6] = [200, 300, 400, 500, 600, 700];

/// Owner of the pods with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Single pods without a controller.
    Bare,
    /// A Deployment, which recreates them.
    Deployment,
    /// A PodGroup of mode `Pod`.
    Group,
    /// Two PodGroups of mode `PodGroup`.
    Whole,
}

/// The other pods on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// Pods of lower priority than all others: the first victims of every preemptor.
    Low,
    /// Pods of the same priority as those with a threshold, in a budget that allows one disruption and is not guaranteed.
    Soft,
    /// Pods whose priority is above that of every preemptor.
    Top,
}

/// `minAvailable` or `maxUnavailable` of the budget.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Min(i32),
    Max(i32),
    MinPercent(usize),
    MaxPercent(usize),
}

/// Kind and size of a preemptor.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A single pod that requests this number of CPUs.
    Pod(u32),
    /// A gang of this number of pods, and whether its mode is `PodGroup`.
    Gang(usize, bool),
}

/// One round.
#[derive(Clone, Debug)]
pub struct Script {
    /// Threshold of the pods that the first budget selects.
    pub threshold: i32,
    pub form: Form,
    /// Number of pods with the threshold.
    pub pods: usize,
    pub rule: Rule,
    /// Whether unready pods may always be evicted.
    pub always_allow: bool,
    /// `minAvailable` of a second budget, over every other pod or, of a Deployment, all of them.
    pub second: Option<i32>,
    /// What fills the rest of the nodes.
    pub filler: Filler,
    /// Number of pods of 1 CPU that still fit.
    pub free: usize,
    /// Priority and shape of each preemptor.
    pub preemptors: Vec<(i32, Shape)>,
    /// Indices of the pods that another user evicts concurrently.
    pub evictions: Vec<usize>,
    /// Index of the pod that becomes unready concurrently.
    pub flip: Option<usize>,
    /// Milliseconds between the creation of the preemptors and these concurrent acts.
    pub pause: u64,
}

impl Script {
    /// Returns the round with this number in this slot.
    pub fn new(seed: u64, slot: usize, round: usize) -> Self {
        let mut random = Random::new(seed, slot, round);
        let random = &mut random;
        let form =
            [Form::Bare, Form::Bare, Form::Deployment, Form::Deployment, Form::Group, Form::Whole][random.below(6)];
        let pods = if form == Form::Whole { 4 + 2 * random.below(2) } else { 4 + random.below(4) };
        let threshold = THRESHOLDS[random.below(THRESHOLDS.len())];
        let preemptors = 1 + usize::from(random.percent(40));
        Self {
            threshold,
            form,
            pods,
            rule: rule(form, pods, random),
            always_allow: random.percent(20),
            second: random.percent(20).then(|| small(random.below(3))),
            filler: [Filler::Low, Filler::Soft, Filler::Soft, Filler::Top, Filler::Top][random.below(5)],
            free: random.below(2),
            preemptors: (0..preemptors).map(|_| (priority(threshold, random), shape(random))).collect(),
            evictions: (0..random.below(3)).map(|_| random.below(pods)).collect(),
            flip: random.percent(15).then(|| random.below(pods)),
            pause: 40 * random.below(8) as u64,
        }
    }
}

/// Returns a random rule. Budgets over pods without a controller support only absolute `minAvailable`.
fn rule(form: Form, pods: usize, random: &mut Random) -> Rule {
    let kind = if form == Form::Deployment { random.below(4) } else { 0 };
    match kind {
        0 => Rule::Min(small(pods - random.below(4).min(pods))),
        1 => Rule::Max(small(random.below(4))),
        2 => Rule::MinPercent(40 + 10 * random.below(6)),
        _ => Rule::MaxPercent(10 * random.below(7)),
    }
}

/// Returns a random priority of a preemptor, more often below the threshold than not.
fn priority(threshold: i32, random: &mut Random) -> i32 {
    let below = PRIORITIES.iter().filter(|priority| **priority < threshold).count();
    let choices = if random.percent(60) { below } else { PRIORITIES.len() };
    PRIORITIES[random.below(choices)]
}

fn shape(random: &mut Random) -> Shape {
    if random.percent(60) {
        Shape::Pod(1 + u32::try_from(random.below(3)).unwrap())
    } else {
        Shape::Gang(2 + random.below(3), random.percent(50))
    }
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap()
}
