//! The protocol as built, and its twins.

use super::Groups;
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about groups and limits.
pub fn cases(size: Size) -> Vec<Case> {
    let groups = |[jobs, limit, sends, claims]: [u8; 4], [crashes, deaths, lost]: [u8; 3]| Groups {
        rules: Rules::BUILT,
        jobs,
        limit: limit.into(),
        sends,
        claims,
        faults: Faults { crashes, deaths, lost, ..Faults::NONE },
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
    let mut twin = |rules, promise, says| {
        let twin = Groups { rules, only: Some(promise), ..groups([2, 1, 2, 4], [1, 0, 1]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without permits_outlive_rows => LimitsHold: "the permit of a running job that is cancelled is free at once";
        without permits_belong_to_claims => LimitsHold:
            "the permit of a running job that is cancelled stays in the name of its id";
        without permits_of_the_dead_are_swept => EverythingComesRight:
            "slots that a node left are freed with the declaration of its death, and not later";
        without looks_see_permits => EverythingComesRight:
            "a node that looks at what it owns does not look at slots";
    }
    cases
}
