//! Parts that all subjects share: actions and their words, nodes, faults, the sends of an id.

#[macro_use]
mod actions;
#[macro_use]
mod twins;
mod faults;
mod nodes;
mod sends;

pub use actions::{Actions, Ranges};
pub(crate) use actions::{job_name, process_name};
pub use faults::Faults;
pub use nodes::Nodes;
pub use sends::{Fate, is_lost, next_send};

/// Converts a small number to an index.
pub fn index(number: u8) -> usize {
    usize::from(number)
}

/// Returns a number with one bit for each of these.
pub(crate) fn bits(are: impl IntoIterator<Item = bool>) -> u32 {
    (0..).zip(are).map(|(n, is)| u32::from(is) << n).sum()
}
