//! The protocol as built, and its twins.

use super::External;
use crate::case::Expected::{Holds, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about external workers.
pub fn cases(size: Size) -> Vec<Case> {
    let external = |[jobs, sends, hand_outs]: [u8; 3], [network, forgets]: [u8; 2]| External {
        rules: Rules::BUILT,
        jobs,
        sends,
        hand_outs,
        faults: Faults { network, forgets, ..Faults::NONE },
        only: None,
    };
    let bounds = match size {
        Size::Small => external([1, 2, 3], [1, 2]),
        Size::Usual => external([1, 2, 4], [2, 2]),
        Size::Deep => external([2, 1, 4], [1, 2]),
    };
    let mut cases = vec![Case::new(bounds, "as built", Holds)];
    let mut twin = |rules, promise, says, sends, forgets| {
        let twin = External { rules, only: Some(promise), ..external([1, sends, 3], [1, forgets]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without outcomes_are_fenced => OutcomesAreTheirOwn: "reports are not fenced", 2, 0;
        without claimers_draw_numbers => OutcomesAreTheirOwn:
            "tokens are counted up from the row, and an id is sent again", 2, 0;
        without claimers_draw_numbers => OutcomesAreTheirOwn:
            "tokens are counted up from the row, and the database forgets", 1, 2;
    }
    cases
}
