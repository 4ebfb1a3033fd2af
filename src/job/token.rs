//! The numbers that make a claim unique. The claiming process makes them, never the database.
//!
//! A database can forget: an id is reused after its row is gone, a failover loses the last commits, a backup is restored. A counter in the
//! database restarts from what it remembers, so the token of an old claim could match a new one. A process that is still running an old
//! claim does not forget. So it makes the token itself: both its node id and the first number of its claims are drawn at random.

use uuid::Uuid;

/// 53 bits, which JavaScript and programs that read JSON numbers as doubles represent exactly.
const HAND_OUT_MAX: u64 = (1 << 53) - 1;

/// The number of a claim among those of its node: 1 to 2,147,483,647. With the node and the job it forms the fencing token.
///
/// All rows that one call claims get the same number. No later call of that node may use it again while one of these claims may be in
/// flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimNumber(i32);

impl ClaimNumber {
    /// Stands in calls that claim nothing.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the `n`th number; after the last one, numbers start again with the first. Zero means "never claimed" and is never returned.
    pub fn new(n: u32) -> Self {
        Self((n % i32::MAX.unsigned_abs()) as i32 + 1)
    }

    /// Returns the number as stored in the row.
    pub fn get(self) -> i64 {
        self.0.into()
    }

    /// Returns the number as PostgreSQL's `integer`.
    pub(crate) fn as_int4(self) -> i32 {
        self.0
    }
}

/// The fencing token of jobs that are handed out to external workers: 1 to 2^53 - 1, which every AMQP and JSON client represents exactly.
/// It alone distinguishes two hand-outs of a job, because no node owns them, so it is drawn at random for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOutNumber(i64);

impl HandOutNumber {
    /// Draws a new number.
    pub fn random() -> Self {
        Self::new(random())
    }

    /// Returns a chosen number, for tests: `n` folded into the range.
    pub fn new(n: u64) -> Self {
        Self((n % HAND_OUT_MAX) as i64 + 1)
    }

    /// Returns the number as stored in the row and sent to the worker.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// Draws a random id for a node: 1 to 2,147,483,647. The database detects whether a registered node has it already.
pub(crate) fn draw_node() -> i64 {
    ClaimNumber::new(random() as u32).get()
}

/// Returns a number to start counting claims with, drawn at random.
pub(crate) fn draw_first_claim() -> u32 {
    random() as u32
}

/// Returns 62 random bits from a version 4 UUID: the two other bits of its second half encode the variant.
fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().1 & (u64::MAX >> 2)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_of_claims_go_round_and_are_never_zero() {
        let last = i32::MAX.unsigned_abs();
        let numbers = [0, 1, last - 1, last, u32::MAX].map(|n| ClaimNumber::new(n).get());
        assert_eq!(numbers, [1, 2, i64::from(i32::MAX), 1, 2]);
    }

    #[test]
    fn hand_outs_fit_into_a_double() {
        let numbers = [0, HAND_OUT_MAX - 1, HAND_OUT_MAX].map(|n| HandOutNumber::new(n).get());
        assert_eq!(numbers, [1, 9_007_199_254_740_991, 1]);
    }

    #[test]
    fn drawn_tokens_do_not_repeat() {
        let nodes: HashSet<i64> = (0..100).map(|_| draw_node()).collect();
        let hand_outs: HashSet<i64> = (0..100).map(|_| HandOutNumber::random().get()).collect();
        assert!(nodes.len() > 98, "of 31 bits two may meet once in 400,000 runs");
        assert_eq!(hand_outs.len(), 100);
    }
}
