//! Faults of calls, drawn from the seed. Faults of processes and watches are in [`crate::simulation::plot`].

use giveway_tests::random::Random;
use std::collections::BTreeMap;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The request is lost.
    RequestLost,
    /// The call is made, and its answer is lost.
    AnswerLost,
    /// The request arrives late.
    Late,
    /// The call is made, and the answer arrives late.
    AnswerLate,
    /// The API server is overloaded, and says so.
    Overloaded,
    /// The API server fails before it did anything.
    Error,
    /// The API server fails after it did everything.
    ErrorAfterwards,
    /// The object changed meanwhile.
    Conflict,
}

impl Fault {
    const ALL: [Self; 8] = [
        Self::RequestLost,
        Self::AnswerLost,
        Self::Late,
        Self::AnswerLate,
        Self::Overloaded,
        Self::Error,
        Self::ErrorAfterwards,
        Self::Conflict,
    ];

    /// The name of the fault.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestLost => "lost requests",
            Self::AnswerLost => "lost answers",
            Self::Late => "late requests",
            Self::AnswerLate => "late answers",
            Self::Overloaded => "429 (overload)",
            Self::Error => "500, nothing done",
            Self::ErrorAfterwards => "500, but done",
            Self::Conflict => "409 (conflict)",
        }
    }

    /// Whether the call is made.
    pub fn is_made(self) -> bool {
        matches!(self, Self::AnswerLost | Self::Late | Self::AnswerLate | Self::ErrorAfterwards)
    }
}

/// The faults of one simulation.
pub struct Faults {
    random: Random,
    /// So many of a thousand calls fail.
    rate: usize,
    /// No call fails from this millisecond on.
    pub until: u64,
    /// How often each kind of fault happened.
    pub count: BTreeMap<&'static str, usize>,
}

impl Faults {
    pub fn new(seed: u64, until: u64) -> Self {
        let mut random = Random::new(seed, 2, 0);
        let rate = [0, 0, 10, 30, 100, 250][random.below(6)];
        Self { random, rate, until, count: BTreeMap::new() }
    }

    /// What happens to a call that is made now.
    pub fn draw(&mut self, now: u64) -> Option<Fault> {
        let fault = Fault::ALL[self.random.below(Fault::ALL.len())];
        let strikes = self.random.below(1000) < self.rate && now < self.until;
        strikes.then(|| {
            self.note(fault.name());
            fault
        })
    }

    /// Counts a fault.
    pub fn note(&mut self, kind: &'static str) {
        *self.count.entry(kind).or_default() += 1;
    }

    /// A number of milliseconds.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below((most - least + 1) as usize) as u64
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.random.percent(percent)
    }
}
