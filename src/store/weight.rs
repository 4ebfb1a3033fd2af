//! How much goes into one statement.
//!
//! A batch is bounded by its messages, and each message by its bytes; without a bound for both together, a batch of legal messages is
//! half a gigabyte, which a database holds more than once while it writes them.

use crate::job::JobMessage;

/// Bytes of payloads and headers in one statement; a single message may have more.
const MOST: usize = 8 * 1024 * 1024;

/// What a message adds to a statement that writes it.
pub(crate) fn weight(message: &JobMessage) -> usize {
    let headers = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    message.payload.as_bytes().len() + headers
}

/// What a statement has taken so far.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: usize,
}

impl Room {
    /// Takes one more in. `false`: there is no room for it, and it is the first of the next statement.
    pub(crate) fn takes(&mut self, weight: usize) -> bool {
        let together = self.taken.saturating_add(weight);
        let fits = together <= MOST || self.taken == 0;
        self.taken = if fits { together } else { weight };
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_full_at_its_bound_and_takes_one_of_any_size() {
        let mut room = Room::default();
        assert_eq!(
            [MOST / 2, MOST / 2, 1, MOST, 2 * MOST, 0, 1].map(|weight| room.takes(weight)),
            [true, true, false, false, false, false, true]
        );
    }
}
