//! The sends of one id, and how each ended.

/// The state of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Not sent yet.
    #[default]
    Unsent,
    /// Committed and not ended.
    Live,
    /// Its handler, or its worker, succeeded.
    Done,
    /// Cancelled by an operator.
    Cancelled,
    /// A dead letter.
    Dead,
}

/// Returns the next send of an id, if there is one.
pub fn next_send(fates: &[Fate]) -> Option<u8> {
    (0..).zip(fates).find(|(_, fate)| **fate == Fate::Unsent).map(|(send, _)| send)
}

/// Whether a send is to be executed, and the row of its id is not from it.
pub fn is_lost(fates: &[Fate], row_of: Option<u8>) -> bool {
    (0..).zip(fates).any(|(send, fate): (u8, _)| *fate == Fate::Live && row_of != Some(send))
}
