//! Numbered slots for values, so that the rest of the model can refer to them by a small index.

/// Values by index. A removed value's index is used again.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its index: one that is free, or the next.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = Some(value);
            return index;
        }
        self.items.push(Some(value));
        // More than four billion objects do not fit the memory of any machine.
        u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX)
    }

    /// Removes and returns the value with this index, which is then free; `None` if there is none.
    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.items.get_mut(index as usize)?.take();
        if value.is_some() {
            self.free.push(index);
        }
        value
    }

    /// Returns the value with this index; `None` if there is none.
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)?.as_ref()
    }

    /// Returns the value with this index, to change it; `None` if there is none.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)?.as_mut()
    }

    /// Returns every value with its index, to change it.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0u32..).zip(&mut self.items).filter_map(|(index, item)| item.as_mut().map(|value| (index, value)))
    }

    /// Returns one more than the largest index in use: the length of a list by index.
    pub(super) fn bound(&self) -> usize {
        self.items.len()
    }
}
