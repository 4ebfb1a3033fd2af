//! How many bytes go into one statement.
//!
//! The number of messages in a batch is bounded, and so are the bytes of each message. Without a bound for both together, a batch of legal
//! messages could have half a gigabyte, which a database holds in memory more than once while it writes them.

use crate::job::JobMessage;

/// How many bytes of payloads and headers one statement has at most; a single message may have more.
const MOST: usize = 8 * 1024 * 1024;

/// Returns how many bytes a message adds to a statement that writes it.
pub(crate) fn message_size(message: &JobMessage) -> usize {
    let headers = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    message.payload.as_bytes().len() + headers
}

/// The bytes that a statement has taken so far.
#[derive(Debug, Default)]
pub(crate) struct ByteBudget {
    taken: usize,
}

impl ByteBudget {
    /// Adds a message. `false`: it does not fit, and is the first of the next statement.
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
        let mut budget = ByteBudget::default();
        assert_eq!(
            [MOST / 2, MOST / 2, 1, MOST, 2 * MOST, 0, 1].map(|weight| budget.takes(weight)),
            [true, true, false, false, false, false, true]
        );
    }
}
