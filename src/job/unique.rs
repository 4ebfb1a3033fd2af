//! What a job that has to be the only one asks for, and what is stored of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Requires that a job is the only one of its kind with the same key or the same payload.
///
/// ```
/// use jobwright::{NewJob, Unique};
///
/// let job = NewJob::json("sync", &serde_json::json!({ "customer": 7, "why": "changed" }));
/// let job = job.unique(Unique::fields(["/customer"]).while_waiting());
/// # let _ = job;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "give it to `NewJob::unique`"]
pub struct Unique {
    pub(super) by: By,
    pub(super) per_queue: bool,
    pub(super) hold: UniqueHold,
    pub(super) period: Option<Duration>,
    pub(super) conflict: UniqueConflict,
}

/// What has to be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Key(String),
    Payload,
    Fields(Vec<String>),
}

/// How long a job holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UniqueHold {
    /// While it waits: for a node, for admission, for its due time, for its next attempt.
    Waiting,
    /// Until it is gone; a dead letter holds the key too.
    Done,
    /// For a period after the flush, whatever happens to the job.
    Period,
}

impl UniqueHold {
    /// Returns the word in which it is stored.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Period => "period",
        }
    }
}

/// What happens to a new job whose key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UniqueConflict {
    /// It is not sent, and the existing job stays.
    Keep,
    /// It replaces the existing job if that is still waiting. A running job stays, and the new one is not sent.
    Replace,
    /// The flush fails with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
    Reject,
}

/// The uniqueness of a job, as stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UniqueOptions {
    /// SHA-256 of the unique parts, as hex.
    pub key: String,
    /// How long the key is held.
    pub hold: UniqueHold,
    /// Period in microseconds, with [`UniqueHold::Period`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<i64>,
    /// What happens to this job if the key is held.
    pub conflict: UniqueConflict,
}

impl Unique {
    fn by(by: By) -> Self {
        Self { by, per_queue: false, hold: UniqueHold::Done, period: None, conflict: UniqueConflict::Keep }
    }

    /// Requires uniqueness by a key of your own. 1 to 200 bytes.
    pub fn key(key: impl Into<String>) -> Self {
        Self::by(By::Key(key.into()))
    }

    /// Requires uniqueness by the whole payload. JSON documents are compared by content, whatever the order of their keys.
    pub fn payload() -> Self {
        Self::by(By::Payload)
    }

    /// Requires uniqueness by some fields of a JSON payload, given as JSON pointers (`/customer/id`). A missing field is not the same as
    /// null.
    pub fn fields<T: Into<String>>(pointers: impl IntoIterator<Item = T>) -> Self {
        Self::by(By::Fields(pointers.into_iter().map(Into::into).collect()))
    }

    /// Returns what has to be the same, for people.
    pub(crate) fn basis(&self) -> String {
        let by = match &self.by {
            By::Key(key) => format!("key {key:?}"),
            By::Payload => "its payload".to_owned(),
            By::Fields(pointers) => format!("the fields {}", pointers.join(", ")),
        };
        if self.per_queue { format!("{by} in its queue") } else { by }
    }

    /// Restricts the comparison to jobs of the same queue.
    pub fn per_queue(mut self) -> Self {
        self.per_queue = true;
        self
    }

    /// Holds the key until the job starts, so that one more can be sent while it runs. The default is until the job is gone.
    pub fn while_waiting(mut self) -> Self {
        (self.hold, self.period) = (UniqueHold::Waiting, None);
        self
    }

    /// Holds the key for this long after the flush, whatever happens to the job. 1 ms to 100 years.
    pub fn for_period(mut self, period: Duration) -> Self {
        (self.hold, self.period) = (UniqueHold::Period, Some(period));
        self
    }

    /// Replaces a waiting job that holds the key: that job is removed, and the new one goes to the end of its queue under its own id.
    pub fn replace(mut self) -> Self {
        self.conflict = UniqueConflict::Replace;
        self
    }

    /// Makes the flush fail with [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) and write nothing if the key is held.
    pub fn reject(mut self) -> Self {
        self.conflict = UniqueConflict::Reject;
        self
    }
}
