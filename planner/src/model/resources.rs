//! Amounts of resources: names become small numbers, amounts become integers in the scheduler's units.

use std::collections::BTreeMap;

/// Number of a resource name; see [`super::Cluster::resource_name`].
pub type ResourceId = u16;

/// `pods`: every pod asks for one.
pub(crate) const PODS: ResourceId = 3;

/// Amounts by resource: `cpu` in thousandths, everything else in whole units, rounded up. Zero amounts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources(Vec<(ResourceId, i128)>);

impl Resources {
    /// The amount of a resource; 0 when there is none.
    pub fn get(&self, id: ResourceId) -> i128 {
        self.0.binary_search_by_key(&id, |entry| entry.0).map_or(0, |at| self.0[at].1)
    }

    /// Every resource with a non-zero amount, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, i128)> + '_ {
        self.0.iter().copied()
    }

    /// Amounts from a map.
    pub(super) fn from_map(amounts: BTreeMap<ResourceId, i128>) -> Self {
        Self(amounts.into_iter().filter(|(_, amount)| *amount != 0).collect())
    }
}

/// The resource names of a cluster, numbered in the order of their first appearance after the four that every cluster has.
#[derive(Clone, Debug)]
pub(super) struct Names {
    list: Vec<String>,
    index: BTreeMap<String, ResourceId>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { list: Vec::new(), index: BTreeMap::new() };
        for name in ["cpu", "memory", "ephemeral-storage", "pods"] {
            names.id(name);
        }
        names
    }
}

impl Names {
    /// The number of a name. Names beyond 65,535 share one number; no cluster has so many.
    pub(super) fn id(&mut self, name: &str) -> ResourceId {
        if let Some(id) = self.index.get(name) {
            return *id;
        }
        let id = ResourceId::try_from(self.list.len()).unwrap_or(ResourceId::MAX);
        self.list.push(name.to_owned());
        self.index.insert(name.to_owned(), id);
        id
    }

    /// The name of a number.
    pub(super) fn name(&self, id: ResourceId) -> &str {
        self.list.get(usize::from(id)).map_or("", String::as_str)
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}
