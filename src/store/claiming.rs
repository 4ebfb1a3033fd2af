//! What a claim asks for, and where it begins.

use crate::job::NodeId;

/// Where the next scan of a queue may start among the rows of one rank: everything before it was taken, gone or not ours when
/// it was last looked at.
///
/// A scan that starts at its marks does not walk the same dead prefix again and again. It can miss rows that became claimable
/// before a mark (released, promoted, committed late), so a look without marks is due now and then.
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
/// look without marks finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFront {
    /// The rank that is being drained. It has a mark.
    pub rank: i16,
    /// How many numbers the front is moved on by: those of about as many rows as are asked for. At least 0.
    pub span: i64,
    /// Rows after the mark up to this `seq` were set aside for this process before, and not all of them were taken.
    pub ours_until: Option<i64>,
}

/// What a dispatcher asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest<'a> {
    /// Who claims.
    pub node: NodeId,
    /// From which queue.
    pub queue: &'a str,
    /// Only jobs of these kinds: a node never takes what it can't run. `None` = any kind.
    pub kinds: Option<&'a [String]>,
    /// At most this many: the free slots.
    pub limit: usize,
    /// Of the rank of each of these, only rows after it need be looked at; of other ranks, all. Best rank first, one for a rank;
    /// empty = everything. A store may look at more than it needs to.
    pub after: &'a [ScanMark],
    /// Of one of these ranks: start where claims of other processes have been, and tell them how far this one is going to come. A
    /// store may leave this aside.
    pub front: Option<ScanFront>,
    /// Also rows that are held for a delivery ([`JobMessage::hold`](crate::job::JobMessage::hold)): nothing is delivered at the moment.
    pub held_too: bool,
}
