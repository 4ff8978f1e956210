//! Steps of eviction for a critical add-on, by increasing disruption: the three steps of the rescheduler's design.

/// How disruptive the evictions for a critical add-on are; the first step in which it fits on some node is chosen ("Evicting pods").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Only pods whose budgets allow it and whose grace period is at most 10 s.
    #[default]
    Gentle,
    /// Only pods whose budgets allow it; longer grace periods are shortened.
    ShorterGrace,
    /// Any pod that may be evicted.
    Any,
}

impl Step {
    /// Every step, the first one first.
    pub const ALL: [Self; 3] = [Self::Gentle, Self::ShorterGrace, Self::Any];

    /// Returns the number of the step, from 1 (the least disruptive).
    pub fn number(self) -> i32 {
        match self {
            Self::Gentle => 1,
            Self::ShorterGrace => 2,
            Self::Any => 3,
        }
    }

    /// Returns which budgets may be violated and which grace periods are shortened in this step, as a clause that completes a sentence.
    pub fn means(self) -> &'static str {
        match self {
            Self::Gentle => "no PodDisruptionBudget is violated, and no grace period is longer than 10 s",
            Self::ShorterGrace => "no PodDisruptionBudget is violated, and longer grace periods are shortened to 10 s",
            Self::Any => {
                "PodDisruptionBudgets that are not guaranteed may be violated, and longer grace periods are shortened to 10 s"
            }
        }
    }

    /// Returns the step with this number; the last one for any number that no step has.
    pub fn of(number: i32) -> Self {
        Self::ALL.into_iter().find(|step| step.number() == number).unwrap_or(Self::Any)
    }

    /// Returns the least disruptive step that permits evictions with this number of budget violations (`violations`) and this number of
    /// pods whose grace period is shortened.
    pub(crate) fn needed(violations: usize, shortened: usize) -> Self {
        match (violations, shortened) {
            (0, 0) => Self::Gentle,
            (0, _) => Self::ShorterGrace,
            _ => Self::Any,
        }
    }
}
