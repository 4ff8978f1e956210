//! A slot in which other layers cache results about a model. The model does not know their type, and the slot of a copied model is
//! empty: its results are computed again.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// One value of any type.
#[derive(Default)]
pub(crate) struct CacheSlot(Mutex<Option<Box<dyn Any + Send>>>);

impl CacheSlot {
    /// Calls `work` with the value in the slot, which `work` may change, and returns the result of `work`. If the slot has no value of this
    /// type, `work` gets the default value, which is then stored.
    pub(crate) fn with<T: Any + Send + Default, R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut value = slot.take().and_then(|value| value.downcast::<T>().ok()).unwrap_or_default();
        let result = work(&mut value);
        *slot = Some(value);
        result
    }
}

impl Clone for CacheSlot {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for CacheSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheSlot")
    }
}
