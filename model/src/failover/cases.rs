//! The protocol as built, and its twins.

use super::{Bounds, Failover, Faults};
use crate::case::Expected::{Holds, IncludesHidden, Refuted};
use crate::case::{Case, Size};
use crate::vocabulary::{Promise, Rules};

/// The cases about databases that lose commits.
pub fn cases(size: Size) -> Vec<Case> {
    let bounds = |[jobs, processes, claims, nodes]: [u8; 4], [forgets, crashes, deaths, moves]: [u8; 4]| {
        let faults = Faults { forgets, crashes, deaths, moves };
        Failover { rules: Rules::BUILT, bounds: Bounds { jobs, processes, claims, nodes, faults }, only: None }
    };
    let usual = match size {
        Size::Small => bounds([1, 2, 2, 1], [1, 0, 0, 1]),
        Size::Usual => bounds([1, 2, 3, 2], [1, 0, 0, 1]),
        Size::Deep => bounds([1, 2, 3, 2], [1, 1, 0, 1]),
    };
    let mut cases = vec![Case::new(usual, "as built", Holds)];
    let built = Rules::BUILT;
    let mut twin = |rules, moves, says, promise| {
        let twin = Failover { rules, only: Some(promise), ..bounds([1, 2, 3, 2], [1, 1, 0, moves]) };
        cases.push(Case::new(twin, says, Refuted(promise)));
    };
    twin(
        Rules { claimers_draw_numbers: false, ..built },
        0,
        "numbers of claims are counted up from the row",
        Promise::OutcomesAreTheirOwn,
    );
    twin(
        Rules { processes_draw_ids: false, ..built },
        0,
        "ids of nodes come from a sequence of the database",
        Promise::NobodyTrespasses,
    );
    twin(
        Rules { looks_now_and_then: false, timelines_are_compared: false, ..built },
        0,
        "nobody sees a failover, and nodes look at what they own after lost answers only",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { looks_now_and_then: false, ..built },
        0,
        "nodes look at what they own after lost answers only; a restore has no timeline of its own",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { timelines_are_compared: false, ..built },
        1,
        "a heartbeat that comes to another timeline goes on beating",
        Promise::EverythingComesRight,
    );
    twin(
        Rules { missing_nodes_are_noticed: false, ..built },
        1,
        "a claim whose node is unknown or dead takes nothing and says nothing",
        Promise::EverythingComesRight,
    );
    let one_server = Faults { moves: 0, ..usual.bounds.faults };
    cases.push(Case::new(
        Failover {
            rules: Rules { timelines_are_compared: false, ..built },
            bounds: Bounds { faults: one_server, ..usual.bounds },
            only: None,
        },
        "timelines are not compared, and no connection changes its server: looks now and then are enough",
        IncludesHidden,
    ));
    cases
}
