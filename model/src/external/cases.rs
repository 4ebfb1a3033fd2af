//! The protocol as built, and its twins.

use super::{External, Faults};
use crate::case::Expected::{Holds, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about external workers.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Rules::BUILT;
    let external = |[jobs, sends, hand_outs]: [u8; 3], [network, forgets]: [u8; 2]| External {
        rules: built,
        jobs,
        sends,
        hand_outs,
        faults: Faults { network, forgets },
        only: None,
    };
    let bounds = match size {
        Size::Small => external([1, 2, 3], [1, 2]),
        Size::Usual => external([1, 2, 4], [2, 2]),
        Size::Deep => external([2, 1, 4], [1, 2]),
    };
    let mut cases = vec![Case::new(bounds, "as built", Holds)];
    let mut twin = |rules, forgets, says| {
        let promise = Promise::OutcomesAreTheirOwn;
        let twin = External { rules, only: Some(promise), ..external([1, 2, 3], [1, forgets]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    let counted = Rules { claimers_draw_numbers: false, ..built };
    twin(Rules { outcomes_are_fenced: false, ..built }, 0, "reports are not fenced");
    twin(counted, 0, "tokens are counted up from the row, and an id is sent again");
    let forgetful =
        External { rules: counted, only: Some(Promise::OutcomesAreTheirOwn), ..external([1, 1, 3], [1, 2]) };
    let says = "tokens are counted up from the row, and the database forgets";
    cases.push(Case::new(forgetful, says, Refuted(Promise::OutcomesAreTheirOwn)));
    cases
}
