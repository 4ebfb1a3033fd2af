//! The protocol as built, and its twins.

use super::{Bounds, Claims};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about claims.
pub fn cases(size: Size) -> Vec<Case> {
    let bounds = |[jobs, sends, processes, claims]: [u8; 4], [crashes, deaths, lost]: [u8; 3]| {
        let faults = Faults { crashes, deaths, lost, ..Faults::NONE };
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
    let mut twin = |rules, promise, says| {
        let twin = Claims { rules, only: Some(promise), ..bounds([1, 2, 1, 3], [0, 1, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without outcomes_are_fenced => OutcomesAreTheirOwn: "outcomes are not fenced";
        without claimers_draw_numbers => OutcomesAreTheirOwn: "numbers of claims are counted up from the row";
        without claimers_draw_numbers => NobodyEndsUnasked:
            "numbers are counted up, and a cancellation meets the next claim";
        without claims_lock_their_node => TheDeadClaimNothing: "claims do not lock their node";
        without looks_exclude_claims => WhatIsInHandStays: "a node looks at what it owns while it claims";
        without numbers_come_with_exclusion => WhatIsInHandStays: "a claim draws its number before it excludes checks";
        without looks_twice, looks_now_and_then => EverythingComesRight:
            "after a lost answer a node looks once, and never again";
        without looks_compare_claims, looks_now_and_then => EverythingComesRight:
            "a node compares jobs instead of claims, and looks after lost answers only";
    }
    let mut holds = |rules, says| {
        let smaller =
            if size == Size::Small { bounds([1, 2, 1, 2], [0, 1, 1]) } else { bounds([1, 2, 2, 2], [1, 1, 1]) };
        cases.push(Case::new(Claims { rules, ..smaller }, says, IncludesHidden));
    };
    holds(without!(looks_now_and_then), "no look now and then: two after a lost answer are enough here");
    holds(without!(looks_twice), "one look after a lost answer: those now and then are enough");
    holds(without!(looks_compare_claims), "jobs are compared: looks now and then are enough");
    holds(without!(missing_nodes_are_noticed), "claims don't notice death: heartbeats are enough here");
    cases
}
