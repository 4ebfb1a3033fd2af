//! The protocol as built, and its twins.

use super::{Bounds, Claims, Faults};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about claims.
pub fn cases(size: Size) -> Vec<Case> {
    let bounds = |[jobs, sends, processes, claims]: [u8; 4], [crashes, deaths, lost]: [u8; 3]| {
        let faults = Faults { crashes, deaths, lost };
        Claims { rules: Rules::BUILT, bounds: Bounds { jobs, sends, processes, claims, faults }, only: None }
    };
    let mut cases = match size {
        Size::Small => vec![
            Case::new(bounds([1, 2, 1, 3], [1, 1, 1]), "as built, one process", IncludesHidden),
            Case::new(bounds([1, 1, 2, 2], [0, 1, 1]), "as built, one life", IncludesHidden),
        ],
        Size::Usual => vec![
            Case::new(bounds([1, 2, 2, 3], [0, 1, 1]), "as built", Holds),
            Case::new(bounds([2, 1, 2, 2], [0, 1, 1]), "as built, two jobs", IncludesHidden),
        ],
        Size::Deep => vec![
            Case::new(bounds([1, 2, 2, 3], [1, 1, 1]), "as built", Holds),
            Case::new(bounds([2, 1, 2, 2], [1, 1, 1]), "as built, two jobs", IncludesHidden),
        ],
    };
    let built = Rules::BUILT;
    let mut twin = |rules, says, promise| {
        let twin = Claims { rules, only: Some(promise), ..bounds([1, 2, 1, 3], [0, 1, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twin(Rules { outcomes_are_fenced: false, ..built }, "outcomes are not fenced", Promise::OutcomesAreTheirOwn);
    let counted = Rules { claimers_draw_numbers: false, ..built };
    twin(counted, "numbers of claims are counted up from the row", Promise::OutcomesAreTheirOwn);
    twin(counted, "numbers are counted up, and a cancellation meets the next claim", Promise::NobodyEndsUnasked);
    twin(
        Rules { claims_lock_their_node: false, ..built },
        "claims do not lock their node",
        Promise::TheDeadClaimNothing,
    );
    twin(
        Rules { looks_exclude_claims: false, ..built },
        "a node looks at what it owns while it claims",
        Promise::WhatIsInHandStays,
    );
    twin(
        Rules { numbers_come_with_exclusion: false, ..built },
        "a claim draws its number before it excludes checks",
        Promise::WhatIsInHandStays,
    );
    let patient = Rules { looks_now_and_then: false, ..built };
    twin(
        Rules { looks_twice: false, ..patient },
        "after a lost answer a node looks once, and never again",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { looks_compare_claims: false, ..patient },
        "a node compares jobs instead of claims, and looks after lost answers only",
        Promise::EverythingComesRight,
    );
    let mut without = |rules, says| {
        let smaller =
            if size == Size::Small { bounds([1, 2, 1, 2], [0, 1, 1]) } else { bounds([1, 2, 2, 2], [1, 1, 1]) };
        cases.push(Case::new(Claims { rules, ..smaller }, says, IncludesHidden));
    };
    without(patient, "no look now and then: two after a lost answer are enough here");
    without(Rules { looks_twice: false, ..built }, "one look after a lost answer: those now and then are enough");
    without(Rules { looks_compare_claims: false, ..built }, "jobs are compared: looks now and then are enough");
    without(
        Rules { missing_nodes_are_noticed: false, ..built },
        "claims don't notice death: heartbeats are enough here",
    );
    cases
}
