//! What a claim asks for, where it starts, and what it returns.

use std::time::Duration;

use super::rules::Scope;
use crate::job::{ClaimNumber, Job, JobId, NodeId};

/// Where the next scan of a queue may start among the rows of one rank. When the rows before it were last scanned, all of them were
/// taken, gone, or not for this claimer.
///
/// A scan that starts at its cursors does not walk the same dead rows again and again. It can miss rows before a cursor that became
/// claimable since (released, promoted, committed late), so the rows before it must be scanned now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanCursor {
    /// `-priority` of the last row that was taken.
    pub rank: i16,
    /// `seq` of the last row that was taken.
    pub seq: i64,
}

/// Keeps processes that drain a queue together out of each other's way: a claim starts at the cursor that they share, and moves it on before it
/// reads a row.
///
/// Rows that a claim reserved in this way but did not take lie before the shared cursor. The process that reserved them comes back for them;
/// otherwise a later scan of skipped rows finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedCursor {
    /// The rank that is being drained. One of the cursors is for it.
    pub rank: i16,
    /// How far the shared cursor is moved on, in numbers (`seq`): about as many as the rows asked for are spread over. At least 0.
    pub span: i64,
    /// The `seq` up to which rows after the cursor were reserved for this process before, and not all of them taken.
    pub reserved_until: Option<i64>,
}

/// The part of a queue that a claim scans. Rows are ordered by rank (`-priority`), and by number (`seq`) within each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanRange<'a> {
    /// The whole queue.
    #[default]
    All,
    /// The rows after each cursor in the cursor's rank, and all rows of other ranks. A store may scan more.
    After {
        /// Best rank first, at most one for each rank.
        cursors: &'a [ScanCursor],
        /// For one of these ranks: start where the claims of other processes have got to, and move the cursor on for them. A store may
        /// ignore this.
        shared_cursor: Option<SharedCursor>,
    },
    /// The rows up to this one, in the order of the queue.
    UpTo(ScanCursor),
}

impl<'a> ScanRange<'a> {
    /// Scans after these cursors, without a shared one.
    #[must_use]
    pub fn after(cursors: &'a [ScanCursor]) -> Self {
        Self::After { cursors, shared_cursor: None }
    }
}

/// A dispatcher's request for jobs.
///
/// ```
/// use jobwright::internal::engine::{ClaimRequest, ScanRange};
/// use jobwright::NodeId;
/// use jobwright::internal::ClaimNumber;
///
/// let kinds = ["send-invoice".to_owned()];
/// let request = ClaimRequest::new(NodeId(7), ClaimNumber::new(1), "default", 100).kinds(&kinds);
/// assert!(matches!(request.range, ScanRange::All) && !request.include_hidden);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimRequest<'a> {
    /// The node that claims.
    pub node: NodeId,
    /// The number of this claim: no other claim of that node has it.
    pub claim: ClaimNumber,
    /// The queue to claim from.
    pub queue: &'a str,
    /// The kinds that the node runs: it never takes a job that it can't run. `None` = any kind.
    pub kinds: Option<&'a [String]>,
    /// How many jobs to take at most: the number of free slots.
    pub limit: usize,
    /// The part of the queue to scan.
    pub range: ScanRange<'a>,
    /// Whether to take rows that are hidden for a delivery too ([`JobMessage::hidden_for`](crate::job::JobMessage::hidden_for)), because
    /// nothing is being delivered now.
    pub include_hidden: bool,
    /// Limits that the claim counts itself ([`Admitted::counted`](super::Admitted::counted)), of this queue or of the one kind that is asked
    /// for. If there are any, `kinds` must be given. If there are none, limited jobs have to be admitted first.
    pub counted: &'a [Counted<'a>],
    /// With counted limits: whether to take admitted jobs too, from anywhere in the queue. A claimer that knows of no newly admitted jobs saves
    /// this scan, which walks over every job ever admitted while any session holds a snapshot.
    pub admitted_too: bool,
    /// Whether to take suspects ([`Claims::suspects`](super::engine::Claims::suspects)) and nothing else. Only a node that runs nothing else,
    /// and starts nothing else until the job has ended, may ask for them: if its process dies, that is held against the job.
    pub suspects: bool,
}

/// A waiting job whose process died while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The job.
    pub id: JobId,
    /// The token of its last claim. Another node may have given its own claim the same one.
    pub version: i64,
    /// How many attempts are spent. While token and attempts stay the same, no process has died with it since.
    pub attempt: u32,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Whether a limit covers it that only an admission pass counts, and it has no permit. No claim takes it before it was
    /// [acquitted](super::engine::Claims::acquit) and admitted.
    pub needs_permits: bool,
}

/// What became of suspects that were to be ordinary jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acquitted {
    /// The queues of those that were acquitted.
    pub queues: Vec<String>,
    /// How many are suspects still, because another transaction has locked their rows.
    pub locked: usize,
}

/// A limit that a claim counts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// [`Queue`](Scope::Queue) or [`Kind`](Scope::Kind).
    pub scope: Scope,
    /// The name of the queue or kind.
    pub name: &'a str,
    /// How many jobs the node runs under it that such claims took. They may become fewer before the claim runs, but not more: one node makes
    /// one claim at a time under one limit.
    pub running: usize,
}

/// What the limits that a claim counted allowed it to take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// How many jobs that were not admitted it could take; at most as many as were asked for.
    pub jobs: usize,
    /// Whether jobs may be waiting that could start if more were allowed.
    pub waits: bool,
    /// Time until a rate allows more, if one allows none now.
    pub wait: Option<Duration>,
    /// Whether jobs are blocked on the key of one of the limits and by chance got no permit. If this claim took less than it could, a claim
    /// with `limit` 0 gives the rest to them.
    pub passed_over: bool,
    /// Whether jobs under one of the limits have ended here, and the claim left some of it to other nodes that want some: a hint tells them.
    pub yields: bool,
    /// Whether admitted jobs hold a part of one of the limits. No hint says when they give it back.
    pub permits: bool,
    /// Whether the key of one of the limits was unblocked for jobs that are blocked on it: an admission pass is due.
    pub unblocked: bool,
    /// Whether the database wrote down the counts of this claim. It did not if another session locked one of the limits for too long, or if
    /// a later claim of this node had counted already.
    pub written: bool,
    /// Positions in [`ClaimRequest::counted`] of limits whose counts start again with what this claim took: they were set while earlier jobs
    /// ran, and those jobs hold permits instead.
    pub recount: Vec<usize>,
}

impl<'a> ClaimRequest<'a> {
    /// Asks for at most `limit` jobs of any kind, from anywhere in the queue, without hidden rows.
    pub fn new(node: NodeId, claim: ClaimNumber, queue: &'a str, limit: usize) -> Self {
        Self {
            node,
            claim,
            queue,
            kinds: None,
            limit,
            range: ScanRange::All,
            include_hidden: false,
            counted: &[],
            admitted_too: true,
            suspects: false,
        }
    }

    /// Takes only jobs of these kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: &'a [String]) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Scans only this range of the queue.
    #[must_use]
    pub fn range(mut self, range: ScanRange<'a>) -> Self {
        self.range = range;
        self
    }

    /// Sets whether to take jobs that were admitted too.
    #[must_use]
    pub fn admitted_too(mut self, admitted_too: bool) -> Self {
        self.admitted_too = admitted_too;
        self
    }

    /// Takes suspects, and nothing else.
    #[must_use]
    pub fn suspects(mut self) -> Self {
        self.suspects = true;
        self
    }

    /// Counts these limits and stays within them.
    #[must_use]
    pub fn counted(mut self, counted: &'a [Counted<'a>]) -> Self {
        self.counted = counted;
        self
    }

    /// Sets whether to take hidden rows too.
    #[must_use]
    pub fn include_hidden(mut self, include_hidden: bool) -> Self {
        self.include_hidden = include_hidden;
        self
    }
}

/// A claim of the next jobs of a group, made when a job of it ends, or the last of those that the node took. The node holds the group by a *lease*
/// and runs the jobs one after the other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupClaim {
    /// The group.
    pub group: String,
    /// The queue that the next jobs must be in.
    pub queue: String,
    /// The current holder of the group: the job that ends, or the lease itself.
    pub holder: JobId,
    /// The id of the lease; nothing else has it.
    pub lease: JobId,
    /// How many jobs of the group are wanted, at most. 0: the group is released.
    pub wanted: usize,
    /// Priority and number (`seq`) of the last job that was taken in this run: the next ones come after it.
    pub after: Option<(i16, i64)>,
}

impl GroupClaim {
    /// Goes on after a job that held the group itself.
    pub fn after_job(group: impl Into<String>, queue: impl Into<String>, job: JobId, lease: JobId) -> Self {
        Self { group: group.into(), queue: queue.into(), holder: job, lease, wanted: 0, after: None }
    }

    /// Sets how many jobs of the group are wanted, at most.
    #[must_use]
    pub fn wanted(mut self, wanted: usize) -> Self {
        self.wanted = wanted;
        self
    }

    /// Notes that jobs were taken, `last` being the last of them: the lease holds the group from now on.
    pub fn taken(&mut self, last: &Job) {
        self.holder = self.lease;
        self.after = Some((last.priority, last.seq));
    }

    /// Starts from the beginning of the group again, because jobs that were taken have been released.
    pub fn from_the_start(&mut self) {
        self.after = None;
    }
}

/// What became of a job whose handler used its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The claim is no longer current, and the transaction must be rolled back.
    NotOwned,
    /// The job is gone, and what it held is free.
    Gone,
    /// The job is gone, and its node holds its group by a lease.
    Leased,
}

/// The result of [`complete_and_claim_next`](super::Outcomes::complete_and_claim_next).
#[derive(Clone, Debug, Default)]
pub struct GroupsClaimed {
    /// Jobs that were accepted and removed.
    pub accepted: Vec<JobId>,
    /// The next jobs of their groups, now owned by the node, best first. A group without one here is free, or its holder is the same as before.
    pub next: Vec<Job>,
}

/// The result of a claim.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// The jobs it took, best first. The node owns them now.
    pub jobs: Vec<Job>,
    /// The `seq` after which the rows begin that were reserved for this claim ([`SharedCursor::span`]). `None`: none were reserved, because no
    /// shared cursor was given, the store has none, or other rows were enough.
    pub reserved_from: Option<i64>,
    /// What the limits allowed, if the claim counted any.
    pub allowed: Option<Allowed>,
}
