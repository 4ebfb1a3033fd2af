//! What a claim asks for, and where it begins.

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
}

impl<'a> ClaimRequest<'a> {
    /// At most `limit` jobs of any kind, from anywhere in the queue, without those that are held.
    pub fn new(node: NodeId, claim: ClaimNumber, queue: &'a str, limit: usize) -> Self {
        Self { node, claim, queue, kinds: None, limit, part: ScanPart::All, held_too: false }
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

    /// Also those that are held, or not.
    #[must_use]
    pub fn held_too(mut self, held_too: bool) -> Self {
        self.held_too = held_too;
        self
    }
}

/// What became of jobs that were to hand their groups on.
#[derive(Clone, Debug, Default)]
pub struct HandedOn {
    /// Done, and gone.
    pub accepted: Vec<JobId>,
    /// The next ones of their groups, now owned by who claimed, best first.
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
}
