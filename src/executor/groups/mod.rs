//! Groups and limits: the three ways in which a job gets to start that may have to wait for others.
//!
//! - An **admission pass** gives permits: for groups, tenants, limit keys, shares, pauses and all other limits, on both databases. It costs a job
//!   a permit, an unblock and a turn, because all passes of a database run one after the other.
//! - A **claim that counts** is for limits and rates of queues and kinds, on PostgreSQL, while there is no limit of another sort. It costs a job
//!   nothing: the claim that takes it counts it.
//! - A **group run** is for the next jobs of an exclusive group, on PostgreSQL, while no rule limits or pauses jobs, if the group has no strict
//!   order and their kinds have neither a concurrency of their own nor batches. It costs a job nothing: the statement that records the end of
//!   one job claims the next ones.
//!
//! *Admission passes* are the rule, and the other two are short cuts for what is frequent. A pass admits whatever no short cut covers, so each
//! short cut may be left at any time.
//!
//! **An admission pass** (`admission.rs`; docs/adr/0026-admission.md). A job that needs what others may hold is *blocked on* a key, and no
//! claim sees it. Whatever releases a permit of the key leaves an *unblock*. A pass takes unblocks, reads the best jobs blocked on their keys,
//! and gives them permits by a plan that both databases share (`store/admission/plan.rs`). Then ordinary claims find them (`Job::admitted`),
//! and the permits go when their rows go. Every node runs passes: when an admitted job has ended there (`InFlight::admission_due`), after a
//! hint, and at each poll.
//!
//! **A claim that counts** (`counting.rs`, `dispatch/kind_set.rs`; docs/adr/0063-claims-count-limits.md). The jobs are never blocked. The
//! claim says how many of them this node runs, and takes as many as all nodes together may still run. So the end of a job only lowers a number
//! here. The next claim reports it to the other nodes, or else an empty one does (`usage_reporter.rs`). A pass reads the rules, finds out which
//! limits are counted ([`Admitted::counted`](crate::store::Admitted::counted)), and leaves those jobs to claims from then on. As soon as there
//! is a limit of another sort, passes admit all that is limited. Jobs of groups need a pass under a counted limit too. The claims that count
//! take them as well, and leave half of what is free to them.
//!
//! **A group run** (docs/adr/0060-a-node-leases-a-group.md). A pass admits the first job of a group. When it ends, the completer offers its
//! slot to the next ones (`follow.rs` decides whether others may follow in it):
//!
//! ```text
//!  worker ── done, and its slot ──▶ completer ── one statement ──▶ next jobs of the group ──▶ runner ── all done, and the slot ──┐
//!                                       ▲        (next.rs)   └── none: slot and group become free, and an admission pass follows │
//!                                       └────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Meanwhile the node holds the group by a *lease* (`InFlight::lease`): the group's permit, with the number of a claim in it. Reconciliation
//! finds it among what the node owns, and when an answer is lost, the node suspects that it holds one. A run ends after 200 ms, when a kind is
//! left alone, when a rule limits or pauses jobs ([`Node::limited`](super::node::Node::limited)), when the node stops, and when no job waits.
//! The group is free then, and a pass admits its next job.

pub(crate) mod admission;
pub(crate) mod counting;
pub(crate) mod follow;
pub(crate) mod next;
pub(crate) mod runner;
pub(crate) mod usage_reporter;
