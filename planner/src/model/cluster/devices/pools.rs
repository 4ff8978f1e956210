//! How many devices of a driver a node has: those of the newest complete generation of each pool on it, less those of claims that no pod on
//! the node holds alone. Those of other claims count as requests of the pods that hold them, so that an eviction frees them.

use super::{Devices, PoolKey};
use crate::model::cluster::Cluster;
use crate::model::cluster::counted::Counted;
use crate::model::devices::{Claim, Slice};
use giveway_crds::devices::ResourceSlice;
use smol_str::SmolStr;
use std::collections::BTreeSet;

/// A pool of devices of one driver (DRA), which one or more ResourceSlices describe.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    slices: BTreeSet<SmolStr>,
    /// The node that has it.
    pub(super) node: Option<SmolStr>,
    /// How many devices can be allocated; none while not all slices of the newest generation are known.
    devices: i128,
    /// True if it is on one node and all of its devices are counted.
    is_simple: bool,
}

impl Devices {
    /// Returns true if all devices of a DRA driver are counted: each of its pools is on one node, and all devices of the pool can be
    /// counted.
    pub(super) fn are_counted(&self, driver: &str) -> bool {
        !self.uncounted.contains_key(driver)
    }

    /// Returns the name of the node that has a pool of devices; `None` if there is no such pool, several nodes can use it, or its devices
    /// are not counted.
    pub(super) fn node_of(&self, pool: &PoolKey) -> Option<&SmolStr> {
        self.pools.get(pool)?.node.as_ref()
    }

    /// Returns the pool of devices that these ResourceSlices describe, by the newest generation among them. It has 0 devices if slices of
    /// that generation are missing. `None` if the model has none of these slices.
    fn pool(&self, slices: BTreeSet<SmolStr>) -> Option<Pool> {
        let known = || slices.iter().filter_map(|name| self.slices.get(name));
        let newest = known().map(|slice| slice.generation).max()?;
        let newest: Vec<&Slice> = known().filter(|slice| slice.generation == newest).collect();
        let is_complete = newest.iter().all(|slice| newest.len() >= slice.of);
        let node = newest.first().and_then(|slice| slice.node.clone());
        let is_simple = newest.iter().all(|slice| slice.is_simple && slice.node == node);
        let devices = if is_complete { newest.iter().map(|slice| slice.devices).sum() } else { 0 };
        Some(Pool { node: node.filter(|_| is_simple), devices, is_simple, slices })
    }

    /// Updates the indexes of pools after the pool `key` changed from `old` to `new`; `None` if it did not exist, or does not any more.
    fn index_pool(&mut self, key: &PoolKey, old: Option<&Pool>, new: Option<&Pool>) {
        for (pool, is_new) in [(old, false), (new, true)] {
            let Some(pool) = pool else { continue };
            if let Some(node) = &pool.node {
                let at = (node.clone(), key.driver.clone());
                let names = self.pools_on.entry(at.clone()).or_default();
                let _ = if is_new { names.insert(key.name.clone()) } else { names.remove(&key.name) };
                if names.is_empty() {
                    self.pools_on.remove(&at);
                }
            }
            if !pool.is_simple {
                let pools = self.uncounted.entry(key.driver.clone()).or_default();
                *pools = if is_new { *pools + 1 } else { pools.saturating_sub(1) };
                if *pools == 0 {
                    self.uncounted.remove(&key.driver);
                }
            }
        }
    }
}

impl Cluster {
    /// Adds or replaces a ResourceSlice. Returns whether anything changed.
    pub fn upsert_resource_slice(&mut self, object: &ResourceSlice) -> bool {
        let Some(name) = object.metadata.name.as_deref().map(SmolStr::new) else { return false };
        let slice = Slice::from_object(object);
        if self.devices.slices.get(&name) == Some(&slice) {
            return false;
        }
        let old = self.devices.slices.insert(name.clone(), slice.clone());
        if let Some(old) = old.filter(|old| old.pool != slice.pool) {
            self.renew_pool(&old.pool, &name, false);
        }
        self.renew_pool(&slice.pool, &name, true);
        true
    }

    /// Removes a ResourceSlice. Returns whether it was there.
    pub fn remove_resource_slice(&mut self, name: &str) -> bool {
        let Some(slice) = self.devices.slices.remove(name) else { return false };
        self.renew_pool(&slice.pool, name, false);
        true
    }

    /// Builds a pool of devices again after its ResourceSlice `slice` was added or changed (`is_there`), or does not belong to the pool any
    /// more (`is_there` is false). Updates the nodes, and the pods with ResourceClaims, that depend on the pool.
    fn renew_pool(&mut self, key: &PoolKey, slice: &str, is_there: bool) {
        let devices = &mut self.devices;
        let old = devices.pools.remove(key);
        let mut slices = old.as_ref().map(|pool| pool.slices.clone()).unwrap_or_default();
        let _ = if is_there { slices.insert(slice.into()) } else { slices.remove(slice) };
        let were_counted = devices.are_counted(&key.driver);
        let new = devices.pool(slices);
        devices.index_pool(key, old.as_ref(), new.as_ref());
        let is_other = were_counted != devices.are_counted(&key.driver);
        let (before, now) = (old.and_then(|pool| pool.node), new.as_ref().and_then(|pool| pool.node.clone()));
        if let Some(pool) = new {
            devices.pools.insert(key.clone(), pool);
        }
        if self.start_counting(Counted::Devices(key.driver.clone())) || is_other {
            self.update_users_of_resource_claims();
        } else if before != now {
            let claims: Vec<_> = self.devices.claims_on.get(key).into_iter().flatten().cloned().collect();
            claims.iter().for_each(|claim| self.update_users_of_resource_claim(claim));
        }
        let nodes: BTreeSet<SmolStr> = before.into_iter().chain(now).collect();
        nodes.iter().for_each(|node| self.recount(node));
    }

    /// Returns how many devices of a driver belong to the pods on a node or are free for them: all devices of the node's pools, less those
    /// allocated to claims that are not reserved for exactly one pod that runs there.
    pub(in crate::model::cluster) fn devices_on(&self, driver: &str, node: &str) -> i128 {
        let devices = &self.devices;
        let on_node = devices.pools_on.get(&(SmolStr::new(node), SmolStr::new(driver)));
        let keys = on_node.into_iter().flatten();
        let keys = keys.map(|name| PoolKey { driver: driver.into(), name: name.clone() });
        let free = |key: PoolKey| {
            let claims = devices.claims_on.get(&key).into_iter().flatten();
            let others =
                claims.filter_map(|claim| devices.claims.get(claim)).filter(|claim| !self.is_held_on(claim, node));
            let used: i128 = others.map(|claim| claim.devices_of(&key)).sum();
            devices.pools.get(&key).map_or(0, |pool| pool.devices - used)
        };
        keys.map(free).sum()
    }

    /// Returns true if the ResourceClaim is reserved for exactly one pod, and that pod is bound to the node with this name and has not
    /// ended.
    fn is_held_on(&self, claim: &Claim, node: &str) -> bool {
        let holder = claim.holder.as_deref().and_then(|uid| self.pod_at(self.pod_with_uid(uid)?));
        holder.is_some_and(|pod| !pod.ended() && pod.node.as_deref() == Some(node))
    }
}
