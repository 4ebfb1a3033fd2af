//! The protocol as built, and its twins.

use super::{Clocks, Faults};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about time.
pub fn cases(size: Size) -> Vec<Case> {
    let built = Rules::BUILT;
    let clocks = |processes, silences, locks| Clocks {
        rules: built,
        processes,
        faults: Faults { silences, jumps: 1 },
        locks,
        only: None,
    };
    let mut cases = vec![match size {
        Size::Small => Case::new(clocks(2, 0, false), "as built, nobody falls silent", IncludesHidden),
        Size::Usual => Case::new(clocks(2, 1, false), "as built, nothing locked", IncludesHidden),
        Size::Deep => Case::new(clocks(2, 1, true), "as built", Holds),
    }];
    let mut twin = |rules, processes, silences, locks, says, promise| {
        let twin = Clocks { rules, only: Some(promise), ..clocks(processes, silences, locks) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    let by_clock = Rules { death_is_observed: false, ..built };
    twin(
        by_clock,
        2,
        0,
        false,
        "the server's clock decides who is dead, and steps ahead",
        Promise::TheLivingAreLeftAlone,
    );
    twin(by_clock, 2, 1, false, "the server's clock decides who is dead, and was ahead", Promise::EverythingComesRight);
    twin(
        Rules { locked_nodes_are_passed_over: false, ..built },
        3,
        2,
        true,
        "who declares nodes dead waits for those that are locked",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { leases_count_from_sending: false, ..built },
        2,
        0,
        false,
        "a lease counts from the answer to its renewal",
        Promise::TheLivingAreLeftAlone,
    );
    twin(
        Rules { nodes_stop_early: false, ..built },
        2,
        0,
        false,
        "a node stops its handlers when its lease is over, and no earlier",
        Promise::TheLivingAreLeftAlone,
    );
    cases
}
