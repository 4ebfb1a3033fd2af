//! The protocol as built, and its twins.

use super::Leases;
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

const NOTHING: [u8; 4] = [0; 4];
const DEATH: [u8; 4] = [1, 0, 0, 0];
const LOST: [u8; 4] = [0, 1, 0, 0];
const LATE: [u8; 4] = [0, 0, 1, 0];
const STALE: [u8; 4] = [0, 0, 0, 1];
const DEATH_AND_LOST: [u8; 4] = [1, 1, 0, 0];
const LOST_AND_LATE: [u8; 4] = [0, 1, 1, 0];
const DEATH_AND_LATE: [u8; 4] = [1, 0, 1, 0];

fn leases(rules: Rules, [jobs, sends, claims]: [u8; 3], [deaths, lost, late, stale]: [u8; 4]) -> Leases {
    Leases { rules, jobs, sends, claims, faults: Faults { deaths, lost, late, stale, ..Faults::NONE }, only: None }
}

/// The cases about leases of groups.
pub fn cases(size: Size) -> Vec<Case> {
    // The first shows all of the sights.
    let (deaths, lost, three, looks) = match size {
        Size::Small => {
            (([2, 2, 4], DEATH_AND_LATE), ([2, 1, 4], LOST_AND_LATE), ([3, 1, 3], DEATH), ([2, 1, 3], STALE))
        }
        Size::Usual => (
            ([2, 2, 5], DEATH_AND_LATE),
            ([2, 2, 5], LOST_AND_LATE),
            ([3, 1, 4], DEATH_AND_LOST),
            ([3, 1, 4], [0, 1, 0, 1]),
        ),
        Size::Deep => (
            ([2, 2, 5], [1, 1, 1, 0]),
            ([2, 2, 6], LOST_AND_LATE),
            ([3, 1, 5], [1, 1, 1, 0]),
            ([2, 2, 4], [1, 1, 0, 1]),
        ),
    };
    let as_built = |(bounds, faults)| leases(Rules::BUILT, bounds, faults);
    let mut cases = vec![
        Case::new(as_built(deaths), "as built, with deaths", Holds),
        Case::new(as_built(lost), "as built, with lost answers", IncludesHidden),
        Case::new(as_built(three), "as built, three jobs", IncludesHidden),
        Case::new(as_built(looks), "as built, looks that take a while", IncludesHidden),
        Case::new(
            leases(without!(commits_make_leases), [2, 2, 4], LOST),
            "a commit frees the group; its process believes in a lease, and a hand-on does not",
            IncludesHidden,
        ),
    ];
    let mut twin = |rules, promise, says, claims, faults| {
        let twin = Leases { only: Some(promise), ..leases(rules, [2, 2, claims], faults) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    // Without these, two handlers of the group run.
    twins! { twin:
        without leases_outlive_rows => LimitsHold:
            "a lease is freed with the first row of its line that is removed", 4, NOTHING;
        without leases_outlive_cancellations => LimitsHold:
            "a lease is freed where a running job of its line is cancelled", 4, NOTHING;
        without leases_outlive_dead_group_runs => LimitsHold:
            "the lease of a dead node is freed while rows of its line are locked by a commit", 4, DEATH_AND_LATE;
        without group_runs_wait_for_commits => LimitsHold: "a line goes on though a commit of it is in doubt", 4, LATE;
        without group_runs_go_back_to_their_key => LimitsHold:
            "what is given back of a line can be claimed by anybody", 4, NOTHING;
        without unnamed_leases_stay => LimitsHold:
            "a lost answer puts the lease in doubt though the hand-on did not name it", 4, LOST;
        without group_claims_are_fenced => LimitsHold:
            "a hand-on takes the next ones though the end that it records is refused", 4, LOST;
        without leases_are_checked => LimitsHold:
            "a hand-on that comes late does not see that its lease was freed", 5, LATE;
        without leases_are_checked, commits_make_leases => LimitsHold:
            "a commit frees the group, and a hand-on believes in the lease as its process does", 4, NOTHING;
        without leases_are_numbered => LimitsHold:
            "a hand-on that comes late takes a later lease of its node for its own", 6, LATE;
        without looks_spare_later_leases => LimitsHold:
            "a look frees a lease that was made after what is known was noted", 4, STALE;
    }
    // Without these, something gets stuck for ever.
    twins! { twin:
        without idle_leases_are_given_back => EverythingComesRight:
            "a node that has a lease and no end to record does not hand on", 4, NOTHING;
        without looks_see_leases => EverythingComesRight:
            "a node that looks at what it owns does not look at leases", 4, LOST;
        without leases_of_the_dead_are_freed => EverythingComesRight: "leases of dead nodes are not freed", 4, DEATH;
        without leases_of_the_dead_are_swept => EverythingComesRight:
            "leases of dead nodes are freed with the declaration of their death, and not later", 4, DEATH_AND_LATE;
        without what_is_released_is_looked_for => EverythingComesRight:
            "the release of a dead node's line tells nobody that something waits", 4, DEATH_AND_LOST;
        without what_is_given_back_is_looked_for => EverythingComesRight:
            "a node that gives back what it does not know tells nobody that something waits", 4, LOST;
    }
    twins! { twin:
        without outcomes_are_fenced => OutcomesAreTheirOwn:
            "outcomes are not fenced: an end that is reported again removes the row of a later claim", 4, LOST;
    }
    cases
}
