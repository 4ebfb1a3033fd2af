//! The installation whose executors use a broker handle.

/// The installation, and how it fared. Of a handle that only senders use, there is none.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// Its id.
    pub(super) id: Option<String>,
    /// Whether the queues were found to belong to another one.
    pub(super) was_refused: bool,
    /// Why it was refused last.
    pub(super) why: String,
    /// Whether it was logged that the queues have no mark and get none.
    pub(super) was_warned: bool,
}
