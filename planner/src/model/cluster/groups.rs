//! Groups of the model, and their members.

use super::{Cluster, GroupSlot};
use crate::model::ModelError;
use crate::model::{Finished, Group, GroupIndex, ObjectKey, Pod, PodIndex};
use giveway_crds::PodGroup;
use giveway_crds::native::{self, NativeGroup};

impl Cluster {
    /// Adds or replaces a PodGroup of Giveway. Returns true if anything changed that a decision can depend on.
    ///
    /// # Errors
    /// The scheduling policy of the group cannot be read, or it has no name; the group is then not in the model.
    pub fn upsert_group(&mut self, object: &PodGroup) -> Result<bool, ModelError> {
        match Group::from_object(object, &self.classes) {
            Ok(group) => Ok(self.put_group(group)),
            Err(error) => {
                let metadata = &object.metadata;
                let namespace = metadata.namespace.clone().unwrap_or_default();
                self.remove_group(&ObjectKey::new(namespace, metadata.name.clone().unwrap_or_default()));
                Err(error)
            }
        }
    }

    /// Adds or replaces a native group: a PodGroup of Kubernetes itself. Its key in the model has the API group in its name, as its members
    /// name it. Returns true if anything changed that a decision can depend on.
    ///
    /// # Errors
    /// The object has no name.
    pub fn upsert_native_group(&mut self, object: &NativeGroup) -> Result<bool, ModelError> {
        Group::from_native(object, &self.classes).map(|group| self.put_group(group))
    }

    /// Removes a native group (a PodGroup of Kubernetes itself). `key` has the group's own name, without the API group. Returns true if the
    /// model had it.
    pub fn remove_native_group(&mut self, key: &ObjectKey) -> bool {
        self.remove_group(&ObjectKey::new(&key.namespace, native::key_name(&key.name)))
    }

    /// Returns the keys of the native groups (PodGroups of Kubernetes itself) with their own names, without the API group.
    pub fn native_groups(&self) -> impl Iterator<Item = ObjectKey> {
        let named = |group: &Group| Some(ObjectKey::new(&group.key.namespace, native::own_name(&group.key.name)?));
        self.groups().filter_map(named)
    }

    /// Adds or replaces a group, and recomputes its unit of eviction. Returns true if the group differs from the stored one.
    fn put_group(&mut self, group: Group) -> bool {
        let index = self.group_slot(&group.key);
        let Some(slot) = self.groups.get_mut(index) else { return false };
        if slot.group.as_ref() == Some(&group) {
            return false;
        }
        slot.group = Some(group);
        self.renew_group(index);
        true
    }

    /// Removes a group. Returns whether it was there.
    pub fn remove_group(&mut self, key: &ObjectKey) -> bool {
        let Some(&index) = self.group_index.get(key) else { return false };
        let was_there = self.groups.get_mut(index).is_some_and(|slot| slot.group.take().is_some());
        self.renew_group(index);
        self.drop_group_slot_if_unused(index);
        was_there
    }

    /// Returns every group of the model, sorted by namespace and name.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.group_index.values().filter_map(|index| self.group_at(*index))
    }

    /// Returns the group with this key; `None` if there is no such object.
    pub fn group(&self, key: &ObjectKey) -> Option<&Group> {
        self.group_at(*self.group_index.get(key)?)
    }

    /// Returns the group that a pod names; `None` if it names none, or that group does not exist.
    pub fn group_of(&self, pod: &Pod) -> Option<&Group> {
        pod.group.as_ref()?;
        let slot = self.pod_index(&pod.key).and_then(|index| self.pods.get(index));
        match slot.filter(|slot| slot.pod.group == pod.group) {
            Some(slot) => self.group_at(slot.group?),
            None => self.group(&pod.group_key()?),
        }
    }

    /// Returns the pods of the model that name a group, by name; also if the group does not exist.
    pub fn members<'a>(&'a self, group: &ObjectKey) -> impl Iterator<Item = &'a Pod> + Clone + use<'a> {
        let slot = self.group_index.get(group).and_then(|index| self.groups.get(*index));
        slot.into_iter().flat_map(|slot| &slot.members).filter_map(|index| self.pod_at(*index))
    }

    /// Returns how many finished members of a gang count for its `minCount`, including deleted ones that only the group's status records.
    pub fn finished(&self, group: &Group) -> usize {
        Finished::of(&group.finished, self.members(&group.key)).count
    }

    /// Returns the group with this index; `None` if only pods name it and the object does not exist.
    pub(crate) fn group_at(&self, index: GroupIndex) -> Option<&Group> {
        self.groups.get(index)?.group.as_ref()
    }

    /// Returns the index of the group that a pod names, which need not exist; `None` if it names none.
    pub(crate) fn group_index_of(&self, index: PodIndex) -> Option<GroupIndex> {
        self.pods.get(index)?.group
    }

    /// Returns the pods that name the group with this index, sorted by key; empty if there is none.
    pub(crate) fn members_at(&self, index: GroupIndex) -> &[PodIndex] {
        self.groups.get(index).map_or(&[], |slot| &slot.members)
    }

    /// Returns the pods that name the group with this key, sorted by key; also if the group does not exist.
    pub(crate) fn members_of(&self, group: &ObjectKey) -> &[PodIndex] {
        self.group_index.get(group).map_or(&[], |index| self.members_at(*index))
    }

    /// Returns the index of the group with this key. Creates an empty entry for it if neither the group nor a pod that names it is in the
    /// model.
    pub(super) fn group_slot(&mut self, key: &ObjectKey) -> GroupIndex {
        if let Some(index) = self.group_index.get(key) {
            return *index;
        }
        let index = self.groups.insert(GroupSlot { key: key.clone(), ..GroupSlot::default() });
        self.group_index.insert(key.clone(), index);
        index
    }

    /// Removes the entry of a group, and frees its index, if neither the group nor a pod that names it is in the model any more.
    pub(super) fn drop_group_slot_if_unused(&mut self, index: GroupIndex) {
        if self.groups.get(index).is_some_and(|slot| slot.group.is_none() && slot.members.is_empty())
            && let Some(slot) = self.groups.remove(index)
        {
            self.group_index.remove(&slot.key);
        }
    }
}
