//! Jobs as values: what is sent, what an owner runs, how it ends. Independent of stores, brokers and executors.

mod claimed;
mod id;
mod new_job;
mod numbers;
mod options;
mod outcome;
mod payload;
mod repeating;
mod reply;
mod report_key;
mod retry;
mod schedule;
mod token;
mod trace;
mod unique;
mod validate;

pub use claimed::{AttemptError, Fence, Job, NodeId, RowLocation};
pub use id::JobId;
pub use new_job::{DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Due, IntoJob, JobMessage, NewJob, Submission};
pub(crate) use numbers::check as check_numbers;
pub use options::JobOptions;
pub use outcome::{JobError, Outcome, RetryAdvice};
pub use payload::Payload;
pub use repeating::{Misfire, NewSchedule, Overlap, SCHEDULE, SCHEDULED_AT, ScheduleSpec};
pub use reply::{CORRELATION_ID, EVENT_QUEUE, REPLY_OF, REPLY_QUEUE, REPLY_TO, SENT_BY};
pub(crate) use reply::{is_direct, is_reserved_by_broker};
pub(crate) use report_key::LONGEST_LEASE;
pub use report_key::ReportKey;
pub use retry::{RetryPolicy, parse_duration};
pub use schedule::Schedule;
pub(crate) use token::{ClaimCounter, draw_node};
pub use token::{ClaimNumber, HandOutNumber};
pub use trace::{TRACEPARENT, TRACESTATE, TraceContext};
pub use unique::{Unique, UniqueConflict, UniqueHold, UniqueOptions};
pub use validate::Limits;
pub(crate) use validate::NAME_MAX;
