//! What limits evictions: the mode and the number per minute, which administrators set, and bans and circuit breakers after failures.

pub mod bans;
pub mod breakers;
pub mod rates;
pub mod switch;

use bans::Bans;
use breakers::Breakers;
use giveway_crds::condition::Reason;
use giveway_crds::mode::Mode;
use giveway_crds::wording::conditions::pending::limit_is_zero;
use rates::{Most, Rates};
use switch::Switch;

/// What restrains evictions: the mode, the limits on evictions per minute, bans, and circuit breakers.
#[derive(Debug)]
pub struct Restraint {
    /// The mode.
    pub switch: Switch,
    /// The evictions of the last minute, and their limits.
    pub rates: Rates,
    /// What is not tried again for a while.
    pub bans: Bans,
    /// Which preemptors get no evictions after plans that failed.
    pub breakers: Breakers,
}

impl Restraint {
    /// Creates the limits, in the mode of the chart.
    pub fn new(chart: Mode, most: Most) -> Self {
        Self {
            switch: Switch::new(chart),
            rates: Rates::new(most),
            bans: Bans::default(),
            breakers: Breakers::default(),
        }
    }

    /// Returns the reason why no pod may be evicted now; `None` if evictions are permitted.
    pub fn reason(&self) -> Option<Reason> {
        match self.switch.mode() {
            Mode::Enforce => self.rates.most().zero().map(|_| Reason::EvictionsLimited),
            Mode::Observe => Some(Reason::Observing),
            Mode::Off => Some(Reason::SwitchedOff),
        }
    }

    /// Returns why no pod may be evicted now, as the beginning of a sentence.
    pub fn in_words(&self) -> String {
        match (self.switch.mode(), self.rates.most().zero()) {
            (Mode::Enforce, Some(limit)) => limit_is_zero(limit),
            (mode, _) => mode.restraint().to_owned(),
        }
    }
}
