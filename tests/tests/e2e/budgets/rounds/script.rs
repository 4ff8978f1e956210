//! What happens in one random round. Everything follows from the seed.

use giveway_tests::random::Random;

/// Nodes of a slot, and places of each.
pub const NODES: usize = 2;
pub const PLACES: usize = 4;
/// The thresholds that classes have, and the priorities of preemptors: below, equal to and above them.
pub const THRESHOLDS: [i32; 3] = [300, 500, 700];
pub const PRIORITIES: [i32; 6] = [200, 300, 400, 500, 600, 700];

/// How the guarded pods came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Single pods that nobody creates anew.
    Bare,
    /// A Deployment creates them anew.
    Deployment,
    /// A PodGroup of mode `Pod`.
    Group,
    /// Two PodGroups of mode `PodGroup`.
    Whole,
}

/// The other pods on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    /// Pods that everybody may take first.
    Low,
    /// Pods as important as the guarded ones, with a budget that allows one disruption and is not guaranteed.
    Soft,
    /// Pods that nobody may take.
    Top,
}

/// What the budget asks for.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Min(i32),
    Max(i32),
    MinPercent(usize),
    MaxPercent(usize),
}

/// What a preemptor wants.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// A pod of so many CPUs.
    Pod(u32),
    /// A gang of so many pods, and whether it gives way as a whole.
    Gang(usize, bool),
}

/// One round.
#[derive(Clone, Debug)]
pub struct Script {
    /// Threshold of the guarded pods.
    pub threshold: i32,
    pub form: Form,
    /// How many guarded pods there are.
    pub pods: usize,
    pub rule: Rule,
    /// Whether unready pods may always be evicted.
    pub always_allow: bool,
    /// `minAvailable` of a second budget, over every other pod or, of a Deployment, all of them.
    pub second: Option<i32>,
    /// What fills the rest of the nodes.
    pub filler: Filler,
    /// How many places stay free.
    pub free: usize,
    /// Who comes: priority and wish.
    pub takers: Vec<(i32, Wish)>,
    /// Which guarded pods somebody else asks to evict at the same time.
    pub evictions: Vec<usize>,
    /// Which guarded pod becomes unready at the same time.
    pub flip: Option<usize>,
    /// How much later than the preemptors those act, in milliseconds.
    pub pause: u64,
}

impl Script {
    /// The round of a slot.
    pub fn new(seed: u64, slot: usize, round: usize) -> Self {
        let mut random = Random::new(seed, slot, round);
        let random = &mut random;
        let form =
            [Form::Bare, Form::Bare, Form::Deployment, Form::Deployment, Form::Group, Form::Whole][random.below(6)];
        let pods = if form == Form::Whole { 4 + 2 * random.below(2) } else { 4 + random.below(4) };
        let threshold = THRESHOLDS[random.below(THRESHOLDS.len())];
        let takers = 1 + usize::from(random.percent(40));
        Self {
            threshold,
            form,
            pods,
            rule: rule(form, pods, random),
            always_allow: random.percent(20),
            second: random.percent(20).then(|| small(random.below(3))),
            filler: [Filler::Low, Filler::Soft, Filler::Soft, Filler::Top, Filler::Top][random.below(5)],
            free: random.below(2),
            takers: (0..takers).map(|_| (priority(threshold, random), wish(random))).collect(),
            evictions: (0..random.below(3)).map(|_| random.below(pods)).collect(),
            flip: random.percent(15).then(|| random.below(pods)),
            pause: 40 * random.below(8) as u64,
        }
    }
}

/// Pods without a controller can be counted only in absolute numbers.
fn rule(form: Form, pods: usize, random: &mut Random) -> Rule {
    let kind = if form == Form::Deployment { random.below(4) } else { 0 };
    match kind {
        0 => Rule::Min(small(pods - random.below(4).min(pods))),
        1 => Rule::Max(small(random.below(4))),
        2 => Rule::MinPercent(40 + 10 * random.below(6)),
        _ => Rule::MaxPercent(10 * random.below(7)),
    }
}

/// More often below the threshold than not.
fn priority(threshold: i32, random: &mut Random) -> i32 {
    let below = PRIORITIES.iter().filter(|priority| **priority < threshold).count();
    let choices = if random.percent(60) { below } else { PRIORITIES.len() };
    PRIORITIES[random.below(choices)]
}

fn wish(random: &mut Random) -> Wish {
    if random.percent(60) {
        Wish::Pod(1 + u32::try_from(random.below(3)).unwrap())
    } else {
        Wish::Gang(2 + random.below(3), random.percent(50))
    }
}

fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap()
}
