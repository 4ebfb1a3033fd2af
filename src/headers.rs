//! Names of the headers and queues that have a meaning here. All others are the program's own.

pub use crate::job::{
    CORRELATION_ID, EVENT_QUEUE, REPLY_OF, REPLY_QUEUE, REPLY_TO, SCHEDULE, SCHEDULED_AT, SENT_BY, TRACEPARENT,
    TRACESTATE,
};
