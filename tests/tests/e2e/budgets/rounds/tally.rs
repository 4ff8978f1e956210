//! Counts what happened in the rounds and checks that every kind of event occurred often enough for the test to mean something.

use super::play::{Outcome, Played};
use super::script::Form;
use giveway_tests::audit::How;
use giveway_tests::audit::budgets::Judgement;
use giveway_tests::random::share;
use std::fmt;

/// Number of rounds in which each kind of event happened.
#[derive(Default)]
pub struct Tally {
    pub rounds: usize,
    /// A pod with a threshold was evicted within the allowance of its budget.
    pub within: usize,
    /// A budget prevented an eviction: the API server refused it, or the preemptor's message names the budget.
    pub refused: usize,
    /// Of these, the API server refused a planned eviction.
    pub refused_midway: usize,
    /// A budget was violated by a preemptor that reaches the threshold.
    pub forced: usize,
    /// Every preemptor was bound.
    pub bound: usize,
    /// A preemptor was reported as unschedulable.
    pub unschedulable: usize,
    /// Another user tried to evict a pod with a threshold.
    pub others: usize,
    /// A pod with a threshold became unready.
    pub flips: usize,
    /// The pods with a threshold belonged to a Deployment, which recreates them.
    pub recreated: usize,
}

impl Tally {
    pub fn new(played: &[Played], judgement: &Judgement) -> Self {
        let mut tally = Self { rounds: played.len(), ..Self::default() };
        for round in played {
            let of = |name: &str| name.starts_with(&round.prefix);
            let acts = || judgement.acts.iter().filter(|act| of(&act.pod.1) && !act.budgets.is_empty());
            let midway = judgement.refused.iter().any(|removal| of(&removal.pod.1));
            let budget = |outcome: &Outcome| matches!(outcome, Outcome::Unschedulable(why) if why.contains("budget"));
            tally.within += usize::from(acts().any(|act| act.guarded && act.how == How::Evict));
            tally.forced += usize::from(acts().any(|act| !act.guarded && act.how == How::Delete));
            tally.refused += usize::from(midway || round.outcomes.iter().any(budget));
            tally.refused_midway += usize::from(midway);
            let bound = round.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Bound));
            tally.bound += usize::from(bound);
            tally.unschedulable += usize::from(!bound);
            tally.others += usize::from(!round.evictions.is_empty());
            tally.flips += usize::from(round.flipped);
            tally.recreated += usize::from(round.form == Form::Deployment);
        }
        tally
    }

    /// Panics if an event happened in too few rounds.
    pub fn check(&self) {
        for (what, count, least) in [
            ("rounds", self.rounds, 200),
            ("evictions of pods with a threshold within the allowance", self.within, 15),
            ("evictions prevented by a budget", self.refused, 25),
            ("evictions refused by the API server", self.refused_midway, 5),
            ("violations by preemptors that reach the threshold", self.forced, 12),
            ("all preemptors bound", self.bound, 50),
            ("unschedulable preemptors", self.unschedulable, 15),
            ("evictions by another user", self.others, 50),
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
        write!(
            f,
            "{} rounds: a pod with a threshold evicted within its budget's allowance in {}",
            self.rounds, self.within
        )?;
        write!(
            f,
            ", an eviction prevented by a budget in {} (refused by the API server in {})",
            self.refused, self.refused_midway
        )?;
        write!(f, ", a budget violated by a preemptor that reaches the threshold in {}", self.forced)?;
        write!(f, "; every preemptor bound in {}, some unschedulable in {}", self.bound, self.unschedulable)?;
        write!(f, "; evictions by another user in {}, unready pods in {}", self.others, self.flips)?;
        write!(f, ", Deployments in {}", self.recreated)
    }
}
