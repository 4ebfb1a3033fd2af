//! The protocol as built, and its twins.

use super::Identity;
use crate::case::Expected::{Holds, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::Rules;

/// The cases about given ids.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Identity { rules: Rules::BUILT, crashes: 1, revivals: 1, again: true, only: None };
    let built = if size == Size::Small { built } else { Identity { crashes: 3, revivals: 2, ..built } };
    let mut cases = vec![Case::new(built, "as built", Holds)];
    let mut twin = |rules, promise, says| {
        let twin = Identity { rules, crashes: 2, revivals: 1, again: false, only: Some(promise) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without ids_are_decided_once => IdsStandOnce: "each sender looks at the tables for itself";
        without ids_are_decided_once => AttemptsAreCounted:
            "the same: a failure that can't be recorded costs no attempt";
        without ids_are_decided_once => EverythingComesRight:
            "the same: one id keeps all that dead nodes own from being released";
        without ids_are_decided_once => NothingIsLost: "the same: what is due vanishes where its id stands already";
    }
    cases
}
