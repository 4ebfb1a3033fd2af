//! The protocol as built, and its twins.

use super::Clocks;
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about time.
pub fn cases(size: Size) -> Vec<Case> {
    let clocks = |processes, silences, locks| Clocks {
        rules: Rules::BUILT,
        processes,
        faults: Faults { silences, jumps: 1, ..Faults::NONE },
        locks,
        only: None,
    };
    let mut cases = vec![match size {
        Size::Small => Case::new(clocks(2, 0, false), "as built, nobody falls silent", IncludesHidden),
        Size::Usual => Case::new(clocks(2, 1, false), "as built, nothing locked", IncludesHidden),
        Size::Deep => Case::new(clocks(2, 1, true), "as built", Holds),
    }];
    let mut twin = |rules, promise, says, processes, silences, locks| {
        let twin = Clocks { rules, only: Some(promise), ..clocks(processes, silences, locks) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without death_is_observed => TheLivingAreLeftAlone:
            "the server's clock decides who is dead, and steps ahead", 2, 0, false;
        without death_is_observed => EverythingComesRight:
            "the server's clock decides who is dead, and was ahead", 2, 1, false;
        without locked_nodes_are_passed_over => EverythingComesRight:
            "who declares nodes dead waits for those that are locked", 3, 2, true;
        without leases_count_from_sending => TheLivingAreLeftAlone:
            "a lease counts from the answer to its renewal", 2, 0, false;
        without nodes_stop_early => TheLivingAreLeftAlone:
            "a node stops its handlers when its lease is over, and no earlier", 2, 0, false;
    }
    cases
}
