//! How many rows the statements pass over that forget old ones: see `around`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How many rows each statement passes over, by its name.
#[derive(Debug, Default)]
pub(super) struct PassedOver(Mutex<HashMap<&'static str, i64>>);

impl PassedOver {
    pub(super) fn of(&self, statement: &'static str) -> Option<i64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(statement).copied()
    }

    pub(super) fn set(&self, statement: &'static str, rows: Option<i64>) {
        let mut passed_over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match rows {
            Some(rows) => passed_over.insert(statement, rows),
            None => passed_over.remove(statement),
        };
    }
}
