//! The actions of a subject, declared once: from each line come the variant, its words in a path, and its values.
//!
//! ```ignore
//! actions! {
//!     Claim { process, job, answered }: "{process} claims {job}{answered}";
//!     Free: "the permit that a dead node has is freed";
//! }
//! ```
//!
//! A field has its type, its range and its words by its name: `shown!` has the words.

use std::fmt;
use std::ops::Range;

/// The values of the fields that are numbers.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Jobs.
    pub jobs: u8,
    /// Processes.
    pub processes: u8,
    /// Handlers of a process, and its claims in flight.
    pub hands: u8,
    /// Node ids.
    pub nodes: Range<u8>,
    /// Copies of hand-outs.
    pub copies: u8,
    /// Senders.
    pub senders: u8,
    /// How many jobs one statement may take.
    pub most: u8,
}

/// The actions of a subject.
pub trait Actions: Copy + fmt::Debug + fmt::Display + PartialEq + Send + Sync + 'static {
    /// Returns all actions within these ranges, in the order in which they are tried.
    fn all(ranges: &Ranges) -> Vec<Self>;
}

macro_rules! actions {
    ($($name:ident $({ $($field:ident),* })?: $words:literal $(, $more:expr)*;)*) => {
        /// One step. All fields are small numbers, so that a path can be played against a real database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the words of each stand beside it")]
        pub enum Action {
            $($name $({ $($field: field_type!($field)),* })?,)*
        }

        impl $crate::kernel::Actions for Action {
            fn all(ranges: &$crate::kernel::Ranges) -> Vec<Self> {
                let mut all = Vec::new();
                $(each!(all ranges [$($($field)*)?] Self::$name { $($($field),*)? });)*
                all
            }
        }

        impl std::fmt::Display for Action {
            #[allow(unused_variables, reason = "the words need not name each field")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Self::$name { $($($field),*)? } => {
                        $($(let $field = shown!($field $field);)*)?
                        write!(f, $words $(, $more)*)
                    })*
                }
            }
        }
    };
}

/// The type of a field.
macro_rules! field_type {
    (job) => {
        u8
    };
    (process) => {
        u8
    };
    (hand) => {
        u8
    };
    (ask) => {
        u8
    };
    (node) => {
        u8
    };
    (copy) => {
        u8
    };
    (sender) => {
        u8
    };
    (most) => {
        u8
    };
    ($other:ident) => {
        bool
    };
}

/// The values of a field.
macro_rules! values {
    ($ranges:ident job) => {
        0..$ranges.jobs
    };
    ($ranges:ident process) => {
        0..$ranges.processes
    };
    ($ranges:ident hand) => {
        0..$ranges.hands
    };
    ($ranges:ident ask) => {
        0..$ranges.hands
    };
    ($ranges:ident node) => {
        $ranges.nodes.clone()
    };
    ($ranges:ident copy) => {
        0..$ranges.copies
    };
    ($ranges:ident sender) => {
        0..$ranges.senders
    };
    ($ranges:ident most) => {
        (0..=$ranges.most).rev()
    };
    ($ranges:ident $other:ident) => {
        [true, false]
    };
}

/// Adds an action with all values of its fields.
macro_rules! each {
    ($all:ident $ranges:ident [] $action:expr) => { $all.push($action); };
    ($all:ident $ranges:ident [$field:ident $($rest:ident)*] $action:expr) => {
        for $field in values!($ranges $field) {
            each!($all $ranges [$($rest)*] $action);
        }
    };
}

/// A field in words.
macro_rules! shown {
    (job $job:ident) => {
        $crate::kernel::job_name($job)
    };
    (process $process:ident) => {
        $crate::kernel::process_name($process)
    };
    (hand $hand:ident) => {
        $hand + 1
    };
    (ask $ask:ident) => {
        $ask + 1
    };
    (copy $copy:ident) => {
        format!("hand-out {}", $copy + 1)
    };
    (sender $sender:ident) => {
        if $sender == 0 { "the sender" } else { "the sender of a delayed job" }
    };
    (answered $answered:ident) => {
        if $answered { "" } else { "; the answer gets lost" }
    };
    ($other:ident $value:ident) => {
        $value
    };
}

/// Returns the name of a job in a path: `job A`.
pub(crate) fn job_name(job: u8) -> String {
    format!("job {}", char::from(b'A' + job))
}

/// Returns the name of a process in a path: `process 1`.
pub(crate) fn process_name(process: u8) -> String {
    format!("process {}", process + 1)
}
