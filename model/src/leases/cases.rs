//! The protocol as built, and its twins.

use super::{Faults, Leases};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::Promise::{self, EverythingComesRight, LimitsHold, OutcomesAreTheirOwn};
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
    Leases { rules, jobs, sends, claims, faults: Faults { deaths, lost, late, stale }, only: None }
}

/// The cases about leases of groups.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Rules::BUILT;
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
    let as_built = |(bounds, faults)| leases(built, bounds, faults);
    let frees = Rules { commits_make_leases: false, ..built };
    let mut cases = vec![
        Case::new(as_built(deaths), "as built, with deaths", Holds),
        Case::new(as_built(lost), "as built, with lost answers", IncludesHidden),
        Case::new(as_built(three), "as built, three jobs", IncludesHidden),
        Case::new(as_built(looks), "as built, looks that take a while", IncludesHidden),
        Case::new(
            leases(frees, [2, 2, 4], LOST),
            "a commit frees the group; its process believes in a lease, and a hand-on does not",
            IncludesHidden,
        ),
    ];
    cases.extend(
        limits().into_iter().map(|(rules, says, claims, faults)| twin(rules, says, claims, faults, LimitsHold)),
    );
    cases.extend(stuck().into_iter().map(|(rules, says, faults)| twin(rules, says, 4, faults, EverythingComesRight)));
    cases.push(twin(
        Rules { outcomes_are_fenced: false, ..built },
        "outcomes are not fenced: an end that is reported again removes the row of a later claim",
        4,
        LOST,
        OutcomesAreTheirOwn,
    ));
    cases
}

fn twin(rules: Rules, says: &'static str, claims: u8, faults: [u8; 4], promise: Promise) -> Case {
    let twin = Leases { only: Some(promise), ..leases(rules, [2, 2, claims], faults) };
    Case::new(twin, says, Refuted(promise))
}

/// Rules without which two handlers of the group run, with the claims and faults that it takes.
fn limits() -> Vec<(Rules, &'static str, u8, [u8; 4])> {
    let built = Rules::BUILT;
    vec![
        (
            Rules { leases_outlive_rows: false, ..built },
            "a lease is freed with the first row of its line that is removed",
            4,
            NOTHING,
        ),
        (
            Rules { leases_outlive_cancellations: false, ..built },
            "a lease is freed where a running job of its line is cancelled",
            4,
            NOTHING,
        ),
        (
            Rules { leases_outlive_dead_group_runs: false, ..built },
            "the lease of a dead node is freed while rows of its line are locked by a commit",
            4,
            DEATH_AND_LATE,
        ),
        (
            Rules { group_runs_wait_for_commits: false, ..built },
            "a line goes on though a commit of it is in doubt",
            4,
            LATE,
        ),
        (
            Rules { group_runs_go_back_to_their_key: false, ..built },
            "what is given back of a line can be claimed by anybody",
            4,
            NOTHING,
        ),
        (
            Rules { unnamed_leases_stay: false, ..built },
            "a lost answer puts the lease in doubt though the hand-on did not name it",
            4,
            LOST,
        ),
        (
            Rules { group_claims_are_fenced: false, ..built },
            "a hand-on takes the next ones though the end that it records is refused",
            4,
            LOST,
        ),
        (
            Rules { leases_are_checked: false, ..built },
            "a hand-on that comes late does not see that its lease was freed",
            5,
            LATE,
        ),
        (
            Rules { leases_are_checked: false, commits_make_leases: false, ..built },
            "a commit frees the group, and a hand-on believes in the lease as its process does",
            4,
            NOTHING,
        ),
        (
            Rules { leases_are_numbered: false, ..built },
            "a hand-on that comes late takes a later lease of its node for its own",
            6,
            LATE,
        ),
        (
            Rules { looks_spare_later_leases: false, ..built },
            "a look frees a lease that was made after what is known was noted",
            4,
            STALE,
        ),
    ]
}

/// Rules without which something gets stuck forever, with the faults that it takes.
fn stuck() -> Vec<(Rules, &'static str, [u8; 4])> {
    let built = Rules::BUILT;
    vec![
        (
            Rules { idle_leases_are_given_back: false, ..built },
            "a node that has a lease and no end to record does not hand on",
            NOTHING,
        ),
        (Rules { looks_see_leases: false, ..built }, "a node that looks at what it owns does not look at leases", LOST),
        (Rules { leases_of_the_dead_are_freed: false, ..built }, "leases of dead nodes are not freed", DEATH),
        (
            Rules { leases_of_the_dead_are_swept: false, ..built },
            "leases of dead nodes are freed with the declaration of their death, and not later",
            DEATH_AND_LATE,
        ),
        (
            Rules { what_is_released_is_looked_for: false, ..built },
            "the release of a dead node's line tells nobody that something waits",
            DEATH_AND_LOST,
        ),
        (
            Rules { what_is_given_back_is_looked_for: false, ..built },
            "a node that gives back what it does not know tells nobody that something waits",
            LOST,
        ),
    ]
}
