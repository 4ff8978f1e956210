//! Upper bounds on the scheduling constraints of a preemptor. Each rule is evaluated for thousands of nodes or pods, and a user may write
//! thousands of rules. Giveway does not preempt for a pod above these bounds, so other preemptors are not delayed; kube-scheduler schedules
//! it.

use super::affinity::AffinityTerm;
use super::constraints::{Constraints, NodeTerm};
use super::selector::Selector;

/// Terms of node affinity, and what they require of labels and fields.
const NODE_RULES: usize = 300;
/// Terms of pod affinity, and as many of anti-affinity.
const TERMS: usize = 16;
/// Rules on labels in all of these terms, and in topology spread constraints.
const LABEL_RULES: usize = 100;
/// Constraints of topology spread.
const SPREADS: usize = 16;
/// Ports of the node.
const PORTS: usize = 100;
/// Tolerations.
const TOLERATIONS: usize = 500;

impl Constraints {
    /// Returns the first bound that is exceeded, in words.
    pub(crate) fn excess(&self) -> Option<String> {
        let of_node = |term: &NodeTerm| 1 + term.labels.len() + term.fields.len();
        let node_rules = self.node_affinity.iter().flatten().map(of_node).sum::<usize>() + self.node_selector.len();
        let counted: [(usize, usize, &str); 7] = [
            (node_rules, NODE_RULES, "rules of node affinity"),
            (self.affinity.len(), TERMS, "terms of pod affinity"),
            (self.anti_affinity.len(), TERMS, "terms of pod anti-affinity"),
            (self.label_rules(), LABEL_RULES, "rules on labels of other pods"),
            (self.spread.len(), SPREADS, "topology spread constraints"),
            (self.exclusive.len(), PORTS, "host ports and claims for one pod"),
            (self.tolerations.len(), TOLERATIONS, "tolerations"),
        ];
        let (count, most, what) = counted.into_iter().find(|(count, most, _)| count > most)?;
        Some(format!("{count} {what}, more than the {most} that Giveway evaluates"))
    }

    /// Returns how many rules on labels of other pods the constraints have.
    fn label_rules(&self) -> usize {
        let rules = |selector: &Option<Selector>| selector.as_ref().map_or(0, |selector| selector.keys().count());
        let of_term = |term: &AffinityTerm| rules(&term.selector) + rules(&term.namespaces.selector);
        let terms: usize = self.affinity.iter().chain(&self.anti_affinity).map(of_term).sum();
        terms + self.spread.iter().map(|spread| rules(&spread.selector)).sum::<usize>()
    }
}
