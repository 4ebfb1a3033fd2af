//! A value that a program has only once it has reached its database.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// A value that is set once, later. Clones are the same one.
pub struct Later<T>(Arc<OnceLock<T>>);

impl<T> Later<T> {
    /// Sets it. A second call has no effect.
    pub fn set(&self, value: T) {
        // The routes may be using the first.
        let _ = self.0.set(value);
    }

    /// Returns it, if it is set.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Later<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> From<T> for Later<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(OnceLock::from(value)))
    }
}

impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("is_set", &self.get().is_some()).finish()
    }
}
