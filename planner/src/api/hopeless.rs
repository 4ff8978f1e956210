//! Why no node can be freed for a critical add-on, with the numbers of the nearest one.

use super::refusal::Refusal;
use super::shortfall::GuaranteedBudget;
use crate::model::quantity;
use giveway_crds::wording::{agree, part_of, pods};
use smol_str::SmolStr;
use std::fmt;

/// Why no pod is evicted for a critical add-on. `Display` is the sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hopeless {
    /// How many nodes there are.
    pub nodes: usize,
    /// Requirements of the pod of which it is not known whether evictions satisfy them; if there are any, nothing else was checked.
    pub unknown: Vec<String>,
    /// Number of nodes that are infeasible whatever is evicted there, by reason; the most frequent reason first.
    pub refusals: Vec<(usize, Refusal)>,
    /// Of the others, the one that lacks least.
    pub nearest: Option<Nearest>,
    /// Number of nodes on which victims were searched, and number of nodes that evictions could free. They are equal unless the search
    /// ended early.
    pub looked: (usize, usize),
}

/// The node on which the critical add-on lacks least after the eviction of all pods there that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its name.
    pub node: SmolStr,
    /// Pods there that may be evicted.
    pub evictable: usize,
    /// Pods there that must not be evicted: critical ones, those of DaemonSets, static and protected ones, and groups disrupted together
    /// with such a pod.
    pub stay: usize,
    /// Those of them whose namespaces are protected.
    pub protected: usize,
    /// What is still missing without the pods that may be evicted: name and amount of each resource.
    pub lacks: Vec<(String, i128)>,
    /// Why the pod does not fit although enough resources are free: "a port that it needs is taken".
    pub refusal: Option<String>,
    /// Budgets that are guaranteed against the pod and allow fewer evictions than it needs.
    pub guaranteed: Vec<GuaranteedBudget>,
}

impl fmt::Display for Hopeless {
    /// Writes why no pod is evicted for the critical add-on: unknown requirements, or the nearest node, and numbers of nodes by reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unknown.is_empty() {
            return write!(
                f,
                "No pod is evicted for it, because eviction may not help: where it can run depends on {}.",
                self.unknown.join(", nor ")
            );
        }
        match &self.nearest {
            None if self.nodes == 0 => f.write_str("There is no node.")?,
            None => f.write_str("It fits on no node, even with all pods evicted, so no pod is evicted:")?,
            Some(nearest) => write!(f, "No node can be freed for it, so no pod is evicted. {nearest}")?,
        }
        if !self.refusals.is_empty() {
            let list: Vec<String> = self.refusals.iter().map(|(n, refusal)| format!("{n} {refusal}")).collect();
            write!(f, " {}.", list.join(", "))?;
        }
        if self.looked.0 < self.looked.1 {
            let looked = part_of(self.looked.0, self.looked.1, ("node", "nodes"), ("was", "were"));
            write!(f, " Only {looked} looked at.")?;
        }
        Ok(())
    }
}

impl fmt::Display for Nearest {
    /// Writes what is still missing on this node after the permitted evictions, and how many pods there cannot be evicted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, evictable, stay, protected, .. } = self;
        write!(f, "The nearest is {node}: without the {} there that may be evicted ", pods(*evictable))?;
        if !self.lacks.is_empty() {
            let amount = |(name, amount): &(String, i128)| format!("{} {name}", quantity::format(name, *amount));
            write!(f, "it still lacks {}", self.lacks.iter().map(amount).collect::<Vec<_>>().join(", "))?;
        } else if let Some(refusal) = &self.refusal {
            f.write_str(refusal)?;
        } else if self.guaranteed.is_empty() {
            f.write_str("it would fit, but the critical pods among them would not all fit on other nodes")?;
        } else {
            let list: Vec<String> = self.guaranteed.iter().map(ToString::to_string).collect();
            write!(f, "it would fit, but too many of them belong to {}", list.join(", or of "))?;
        }
        write!(f, "; {} there cannot be evicted", pods(*stay))?;
        match protected {
            0 => f.write_str("."),
            n => {
                let namespaces = agree(*n, "a protected namespace", "protected namespaces");
                write!(f, ", {n} of them because no pod of {namespaces} is evicted.")
            }
        }
    }
}
