//! The protocol as built, and its twins.

use super::Counted;
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about limits that claims count.
pub fn cases(size: Size) -> Vec<Case> {
    let counted = |[jobs, limit, claims]: [u8; 3], [crashes, lost]: [u8; 2]| Counted {
        rules: Rules::BUILT,
        jobs,
        limit,
        claims,
        changes: false,
        faults: Faults { crashes, lost, ..Faults::NONE },
        only: None,
    };
    let (one, two) = match size {
        Size::Small => (counted([2, 1, 3], [1, 1]), counted([3, 2, 3], [0, 1])),
        Size::Usual => (counted([2, 1, 4], [1, 1]), counted([3, 2, 4], [0, 1])),
        Size::Deep => (counted([3, 1, 4], [1, 1]), counted([3, 2, 4], [1, 1])),
    };
    let changed = match size {
        Size::Small => counted([2, 1, 3], [0, 0]),
        Size::Usual => counted([2, 1, 4], [1, 0]),
        Size::Deep => counted([3, 2, 4], [1, 0]),
    };
    let mut cases = vec![
        Case::new(one, "as built, one at a time", Holds),
        Case::new(two, "as built, two at a time", IncludesHidden),
        // No answers get lost here. A row whose claim got lost is owned until its node checks, and gets a permit like what runs: given back
        // after that, it may start beside as many others as the limit allows.
        Case::new(Counted { changes: true, ..changed }, "as built, another rule is put", IncludesHidden),
    ];
    let mut twin = |rules, promise, says, changes, (bounds, faults)| {
        let twin = Counted { rules, only: Some(promise), changes, ..counted(bounds, faults) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    let usual = ([3, 2, 3], [1, 1]);
    twins! { twin:
        without late_claims_are_told => LimitsHold:
            "a claim that runs after a newer one of its node counts as if it were the newest", false, usual;
        without counted_claims_take_turns => LimitsHold:
            "two claims of a node under one limit are under way at once", false, usual;
        without usage_outlives_rows => LimitsHold:
            "what a node ran is counted no more when it is declared dead", false, usual;
        without usage_of_the_dead_is_freed => EverythingComesRight:
            "what dead nodes ran counts for ever", false, usual;
        without ends_are_told => EverythingComesRight:
            "a node tells nobody of what has ended unless it finds more to do", false, usual;
        without counts_are_handed_over_at_once => LimitsHold:
            "a change of another rule drops what claims counted before it gives permits in its place",
            true, ([2, 1, 3], [0, 0]);
        without each_start_is_written => LimitsHold:
            "a claim writes nothing when its node runs as many as before, though they are others",
            false, ([3, 1, 4], [0, 1]);
    }
    cases
}
