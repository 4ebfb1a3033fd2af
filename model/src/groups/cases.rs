//! The protocol as built, and its twins.

use super::{Faults, Groups};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about groups and limits.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Rules::BUILT;
    let groups = |[jobs, limit, sends, claims]: [u8; 4], [crashes, fences, lost]: [u8; 3]| Groups {
        rules: built,
        jobs,
        limit: limit.into(),
        sends,
        claims,
        faults: Faults { crashes, fences, lost },
        only: None,
    };
    let (exclusive, limited) = match size {
        Size::Small => (groups([2, 1, 2, 3], [0, 1, 1]), groups([2, 2, 2, 3], [0, 0, 1])),
        Size::Usual => (groups([2, 1, 2, 4], [1, 1, 1]), groups([3, 2, 2, 4], [0, 0, 1])),
        Size::Deep => (groups([3, 1, 2, 4], [1, 1, 1]), groups([3, 2, 2, 4], [0, 1, 1])),
    };
    let mut cases = vec![
        Case::new(exclusive, "as built, one at a time", IncludesHidden),
        Case::new(limited, "as built, two at a time", Holds),
    ];
    let mut twin = |rules, says, promise| {
        let twin = Groups { rules, only: Some(promise), ..groups([2, 1, 2, 4], [1, 0, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twin(
        Rules { permits_outlive_rows: false, ..built },
        "the permit of a running job that is cancelled is free at once",
        Promise::LimitsHold,
    );
    twin(
        Rules { permits_belong_to_claims: false, ..built },
        "the permit of a running job that is cancelled stays in the name of its id",
        Promise::LimitsHold,
    );
    twin(
        Rules { permits_of_the_dead_are_swept: false, ..built },
        "slots that a node left are freed with the declaration of its death, and not later",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { looks_see_permits: false, ..built },
        "a node that looks at what it owns does not look at slots",
        Promise::EverythingComesRight,
    );
    cases
}
