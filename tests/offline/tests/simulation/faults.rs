//! Faults of calls, drawn from the seed. Faults of processes and watches are in [`crate::simulation::plot`].

use giveway_tests::random::Random;
use std::collections::BTreeMap;

/// A fault of a call.
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
    /// The API server answers that it is overloaded.
    Overloaded,
    /// The API server fails before it has carried out the call.
    Error,
    /// The API server fails after it has carried out the call.
    ErrorAfterwards,
    /// The API server reports a conflict, because the object changed.
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

    /// Returns the name of the fault.
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

    /// Returns true if the call is carried out.
    pub fn is_made(self) -> bool {
        matches!(self, Self::AnswerLost | Self::Late | Self::AnswerLate | Self::ErrorAfterwards)
    }
}

/// The faults of one simulation.
pub struct Faults {
    random: Random,
    /// Number of failed calls per thousand.
    rate: usize,
    /// From this time on no call fails, in milliseconds.
    pub until: u64,
    /// Number of faults of each kind.
    pub count: BTreeMap<&'static str, usize>,
}

impl Faults {
    pub fn new(seed: u64, until: u64) -> Self {
        let mut random = Random::new(seed, 2, 0);
        let rate = [0, 0, 10, 30, 100, 250][random.below(6)];
        Self { random, rate, until, count: BTreeMap::new() }
    }

    /// Returns the fault of a call that is made now; `None` if it works.
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

    /// Returns a number of milliseconds in this range.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.random.below((most - least + 1) as usize) as u64
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.random.percent(percent)
    }
}
