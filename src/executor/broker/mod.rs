//! What an executor does with a broker.
//!
//! ```text
//!  PREFIX.q.QUEUE   ──▶ deliveries   claim by id ─▶ the same workers as for all jobs
//!  PREFIX.submit    ──▶ intake       store ─▶ a job like all others
//!  PREFIX.x.QUEUE   ◀── external     jobs handed out, each with a lease
//!  PREFIX.reply     ──▶ answers      done, failed, extend
//!  PREFIX.event …   ◀── relay        events and replies, removed once confirmed
//! ```
//!
//! No job needs any of it to run: while the broker is not up, the dispatchers claim everything from the table, including rows hidden for a
//! delivery.

mod answers;
mod batch_sizer;
mod bisect;
mod deliveries;
mod delivery_buffer;
mod direct;
mod external;
mod full_queues;
mod intake;
mod intake_rate;
mod isolating_publisher;
pub(crate) mod mode;
mod rejection;
mod relay;
mod relay_outcome;
mod report_key;
pub(crate) mod start;
mod stop;
mod undecided;
