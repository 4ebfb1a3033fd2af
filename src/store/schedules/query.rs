//! Which schedules to read.

/// Which schedules to read.
#[derive(Clone, Debug)]
pub enum ScheduleQuery<'a> {
    /// The schedules with these names.
    Named(&'a [String]),
    /// One page of all schedules, in the order of their names.
    Page {
        /// The last name of the page before; `None` = start with the first.
        after: Option<&'a str>,
        /// How many to read at most.
        limit: usize,
    },
    /// At most this many schedules that are due, the longest overdue first.
    Due(usize),
}
