//! The shared cursor: how far all processes together have advanced in one rank of a queue.
//!
//! It is stored in a sequence (see `migrations/postgres/0001_schema.sql`). There are few sequences and many queues, so a value says which
//! queue it belongs to: 15 bits of a hash, above 48 bits of a row's number. A process ignores another queue's cursor. Two queues that are
//! drained at the same time and meet in one sequence merely lose the benefit of sharing. Two that also share the 15 bits would skip rows
//! until the scan for passed-over rows, which runs once a second: one pair in half a million.

use sha2::{Digest, Sha256};

use crate::store::{ClaimRequest, ScanRange, SharedCursor};

/// How many sequences exist.
const REGISTERS: u16 = 16;
/// Mask of the tag bits that say which queue a value belongs to. There are 15, because a sequence holds no negative number.
const TAG: u16 = (1 << 15) - 1;
/// The largest row number that fits below the tag.
const LAST: i64 = (1 << 48) - 1;

/// A shared cursor, as a claim's parameters.
pub(super) struct CursorRegister {
    pub(super) rank: i16,
    /// The name of the sequence.
    pub(super) register: String,
    /// The tag that the sequence's value must have.
    pub(super) tag: i64,
    /// The lowest position to start from: the claimer covers the rows up to here itself.
    pub(super) own: i64,
    pub(super) span: i64,
}

impl CursorRegister {
    /// Returns `None` if there is nothing to share.
    pub(super) fn of(request: &ClaimRequest<'_>, schema: &str) -> Option<Self> {
        let shared_cursor = usable(request)?;
        let ScanRange::After { cursors, .. } = request.range else { return None };
        let cursor = cursors.iter().find(|cursor| cursor.rank == shared_cursor.rank)?;
        let (register, tag) = place(request.queue, request.kinds, shared_cursor.rank);
        Some(Self {
            rank: shared_cursor.rank,
            register: format!("\"{schema}\".shared_cursor_{register}"),
            tag: tag.into(),
            // A sequence holds no negative number, and the tag takes the bits above `LAST`.
            own: shared_cursor.reserved_until.map_or(cursor.seq, |until| until.max(cursor.seq)).clamp(0, LAST),
            span: shared_cursor.span.clamp(0, LAST),
        })
    }
}

/// Returns the shared cursor that a claim may use. A claim that includes hidden rows uses none, because the cursor may have passed them.
pub(super) fn usable(request: &ClaimRequest<'_>) -> Option<SharedCursor> {
    match request.range {
        ScanRange::After { shared_cursor, .. } => shared_cursor.filter(|_| !request.include_hidden),
        ScanRange::All | ScanRange::UpTo(_) => None,
    }
}

/// Returns the number of the sequence, and the tag. Only claims for the same kinds share a cursor, because a claim passes over the rows
/// that it can't run.
fn place(queue: &str, kinds: Option<&[String]>, rank: i16) -> (u16, u16) {
    let mut hash = Sha256::new();
    hash.update(rank.to_be_bytes());
    for part in std::iter::once(queue).chain(kinds.unwrap_or_default().iter().map(String::as_str)) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hash = hash.finalize();
    let number = |at: usize| u16::from_be_bytes([hash[at], hash[at + 1]]);
    (number(0) % REGISTERS, number(2) & TAG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_claim_has_a_place_of_its_own() {
        let kinds = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let places = [
            place("a", None, 0),
            place("a", None, 1),
            place("b", None, 0),
            place("a", Some(&kinds(&["x"])), 0),
            place("a", Some(&kinds(&["y"])), 0),
            place("a", Some(&kinds(&["x", "y"])), 0),
            place("a", Some(&kinds(&["xy"])), 0),
        ];
        assert!(places.iter().all(|(register, tag)| *register < REGISTERS && *tag <= TAG));
        let different: std::collections::BTreeSet<_> = places.iter().collect();
        assert_eq!(different.len(), places.len());
        assert_eq!(place("a", Some(&kinds(&["x"])), 0), place("a", Some(&kinds(&["x"])), 0));
    }
}
