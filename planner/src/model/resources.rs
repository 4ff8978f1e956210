//! Amounts of resources: names become small numbers, amounts become integers in the scheduler's units.
//!
//! Only names that some node offers are numbered. What a pod asks for and no node offers is kept by name beside its
//! amounts, and all of it counts as one of a resource of which no node has any ([`UNOFFERED`]): such a pod fits nowhere,
//! and however many names are invented, what is kept of every node is no wider for it.

use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Number of a resource name; see [`super::Cluster::resource_name`].
pub type ResourceId = u16;

/// Number of `cpu`, whose amounts are thousandths of a core.
pub(crate) const CPU: ResourceId = 0;

/// Number of all resources that no node offers, whatever their names: their capacity is zero.
pub(crate) const UNOFFERED: ResourceId = 4;

/// Amounts by resource: `cpu` in thousandths, everything else in whole units, rounded up. Zero amounts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// By number; includes one entry [`UNOFFERED`] if the pod requests a resource that no node offers.
    amounts: Vec<(ResourceId, i128)>,
    /// Without a number, by name.
    unnumbered: Box<[Unnumbered]>,
}

/// An amount of something that no node offers in `status.allocatable`, or that kube-scheduler does not compare with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Unnumbered {
    name: SmolStr,
    amount: i128,
    /// What may satisfy the request although no node offers it; `None` if nothing can.
    by: Option<Provider>,
}

/// Returns true if this is the name of volumes or devices that the model counts itself: it contains a space, so that no object can request
/// it.
pub fn is_counted(name: &str) -> bool {
    name.contains(' ')
}

/// What may satisfy a request that is not compared with what nodes offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Provider {
    /// Devices of dynamic resource allocation: a DeviceClass serves the extended resource.
    Devices,
    /// An extender, or nothing: the configuration of kube-scheduler ignores the resource.
    Ignored,
}

impl Resources {
    /// Returns the amount of a resource in the scheduler's unit; 0 if there is none.
    pub fn get(&self, id: ResourceId) -> i128 {
        self.amounts.binary_search_by_key(&id, |entry| entry.0).map_or(0, |at| self.amounts[at].1)
    }

    /// Returns every resource with a non-zero amount, in ascending order of [`ResourceId`].
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        self.amounts.iter().copied()
    }

    /// Returns the requested resources that no node offers, by name; also what the model counts itself and no node has.
    pub fn unoffered(&self) -> impl Iterator<Item = (&str, i128)> {
        self.unnumbered.iter().filter(|entry| entry.by.is_none()).map(|entry| (entry.name.as_str(), entry.amount))
    }

    /// Returns the names of the requested resources that this provider may provide, and that are therefore not compared with what nodes
    /// offer.
    pub(super) fn provided(&self, by: Provider) -> impl Iterator<Item = &str> {
        self.unnumbered.iter().filter(move |entry| entry.by == Some(by)).map(|entry| entry.name.as_str())
    }

    /// Returns the names of the requested resources that have no number: no node offers them, or they are not compared with what nodes
    /// offer.
    pub(super) fn unnumbered(&self) -> impl Iterator<Item = &SmolStr> {
        self.unnumbered.iter().map(|entry| &entry.name)
    }

    /// Creates the requests with these amounts by name; a name without a number counts as offered by no node.
    pub(super) fn from_names(amounts: BTreeMap<&str, i128>, names: &ResourceNames) -> Self {
        let (mut numbered, mut unnumbered) = (Vec::with_capacity(amounts.len()), Vec::new());
        for (name, amount) in amounts.into_iter().filter(|(_, amount)| *amount != 0) {
            match names.get(name) {
                Some(id) => numbered.push((id, amount)),
                None => unnumbered.push(Unnumbered { name: name.into(), amount, by: None }),
            }
        }
        Self::new(numbered, unnumbered)
    }

    /// Returns the same amounts after resource names got numbers, or after their providers changed. `provider` is called with a resource
    /// name and whether a node offers it; if it returns a provider, the amount is not compared with what nodes offer.
    pub(super) fn renumbered(&self, names: &ResourceNames, provider: impl Fn(&str, bool) -> Option<Provider>) -> Self {
        let (mut numbered, mut unnumbered) = (Vec::new(), Vec::new());
        let offered = self.amounts.iter().filter(|(id, _)| *id != UNOFFERED);
        let offered = offered.map(|(id, amount)| (names.list.get(usize::from(*id)), *amount));
        let others = self.unnumbered.iter().map(|entry| (Some(&entry.name), entry.amount));
        for (name, amount) in offered.chain(others).filter_map(|(name, amount)| Some((name?, amount))) {
            match (names.get(name), provider(name, names.get(name).is_some())) {
                (Some(id), None) => numbered.push((id, amount)),
                (_, by) => unnumbered.push(Unnumbered { name: name.clone(), amount, by }),
            }
        }
        unnumbered.sort_unstable();
        Self::new(numbered, unnumbered)
    }

    /// Returns true if the amounts include volumes or devices that the model counts itself; `is_counted` returns true for the resource
    /// numbers of these.
    pub(super) fn has_counted(&self, is_counted: impl Fn(ResourceId) -> bool) -> bool {
        self.amounts.iter().any(|(id, _)| is_counted(*id))
            || self.unnumbered.iter().any(|entry| self::is_counted(&entry.name))
    }

    /// Returns the amounts with other volumes and devices: those that the model counts itself (`is_counted` returns true for their resource
    /// numbers) are replaced by `counted`, and by `missing`, of which no node has any.
    pub(super) fn with_counted(
        &self,
        is_counted: impl Fn(ResourceId) -> bool,
        counted: BTreeMap<ResourceId, i128>,
        missing: BTreeMap<SmolStr, i128>,
    ) -> Self {
        let others = self.amounts.iter().copied().filter(|(id, _)| *id != UNOFFERED && !is_counted(*id));
        let missing = missing.into_iter().map(|(name, amount)| Unnumbered { name, amount, by: None });
        let unnumbered = self.unnumbered.iter().filter(|entry| !self::is_counted(&entry.name)).cloned().chain(missing);
        let mut unnumbered: Vec<_> = unnumbered.collect();
        unnumbered.sort_unstable();
        Self::new(others.chain(counted).collect(), unnumbered)
    }

    /// Creates amounts; `unnumbered` are those without a resource number. If nothing provides one of these, the amounts include 1 of
    /// [`UNOFFERED`].
    fn new(mut amounts: Vec<(ResourceId, i128)>, unnumbered: Vec<Unnumbered>) -> Self {
        if unnumbered.iter().any(|entry| entry.by.is_none()) {
            amounts.push((UNOFFERED, 1));
        }
        amounts.sort_unstable();
        Self { amounts, unnumbered: unnumbered.into_boxed_slice() }
    }
}

/// The names of the resources that nodes offer, numbered in the order of their first appearance after the four that every
/// cluster has and [`UNOFFERED`].
#[derive(Clone, Debug)]
pub(super) struct ResourceNames {
    list: Vec<SmolStr>,
    index: BTreeMap<SmolStr, ResourceId>,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let list = ["cpu", "memory", "ephemeral-storage", "pods"].map(SmolStr::new).to_vec();
        let index = (0..).zip(&list).map(|(id, name)| (name.clone(), id)).collect();
        let mut names = Self { list, index };
        // The name of `UNOFFERED` is never read: such requests are stored under their own names.
        names.list.push(SmolStr::default());
        names
    }
}

impl ResourceNames {
    /// Returns the number of a resource that a node offers or offered; `None` for any other name.
    pub(super) fn get(&self, name: &str) -> Option<ResourceId> {
        self.index.get(name).copied()
    }

    /// Returns the number of a resource that a node offers, a new one if it has none; `None` after 65,536 numbers, when further resources
    /// count as not offered.
    pub(super) fn number(&mut self, name: &str) -> Option<ResourceId> {
        if let Some(id) = self.get(name) {
            return Some(id);
        }
        let id = ResourceId::try_from(self.list.len()).ok()?;
        self.list.push(name.into());
        self.index.insert(name.into(), id);
        Some(id)
    }

    /// Returns the name of the resource with this number.
    pub(super) fn name(&self, id: ResourceId) -> &str {
        self.list.get(usize::from(id)).map_or("", SmolStr::as_str)
    }

    /// Returns how many resource numbers are in use; every number is less than that.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the names that have this number or a higher one, in the order of their numbers.
    pub(super) fn since(&self, first: usize) -> &[SmolStr] {
        self.list.get(first..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_beyond_the_last_number_gets_none_and_reuses_none() {
        let mut names = ResourceNames::default();
        for at in 0..=u32::from(ResourceId::MAX) - 5 {
            assert!(names.number(&format!("r{at}")).is_some(), "{at}");
        }
        assert_eq!(names.get("r65530"), Some(ResourceId::MAX));
        assert_eq!(names.number("one-more"), None);
        assert_eq!(names.name(ResourceId::MAX), "r65530");
        let asked = Resources::from_names(BTreeMap::from([("one-more", 2), ("r65530", 1)]), &names);
        assert_eq!(asked.iter().collect::<Vec<_>>(), [(UNOFFERED, 1), (ResourceId::MAX, 1)]);
        assert_eq!(asked.unoffered().collect::<Vec<_>>(), [("one-more", 2)]);
    }
}
