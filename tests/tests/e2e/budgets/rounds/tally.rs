//! What the rounds were made of, so that nobody has to believe that something was at stake in them.

use super::play::{Outcome, Played};
use super::script::Form;
use giveway_tests::audit::How;
use giveway_tests::audit::budgets::Judgement;
use giveway_tests::random::share;
use std::fmt;

/// In how many rounds it happened.
#[derive(Default)]
pub struct Tally {
    pub rounds: usize,
    /// A guarded pod was evicted, because its budget allowed it.
    pub within: usize,
    /// A budget stood in the way: the API server refused an eviction, or the preemptor was told of the budget.
    pub refused: usize,
    /// Of those, the API server refused an eviction that was planned.
    pub refused_midway: usize,
    /// A budget was violated by a preemptor that may.
    pub forced: usize,
    /// Every preemptor got its places.
    pub placed: usize,
    /// Some preemptor got none.
    pub without: usize,
    /// Somebody else evicted a guarded pod meanwhile, or was refused.
    pub others: usize,
    /// A guarded pod became unready meanwhile.
    pub flips: usize,
    /// The guarded pods were created anew by a Deployment.
    pub recreated: usize,
}

impl Tally {
    pub fn new(played: &[Played], judgement: &Judgement) -> Self {
        let mut tally = Self { rounds: played.len(), ..Self::default() };
        for round in played {
            let of = |name: &str| name.starts_with(&round.prefix);
            let acts = || judgement.acts.iter().filter(|act| of(&act.pod.1) && !act.budgets.is_empty());
            let midway = judgement.refused.iter().any(|removal| of(&removal.pod.1));
            let told = |outcome: &Outcome| matches!(outcome, Outcome::Told(why) if why.contains("budget"));
            tally.within += usize::from(acts().any(|act| act.guarded && act.how == How::Evict));
            tally.forced += usize::from(acts().any(|act| !act.guarded && act.how == How::Delete));
            tally.refused += usize::from(midway || round.outcomes.iter().any(told));
            tally.refused_midway += usize::from(midway);
            let placed = round.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Placed));
            tally.placed += usize::from(placed);
            tally.without += usize::from(!placed);
            tally.others += usize::from(!round.evictions.is_empty());
            tally.flips += usize::from(round.flipped);
            tally.recreated += usize::from(round.form == Form::Deployment);
        }
        tally
    }

    /// Every kind of round came up often enough.
    pub fn check(&self) {
        for (what, count, least) in [
            ("rounds", self.rounds, 200),
            ("evictions of guarded pods within the allowance", self.within, 15),
            ("budgets in the way", self.refused, 25),
            ("evictions refused by the API server", self.refused_midway, 5),
            ("violations by who may", self.forced, 12),
            ("successes", self.placed, 50),
            ("preemptors without a place", self.without, 15),
            ("evictions by somebody else", self.others, 50),
            ("unready pods", self.flips, 10),
            ("Deployments", self.recreated, 30),
        ] {
            let least = share(least);
            assert!(count >= least, "only {count} rounds with {what}, at least {least} wanted: {self}");
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rounds: a guarded pod evicted within its budget's allowance in {}", self.rounds, self.within)?;
        write!(f, ", a budget in the way in {} (refused by the API server in {})", self.refused, self.refused_midway)?;
        write!(f, ", a budget violated from the threshold upwards in {}", self.forced)?;
        write!(f, "; every preemptor placed in {}, some not in {}", self.placed, self.without)?;
        write!(f, "; evictions by somebody else in {}, unready pods in {}", self.others, self.flips)?;
        write!(f, ", Deployments in {}", self.recreated)
    }
}
