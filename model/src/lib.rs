//! The protocol of jobwright as pure transition functions, small enough to be explored completely: docs/model.md.

#[macro_use]
pub mod kernel;

pub mod case;
pub mod check;
pub mod claims;
pub mod clocks;
pub mod counted;
pub mod external;
pub mod failover;
pub mod groups;
pub mod identity;
pub mod leases;
pub mod taken;
pub mod vocabulary;

use case::{Case, Size};

/// All cases.
pub fn cases(size: Size) -> Vec<Case> {
    [
        claims::cases,
        failover::cases,
        clocks::cases,
        groups::cases,
        leases::cases,
        counted::cases,
        external::cases,
        taken::cases,
        identity::cases,
    ]
    .into_iter()
    .flat_map(|cases| cases(size))
    .collect()
}
