//! The numbers that make a claim unlike any other: made by who claims, never by the database.
//!
//! A database can forget: an id is used again after its row is gone, a failover loses the last commits, a backup is restored. Whatever it
//! counted starts again from what it remembers, and so the token of an old claim would fit a new one. A process that is still running an
//! old claim does not forget, so the token is its own: its node id is drawn at random, and so is the number from which it counts its claims.

use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

/// 53 bits: what a program in JavaScript, or one that reads JSON numbers as doubles, keeps exactly.
const HAND_OUT_MAX: u64 = (1 << 53) - 1;

/// The number of a claim among those of its node: 1 to 2,147,483,647. Together with the node and the job it makes the fencing token.
///
/// All rows that one call takes get the same number; no later call of that node may use it again while a claim of it may be in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimNumber(i32);

impl ClaimNumber {
    /// The `n`th number; after the last one comes the first again. Zero stands for "never claimed" and is none of them.
    pub fn new(n: u32) -> Self {
        Self((n % i32::MAX.unsigned_abs()) as i32 + 1)
    }

    /// As it is kept with the row.
    pub fn get(self) -> i64 {
        self.0.into()
    }

    /// As PostgreSQL's `integer`.
    pub(crate) fn as_int4(self) -> i32 {
        self.0
    }
}

/// Gives the claims of one node their numbers. It starts anywhere, so that two nodes that happen to have the same id, because the database
/// forgot the first, do not have the same numbers too. It goes round after two billion claims: a job would have to be in hand for all of them.
#[derive(Debug)]
pub(crate) struct ClaimCounter(AtomicU32);

impl Default for ClaimCounter {
    fn default() -> Self {
        Self(AtomicU32::new(random() as u32))
    }
}

impl ClaimCounter {
    pub(crate) fn next(&self) -> ClaimNumber {
        ClaimNumber::new(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The fencing token of jobs that are handed out to external workers: 1 to 2^53 - 1, which every AMQP and JSON client keeps exactly.
/// Nothing else tells two hand-outs of a job apart, because no node answers for them, so it is drawn at random for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOutNumber(i64);

impl HandOutNumber {
    /// A number that nobody has had.
    pub fn random() -> Self {
        Self::new(random())
    }

    /// A chosen one, for tests: `n` folded into the range.
    pub fn new(n: u64) -> Self {
        Self((n % HAND_OUT_MAX) as i64 + 1)
    }

    /// As it is kept with the row, and told to the worker.
    pub fn get(self) -> i64 {
        self.0
    }
}

/// An id for a node: 1 to 2,147,483,647, drawn at random. Whether a registered one has it already, the database tells.
pub(crate) fn draw_node() -> i64 {
    ClaimNumber::new(random() as u32).get()
}

/// 62 random bits of a version 4 UUID: two of its second half say which kind it is.
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
        let counter = ClaimCounter(AtomicU32::new(last - 1));
        assert_eq!([counter.next().as_int4(), counter.next().as_int4()], [i32::MAX, 1]);
    }

    #[test]
    fn hand_outs_fit_into_a_double() {
        let numbers = [0, HAND_OUT_MAX - 1, HAND_OUT_MAX].map(|n| HandOutNumber::new(n).get());
        assert_eq!(numbers, [1, 9_007_199_254_740_991, 1]);
    }

    #[test]
    fn what_is_drawn_does_not_come_again() {
        let starts: HashSet<i64> = (0..100).map(|_| ClaimCounter::default().next().get()).collect();
        let nodes: HashSet<i64> = (0..100).map(|_| draw_node()).collect();
        let hand_outs: HashSet<i64> = (0..100).map(|_| HandOutNumber::random().get()).collect();
        assert!(starts.len() > 98 && nodes.len() > 98, "of 31 bits two may meet once in 400,000 runs");
        assert_eq!(hand_outs.len(), 100);
    }
}
