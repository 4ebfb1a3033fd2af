//! The protocol as built, and its twins.

use super::Taken;
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about jobs that are taken by SQL.
pub fn cases(size: Size) -> Vec<Case> {
    let taken = |rules, [jobs, sends, hand_outs, crashes]: [u8; 4]| Taken {
        rules,
        jobs,
        sends,
        hand_outs,
        faults: Faults { crashes, ..Faults::NONE },
        only: None,
    };
    let (one, two) = match size {
        Size::Small => ([1, 2, 4, 1], [2, 1, 3, 1]),
        Size::Usual => ([1, 2, 6, 3], [2, 2, 5, 2]),
        Size::Deep => ([1, 2, 8, 4], [2, 2, 7, 3]),
    };
    let mut cases = vec![
        Case::new(taken(Rules::BUILT, one), "as built", Holds),
        Case::new(taken(Rules::BUILT, two), "as built, two jobs", IncludesHidden),
    ];
    let mut twin = |rules, promise, says, sends| {
        let twin = Taken { only: Some(promise), ..taken(rules, [1, sends, 3, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without outcomes_are_fenced => OutcomesAreTheirOwn: "ends are not fenced by a token", 2;
        without claimers_draw_numbers => OutcomesAreTheirOwn:
            "tokens are counted up from the row, and an id is sent again", 2;
        without ends_lock_their_row => WorkEndsWithItsJob:
            "an end only looks whether the job is still the worker's, and does not lock it until the commit", 1;
        without locked_hand_outs_are_passed_over => WorkEndsWithItsJob:
            "a lease that runs out releases a job that its worker is just ending", 1;
        without late_ends_are_errors => WorkEndsWithItsJob:
            "an end that is refused only answers, and the work is committed", 1;
    }
    cases
}
