//! The protocol as built, and its twins.

use super::Identity;
use crate::case::Expected::{Holds, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about given ids.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Identity { rules: Rules::BUILT, crashes: 1, revivals: 1, again: true, only: None };
    let built = if size == Size::Small { built } else { Identity { crashes: 3, revivals: 2, ..built } };
    let mut cases = vec![Case::new(built, "as built", Holds)];
    let mut twin = |says, promise| {
        let rules = Rules { ids_are_decided_once: false, ..Rules::BUILT };
        let twin = Identity { rules, crashes: 2, revivals: 1, again: false, only: Some(promise) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twin("each sender looks at the tables for itself", Promise::IdsStandOnce);
    twin("the same: a failure that can't be recorded costs no attempt", Promise::AttemptsAreCounted);
    twin("the same: one id keeps all that dead nodes own from being released", Promise::EverythingComesRight);
    twin("the same: what is due vanishes where its id stands already", Promise::NothingIsLost);
    cases
}
