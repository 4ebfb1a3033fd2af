//! What a claim asks for, and where it begins.

use std::time::Duration;

use super::rules::Scope;
use crate::job::{ClaimNumber, Job, JobId, NodeId};

/// Where the next scan of a queue may start among the rows of one rank: everything before it was taken, gone or not ours when
/// it was last looked at.
///
/// A scan that starts at its marks does not walk the same dead prefix again and again. It can miss rows that became claimable
/// before a mark (released, promoted, committed late), so a look at that part is due now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanMark {
    /// `-priority` of the last row taken.
    pub rank: i16,
    /// `seq` of the last row taken.
    pub seq: i64,
}

/// How the processes that drain a queue together keep out of each other's way: each takes rows from the front that they share, and
/// moves it on before it begins.
///
/// What was set aside like this and not taken lies before the front: whoever set it aside comes back for it, and otherwise a
/// look at what was passed over finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFront {
    /// The rank that is being drained. It has a mark.
    pub rank: i16,
    /// How many numbers the front is moved on by: those of about as many rows as are asked for. At least 0.
    pub span: i64,
    /// Rows after the mark up to this `seq` were set aside for this process before, and not all of them were taken.
    pub ours_until: Option<i64>,
}

/// Which part of a queue a claim looks at. The order is that of the ranks (`-priority`), and of the numbers (`seq`) within each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanPart<'a> {
    /// Everything.
    #[default]
    All,
    /// Of the rank of each mark, only rows after it need be looked at; of other ranks, all. A store may look at more.
    After {
        /// Best rank first, one for a rank.
        marks: &'a [ScanMark],
        /// Of one of these ranks: start where claims of other processes have been, and tell them how far this one is going to come. A
        /// store may leave this aside.
        front: Option<ScanFront>,
    },
    /// Nothing that comes after this place in the order.
    UpTo(ScanMark),
}

impl<'a> ScanPart<'a> {
    /// After these marks; nothing is shared.
    #[must_use]
    pub fn after(marks: &'a [ScanMark]) -> Self {
        Self::After { marks, front: None }
    }
}

/// What a dispatcher asks for.
///
/// ```
/// use jobwright::store::{ClaimRequest, ScanPart};
/// use jobwright::{ClaimNumber, NodeId};
///
/// let kinds = ["send-invoice".to_owned()];
/// let request = ClaimRequest::new(NodeId(7), ClaimNumber::new(1), "default", 100).kinds(&kinds);
/// assert!(matches!(request.part, ScanPart::All) && !request.held_too);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimRequest<'a> {
    /// Who claims.
    pub node: NodeId,
    /// What tells this claim from all others of that node.
    pub claim: ClaimNumber,
    /// From which queue.
    pub queue: &'a str,
    /// Only jobs of these kinds: a node never takes what it can't run. `None` = any kind.
    pub kinds: Option<&'a [String]>,
    /// At most this many: the free slots.
    pub limit: usize,
    /// Where.
    pub part: ScanPart<'a>,
    /// Also rows that are held for a delivery ([`JobMessage::hold`](crate::job::JobMessage::hold)): nothing is delivered at the moment.
    pub held_too: bool,
    /// Limits that the claim counts by itself ([`Admitted::counted`](super::Admitted::counted)), of this queue or of the one kind that is asked
    /// for; empty: what is limited has to be admitted first. With these, `kinds` are named.
    pub counted: &'a [Counted<'a>],
    /// With limits that are counted: also jobs that were admitted, from anywhere in the queue. Who knows that none can be new spares the look for them, which
    /// walks over all that were ever admitted while somebody holds a snapshot.
    pub admitted_too: bool,
}

/// A limit that a claim counts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// [`Queue`](Scope::Queue) or [`Kind`](Scope::Kind).
    pub scope: Scope,
    /// Which queue or kind.
    pub name: &'a str,
    /// How many jobs the claimer runs under it that were claimed like this. They may become fewer before the claim runs, but not more: claims of
    /// one node under one limit take turns.
    pub running: usize,
}

/// How many jobs a claim could take under the limits that it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// So many that were not admitted, and no more than were asked for.
    pub jobs: usize,
    /// Jobs may wait that could start if more were allowed.
    pub waits: bool,
    /// A rate allows none; after so long it will.
    pub wait: Option<Duration>,
    /// Others wait for the same at a gate, and got nothing by chance. What this claim left is theirs by a claim of nothing.
    pub passed_over: bool,
    /// A gate was opened for others that wait for the same: a round of admission is due.
    pub opened: bool,
    /// The database has written down what the claim said. It has not if somebody held one of the limits for too long, or a later claim of the node had
    /// counted.
    pub written: bool,
    /// Which of the limits, by their place, are to be counted anew, with what this claim took: they were set after what ran before, and that
    /// holds places of its own.
    pub anew: Vec<usize>,
}

impl<'a> ClaimRequest<'a> {
    /// At most `limit` jobs of any kind, from anywhere in the queue, without those that are held.
    pub fn new(node: NodeId, claim: ClaimNumber, queue: &'a str, limit: usize) -> Self {
        Self {
            node,
            claim,
            queue,
            kinds: None,
            limit,
            part: ScanPart::All,
            held_too: false,
            counted: &[],
            admitted_too: true,
        }
    }

    /// Only of these kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: &'a [String]) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Only in this part of the queue.
    #[must_use]
    pub fn part(mut self, part: ScanPart<'a>) -> Self {
        self.part = part;
        self
    }

    /// Without a look for jobs that were admitted.
    #[must_use]
    pub fn admitted_too(mut self, admitted_too: bool) -> Self {
        self.admitted_too = admitted_too;
        self
    }

    /// Under these limits, which it counts by itself.
    #[must_use]
    pub fn counted(mut self, counted: &'a [Counted<'a>]) -> Self {
        self.counted = counted;
        self
    }

    /// Also those that are held, or not.
    #[must_use]
    pub fn held_too(mut self, held_too: bool) -> Self {
        self.held_too = held_too;
        self
    }
}

/// A group that a node goes on with after one of its jobs, or after the last of those that it took: it holds the group by a *lease*, and runs the
/// jobs that it takes one after the other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupTurn {
    /// The group.
    pub group: String,
    /// The queue that the next ones have to be of.
    pub queue: String,
    /// Who holds the group until now: the job that ends, or the lease itself.
    pub holder: JobId,
    /// The lease, by an id that nothing else has.
    pub lease: JobId,
    /// How many jobs of the group are wanted, at most; none: the group is given back.
    pub wanted: usize,
    /// Priority and number of the last one that was taken in this turn: the next ones come after it.
    pub after: Option<(i16, i64)>,
}

impl GroupTurn {
    /// The turn after a job that held the group itself.
    pub fn after_job(group: impl Into<String>, queue: impl Into<String>, job: JobId, lease: JobId) -> Self {
        Self { group: group.into(), queue: queue.into(), holder: job, lease, wanted: 0, after: None }
    }

    /// How many jobs of the group are wanted, at most.
    #[must_use]
    pub fn wanted(mut self, wanted: usize) -> Self {
        self.wanted = wanted;
        self
    }

    /// The same turn when the lease holds the group, after these jobs were taken.
    pub fn taken(&mut self, last: &Job) {
        self.holder = self.lease;
        self.after = Some((last.priority, last.seq));
    }

    /// Some that were taken wait again: the next ones may be before the last one.
    pub fn from_the_front(&mut self) {
        self.after = None;
    }
}

/// What became of a job whose handler used its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The claim is no longer current, and the transaction must be rolled back.
    NotOwned,
    /// It is gone, and what it held is free.
    Gone,
    /// It is gone, and its node holds its group.
    Leased,
}

/// What became of jobs that were to hand their groups on.
#[derive(Clone, Debug, Default)]
pub struct HandedOn {
    /// Done, and gone.
    pub accepted: Vec<JobId>,
    /// The next ones of their groups, now owned by who claimed, best first. A group of which there is none is free, or held by who held it.
    pub next: Vec<Job>,
}

/// What a claim took.
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    /// Now owned by who claimed, best first.
    pub jobs: Vec<Job>,
    /// What was set aside for this claim ([`ScanFront::span`]) begins after this `seq`. `None`: nothing was, because no front was given,
    /// or the store knows none, or other rows were enough.
    pub began: Option<i64>,
    /// How many it could take, if it counted.
    pub allowed: Option<Allowed>,
}
