//! All roles together.

use std::fmt;

use super::{Claims, Enqueue, External, Maintenance, Nodes, Operator, Outcomes, Schedules};

/// All roles of a database. It is implemented for whatever has them.
#[doc(hidden)]
pub trait JobStore:
    Enqueue + Claims + Outcomes + Nodes + Maintenance + External + Schedules + Operator + fmt::Debug + 'static
{
}

impl<T> JobStore for T where
    T: Enqueue + Claims + Outcomes + Nodes + Maintenance + External + Schedules + Operator + fmt::Debug + 'static
{
}
