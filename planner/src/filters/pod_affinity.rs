//! Filter: required pod affinity and anti-affinity, from both sides (kube-scheduler's InterPodAffinity). What is counted for it
//! is in [`super::neighbours`].

use super::labels::SelectorLabels;
use crate::model::{AffinityTerm, ClassId, Cluster, Pod, PodIndex, Selector};
use std::collections::{BTreeMap, BTreeSet};

/// Returns true if a required anti-affinity term of a bound pod, or of one of the `nominated` pods, matches one of `members`. Pods of the
/// equivalence class `own`, that of the members, are ignored.
pub(crate) fn excluded_by_anti_affinity(
    cluster: &Cluster,
    members: &[PodIndex],
    own: ClassId,
    nominated: impl Iterator<Item = PodIndex>,
) -> bool {
    let waiting = nominated.filter_map(|pod| {
        let id = cluster.row(pod).class;
        Some((id, cluster.class(id)?.as_ref()))
    });
    let others = cluster.repelling().chain(waiting).filter(|(id, _)| *id != own);
    let terms: BTreeSet<&AffinityTerm> = others.flat_map(|(_, class)| &class.constraints.anti_affinity).collect();
    if terms.is_empty() {
        return false;
    }
    // Members with equal values of the labels that these terms select are equal for them.
    let labels = SelectorLabels::of(terms.iter().filter_map(|term| term.selector.as_ref()));
    let mut kinds: BTreeMap<_, &Pod> = BTreeMap::new();
    for member in members.iter().filter_map(|member| cluster.pod_at(*member)) {
        kinds.entry((member.key.namespace.as_str(), labels.of_pod(member))).or_insert(member);
    }
    let terms = AffinityTerms::new(terms.into_iter());
    kinds.values().any(|member| !terms.matching(cluster, member).is_empty())
}

/// An index of affinity terms by a label that they require: of thousands of terms of other pods, a pod is matched only against those that
/// require one of its labels.
pub(super) struct AffinityTerms<'a> {
    list: Vec<&'a AffinityTerm>,
    by_label: BTreeMap<(&'a str, &'a str), Vec<usize>>,
    /// Terms that select no value of a label.
    others: Vec<usize>,
}

impl<'a> AffinityTerms<'a> {
    /// Indexes affinity terms by the label values that they require. Terms without a selector match no pod and are left out.
    pub(super) fn new(terms: impl Iterator<Item = &'a AffinityTerm>) -> Self {
        let mut all = Self { list: terms.collect(), by_label: BTreeMap::new(), others: Vec::new() };
        for (number, term) in all.list.iter().enumerate() {
            match term.selector.as_ref().map(Selector::needs) {
                None => {}
                Some(None) => all.others.push(number),
                Some(Some((key, values))) => {
                    for value in values {
                        all.by_label.entry((key, value)).or_default().push(number);
                    }
                }
            }
        }
        all
    }

    /// Returns the terms that match a pod, as positions in the list given to [`Self::new`], ascending.
    pub(super) fn matching(&self, cluster: &Cluster, pod: &Pod) -> Vec<usize> {
        let own = pod.labels.iter().filter_map(|label| self.by_label.get(&label));
        let asked = own.chain([&self.others]).flatten().copied();
        let mut numbers: Vec<usize> =
            asked.filter(|number| affinity_term_matches(cluster, self.list[*number], pod)).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Returns true if the selector and the namespaces of an affinity or anti-affinity term match a pod; its topology key is not considered.
pub(crate) fn affinity_term_matches(cluster: &Cluster, term: &AffinityTerm, pod: &Pod) -> bool {
    cluster.in_namespaces(&term.namespaces, &pod.key.namespace)
        && term.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}
