//! The front that processes share: how far they have come together in a rank of a queue.
//!
//! It is kept in a sequence (see `migrations/postgres/0009_fronts.sql`). Sequences are few and queues are many, so what one holds says whom it
//! is about: 15 bits of a hash, above 48 bits of the number of a row. Another queue's front is not believed, and two queues that are
//! drained at the same time and meet in one sequence merely lose what sharing gains. Two that also have the same 15 bits would skip rows
//! until they look for what was passed over, once a second: one pair in half a million.

use sha2::{Digest, Sha256};

use crate::store::{ClaimRequest, ScanFront, ScanPart};

/// Sequences there are.
const REGISTERS: u16 = 16;
/// Bits that say whom a value is about. 15, because a sequence holds no negative number.
const TAG: u16 = (1 << 15) - 1;
/// The largest number of a row that there is room for.
const LAST: i64 = (1 << 48) - 1;

/// A front, as the claim is told of it.
pub(super) struct Front {
    pub(super) rank: i16,
    /// The sequence.
    pub(super) register: String,
    /// Whom its value must be about.
    pub(super) tag: i64,
    /// Rows up to here need not be looked for behind it.
    pub(super) own: i64,
    pub(super) span: i64,
}

impl Front {
    /// `None`: there is nothing to share.
    pub(super) fn of(request: &ClaimRequest<'_>, schema: &str) -> Option<Self> {
        let front = usable(request)?;
        let ScanPart::After { marks, .. } = request.part else { return None };
        let mark = marks.iter().find(|mark| mark.rank == front.rank)?;
        let (register, tag) = place(request.queue, request.kinds, front.rank);
        Some(Self {
            rank: front.rank,
            register: format!("\"{schema}\".front_{register}"),
            tag: tag.into(),
            // A sequence holds neither less nor, with the tag, more.
            own: front.ours_until.map_or(mark.seq, |until| until.max(mark.seq)).clamp(0, LAST),
            span: front.span.clamp(0, LAST),
        })
    }
}

/// Held rows stay behind a front that was moved on without them.
pub(super) fn usable(request: &ClaimRequest<'_>) -> Option<ScanFront> {
    match request.part {
        ScanPart::After { front, .. } => front.filter(|_| !request.held_too),
        ScanPart::All | ScanPart::UpTo(_) => None,
    }
}

/// The number of the sequence, and the tag. Only claims of the same rows share a front: what one can't run, it leaves behind.
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
