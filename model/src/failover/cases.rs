//! The protocol as built, and its twins.

use super::{Bounds, Failover};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::kernel::Faults;
use crate::vocabulary::Rules;

/// The cases about databases that lose commits.
pub fn cases(size: Size) -> Vec<Case> {
    let bounds = |[jobs, processes, claims, nodes]: [u8; 4], [forgets, crashes, deaths, moves]: [u8; 4]| {
        let faults = Faults { crashes, deaths, forgets, moves, ..Faults::NONE };
        Failover { rules: Rules::BUILT, bounds: Bounds { jobs, processes, claims, nodes, faults }, only: None }
    };
    let usual = match size {
        Size::Small => bounds([1, 2, 2, 1], [1, 0, 0, 1]),
        Size::Usual => bounds([1, 2, 3, 2], [1, 0, 0, 1]),
        Size::Deep => bounds([1, 2, 3, 2], [1, 1, 0, 1]),
    };
    let mut cases = vec![Case::new(usual, "as built", Holds)];
    let mut twin = |rules, promise, says, moves| {
        let twin = Failover { rules, only: Some(promise), ..bounds([1, 2, 3, 2], [1, 1, 0, moves]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twins! { twin:
        without claimers_draw_numbers => OutcomesAreTheirOwn: "numbers of claims are counted up from the row", 0;
        without processes_draw_ids => NobodyTrespasses: "ids of nodes come from a sequence of the database", 0;
        without looks_now_and_then, timelines_are_compared => EverythingComesRight:
            "nobody sees a failover, and nodes look at what they own after lost answers only", 0;
        without looks_now_and_then => EverythingComesRight:
            "nodes look at what they own after lost answers only; a restore has no timeline of its own", 0;
        without timelines_are_compared => EverythingComesRight:
            "a heartbeat that comes to another timeline goes on beating", 1;
        without missing_nodes_are_noticed => EverythingComesRight:
            "a claim whose node is unknown or dead takes nothing and says nothing", 1;
    }
    let one_server = Faults { moves: 0, ..usual.bounds.faults };
    cases.push(Case::new(
        Failover {
            rules: without!(timelines_are_compared),
            bounds: Bounds { faults: one_server, ..usual.bounds },
            only: None,
        },
        "timelines are not compared, and no connection changes its server: looks now and then are enough",
        IncludesHidden,
    ));
    cases
}
