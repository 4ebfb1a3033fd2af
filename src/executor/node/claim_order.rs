//! The order in which a claim gets its number and its protection from reconciliation, which no caller can reverse.
//!
//! Reconciliation ([`InFlight::reconcile`](super::in_flight::InFlight::reconcile)) gives back the rows that this node owns without knowing
//! them, and spares those of claims whose numbers come after the moment at which it listed what the node knows. So it has to wait, at
//! that moment, for every claim that has a number and whose rows are not known yet:
//!
//! ```text
//!  claim           ── guard ── number ── statement ── rows are known ── guard dropped ──▶
//!  reconciliation  ── all guards ── number `before`, list what is known ── guards dropped ── release rows older than `before` ──▶
//! ```
//!
//! A claim that had its number before its guard could wait for the guard while reconciliation draws `before`. Its rows would then be older
//! than `before` and unknown, and would be given back while they run. Hence numbers come only from [`ClaimOrder`], with a guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::job::{ClaimNumber, draw_first_claim};

/// Numbers the claims of one node. It starts at random, so that two nodes that get the same id, because the database forgot the first, do
/// not use the same numbers too. Numbers repeat after two billion claims, far more than happen while a job is in flight.
#[derive(Debug)]
pub(super) struct ClaimOrder {
    next: AtomicU32,
    /// Locked for reading by claims, and for writing by reconciliation.
    claiming: Arc<RwLock<()>>,
}

/// A claim that may be sent. Reconciliation waits until this is dropped, so the rows that the claim takes have to be known by then.
#[derive(Debug)]
pub(crate) struct ClaimGuard {
    number: ClaimNumber,
    _claiming: OwnedRwLockReadGuard<()>,
}

impl ClaimGuard {
    /// Returns the number of the claim. Each statement that claims needs its own, whatever its result: a claim whose answer was lost may
    /// have taken rows under its number.
    pub(crate) fn number(&self) -> ClaimNumber {
        self.number
    }
}

/// A moment without any claim under way. No claim begins until this is dropped.
#[derive(Debug)]
pub(super) struct NoClaims {
    /// All claims so far have numbers before this one, and all later ones have numbers after it.
    pub(super) before: ClaimNumber,
    _claiming: OwnedRwLockWriteGuard<()>,
}

impl Default for ClaimOrder {
    fn default() -> Self {
        Self { next: AtomicU32::new(draw_first_claim()), claiming: Arc::default() }
    }
}

impl ClaimOrder {
    /// Begins a claim, once no reconciliation is listing what the node knows.
    pub(super) async fn begin(&self) -> ClaimGuard {
        let claiming = self.claiming.clone().read_owned().await;
        ClaimGuard { number: self.draw(), _claiming: claiming }
    }

    /// Begins a claim, unless reconciliation lists what the node knows or is about to.
    pub(super) fn try_begin(&self) -> Option<ClaimGuard> {
        let claiming = self.claiming.clone().try_read_owned().ok()?;
        Some(ClaimGuard { number: self.draw(), _claiming: claiming })
    }

    /// Waits until the claims under way have ended.
    pub(super) async fn none_under_way(&self) -> NoClaims {
        let claiming = self.claiming.clone().write_owned().await;
        NoClaims { before: self.draw(), _claiming: claiming }
    }

    /// Returns the number of a lease that reconciliation already knows, and that therefore needs no guard.
    pub(super) fn number_of_known_lease(&self) -> ClaimNumber {
        self.draw()
    }

    fn draw(&self) -> ClaimNumber {
        ClaimNumber::new(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_go_round_and_start_anywhere() {
        let last = i32::MAX.unsigned_abs();
        let order = ClaimOrder { next: AtomicU32::new(last - 1), claiming: Arc::default() };
        assert_eq!([order.draw().as_int4(), order.draw().as_int4()], [i32::MAX, 1]);
        let starts: HashSet<i64> = (0..100).map(|_| ClaimOrder::default().draw().get()).collect();
        assert!(starts.len() > 98, "of 31 bits two may meet once in 400,000 runs");
    }

    /// A claim that waits while reconciliation waits for another one gets a number that reconciliation spares.
    #[tokio::test]
    async fn a_claim_that_has_to_wait_has_no_number_yet() {
        let order = Arc::new(ClaimOrder::default());
        let under_way = order.begin().await;
        let reconciliation = order.none_under_way();
        tokio::pin!(reconciliation);
        assert!(futures_util::poll!(&mut reconciliation).is_pending(), "it waits for the claim under way");
        let waiting = order.begin();
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending(), "reconciliation comes first");
        assert!(order.try_begin().is_none(), "reconciliation comes first");
        drop(under_way);
        let none = reconciliation.await;
        assert!(futures_util::poll!(&mut waiting).is_pending(), "no claim begins while it lists what is known");
        let before = none.before.get();
        drop(none);
        let number = waiting.await.number().get();
        let after = (number - before).rem_euclid(i64::from(i32::MAX));
        assert!((1..1 << 30).contains(&after), "the number {number} comes after {before}");
    }
}
