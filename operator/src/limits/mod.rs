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
use rates::{EvictionLimits, Rates};
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
    /// Creates the state of a new process, without evictions, bans and outcomes. `chart` is the mode in the values of the chart, `limits`
    /// are the limits on evictions per minute.
    pub fn new(chart: Mode, limits: EvictionLimits) -> Self {
        Self {
            switch: Switch::new(chart),
            rates: Rates::new(limits),
            bans: Bans::default(),
            breakers: Breakers::default(),
        }
    }

    /// Returns why no pod at all may be evicted now: because of the mode, or because a limit is 0. `None` if evictions are permitted.
    pub fn reason(&self) -> Option<Reason> {
        match self.switch.mode() {
            Mode::Enforce => self.rates.most().zero().map(|_| Reason::EvictionsLimited),
            Mode::Observe => Some(Reason::Observing),
            Mode::Off => Some(Reason::SwitchedOff),
        }
    }

    /// Returns why no pod at all may be evicted now, as the beginning of a sentence.
    pub fn in_words(&self) -> String {
        match (self.switch.mode(), self.rates.most().zero()) {
            (Mode::Enforce, Some(limit)) => limit_is_zero(limit),
            (mode, _) => mode.restraint().to_owned(),
        }
    }
}
