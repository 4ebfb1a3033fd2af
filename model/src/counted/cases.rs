//! The protocol as built, and its twins.

use super::{Counted, Faults};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about limits that claims count.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Rules::BUILT;
    let counted = |[jobs, limit, claims]: [u8; 3], [crashes, lost]: [u8; 2]| Counted {
        rules: built,
        jobs,
        limit,
        claims,
        changes: false,
        faults: Faults { crashes, lost },
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
    let mut twin = |rules, says, promise| {
        let twin = Counted { rules, only: Some(promise), ..counted([3, 2, 3], [1, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twin(
        Rules { late_claims_are_told: false, ..built },
        "a claim that runs after a newer one of its node counts as if it were the newest",
        Promise::LimitsHold,
    );
    twin(
        Rules { counted_claims_take_turns: false, ..built },
        "two claims of a node under one limit are under way at once",
        Promise::LimitsHold,
    );
    twin(
        Rules { usage_outlives_rows: false, ..built },
        "what a node ran is counted no more when it is declared dead",
        Promise::LimitsHold,
    );
    twin(
        Rules { usage_of_the_dead_is_freed: false, ..built },
        "what dead nodes ran counts for ever",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { ends_are_told: false, ..built },
        "a node tells nobody of what has ended unless it finds more to do",
        Promise::EverythingComesRight,
    );
    let dropped = Rules { counts_are_handed_over_at_once: false, ..built };
    cases.push(Case::new(
        Counted { rules: dropped, changes: true, only: Some(Promise::LimitsHold), ..counted([2, 1, 3], [0, 0]) },
        "a change of another rule drops what claims counted before it gives permits in its place",
        Refuted(Promise::LimitsHold),
    ));
    let unwritten = Rules { each_start_is_written: false, ..built };
    cases.push(Case::new(
        Counted { rules: unwritten, only: Some(Promise::LimitsHold), ..counted([3, 1, 4], [0, 1]) },
        "a claim writes nothing when its node runs as many as before, though they are others",
        Refuted(Promise::LimitsHold),
    ));
    cases
}
