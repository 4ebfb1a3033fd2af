use std::fmt;
use std::fmt::Write as _;
use std::marker::PhantomData;

use super::describe;
use crate::context::Context;
use crate::executor::{Batch, JobContext};
use crate::job::JobMessage;
use crate::message::Enlisted;
use crate::store::Store;

/// A source of collected messages: a context, a handler's context, an enlisted transaction, or the [stored jobs](Stored).
pub trait Pending {
    /// The store that its commands run on.
    type Store: Store;

    /// Returns the messages, in the order they were sent.
    fn messages(&self) -> &[JobMessage];
}

impl<S: Store> Pending for Context<S> {
    type Store = S;

    fn messages(&self) -> &[JobMessage] {
        self.pending()
    }
}

impl<A, S: Store> Pending for JobContext<'_, A, S> {
    type Store = S;

    fn messages(&self) -> &[JobMessage] {
        self.pending()
    }
}

impl<S: Store> Pending for Batch<'_, S> {
    type Store = S;

    fn messages(&self) -> &[JobMessage] {
        self.pending()
    }
}

impl<S: Store, T> Pending for Enlisted<S, T> {
    type Store = S;

    fn messages(&self) -> &[JobMessage] {
        self.pending()
    }
}

/// The jobs in a test's database, in whatever state. See [`TestDatabase::sent`](super::TestDatabase::sent).
#[derive(Clone, Debug)]
pub struct Stored<S: Store> {
    pub(super) messages: Vec<JobMessage>,
    pub(super) store: PhantomData<fn() -> S>,
}

impl<S: Store> Pending for Stored<S> {
    type Store = S;

    fn messages(&self) -> &[JobMessage] {
        &self.messages
    }
}

/// Begins an assertion about sent messages; [`once`](Sent::once), [`times`](Sent::times) or [`never`](Sent::never) ends it. A failing
/// assertion panics, and shows what was sent and why each message did not match.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// # use jobwright::testing::{TestDatabase, assert_sent};
/// # use jobwright::NewJob;
/// # let db = TestDatabase::sqlite().await?;
/// let mut cx = db.messages().begin();
/// cx.send(NewJob::json("send-invoice", &serde_json::json!({ "order": 42, "copy": true })).queue("billing"))?;
///
/// let invoice = assert_sent(&cx).kind("send-invoice").queue("billing").json_with(&serde_json::json!({ "order": 42 })).once();
/// assert_eq!(invoice.priority, 0);
/// assert_sent(&cx).kind("send-mail").never();
/// # Ok(()) }
/// # #[cfg(feature = "sqlite")]
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test()).unwrap();
/// ```
pub fn assert_sent<P: Pending>(pending: &P) -> Sent<'_, P::Store> {
    Sent { messages: pending.messages(), command: None, conditions: Vec::new(), store: PhantomData }
}

/// Returns `Err` with the reason why a message does not match.
type Condition<'a> = Box<dyn Fn(&JobMessage) -> Result<(), String> + 'a>;

/// An assertion about sent messages. Each condition narrows it.
#[must_use = "nothing is checked before `once`, `times` or `never`"]
pub struct Sent<'a, S: Store> {
    messages: &'a [JobMessage],
    /// The kind of the command that it is about.
    command: Option<&'static str>,
    conditions: Vec<(String, Condition<'a>)>,
    store: PhantomData<fn() -> S>,
}

impl<S: Store> fmt::Debug for Sent<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions: Vec<&str> = self.conditions.iter().map(|(said, _)| said.as_str()).collect();
        f.debug_struct("Sent").field("messages", &self.messages.len()).field("conditions", &conditions).finish()
    }
}

impl<'a, S: Store> Sent<'a, S> {
    pub(super) fn when(mut self, says: String, condition: impl Fn(&JobMessage) -> Result<(), String> + 'a) -> Self {
        self.conditions.push((says, Box::new(condition)));
        self
    }

    /// Names the command that it is about.
    pub(super) fn about(mut self, kind: &'static str) -> Self {
        self.command = Some(kind);
        self
    }

    /// Asserts that exactly one message was sent. Returns it.
    ///
    /// # Panics
    /// When none or more than one was sent.
    #[track_caller]
    pub fn once(self) -> &'a JobMessage {
        self.times(1)[0]
    }

    /// Asserts that exactly this many messages were sent. Returns them.
    ///
    /// # Panics
    /// When more or fewer were sent.
    #[track_caller]
    pub fn times(self, times: usize) -> Vec<&'a JobMessage> {
        let matching: Vec<_> = self.messages.iter().filter(|job| self.not(job).is_none()).collect();
        assert!(matching.len() == times, "{}", self.complaint(times, matching.len()));
        matching
    }

    /// Asserts that no message was sent.
    ///
    /// # Panics
    /// When one was.
    #[track_caller]
    pub fn never(self) {
        self.times(0);
    }

    /// Returns the reason why a message does not match.
    fn not(&self, job: &JobMessage) -> Option<String> {
        self.conditions.iter().find_map(|(_, condition)| condition(job).err())
    }

    /// `expected one "charge-card" that the closure accepts; 1 was sent, 0 match`, and each job with the reason.
    fn complaint(&self, wanted: usize, matching: usize) -> String {
        let mut text = match (wanted, self.command) {
            (0, None) => "expected no job".to_owned(),
            (0, Some(kind)) => format!("expected no {kind:?}"),
            (1, None) => "expected one job".to_owned(),
            (1, Some(kind)) => format!("expected one {kind:?}"),
            (_, None) => format!("expected {wanted} jobs"),
            (_, Some(kind)) => format!("expected {wanted} {kind:?} jobs"),
        };
        for (says, _) in &self.conditions {
            let _ = write!(text, " {says}");
        }
        let match_or_matches = if matching == 1 { "matches" } else { "match" };
        let _ = match self.messages.len() {
            0 => write!(text, "; nothing was sent"),
            1 => write!(text, "; 1 was sent, {matching} {match_or_matches}"),
            sent => write!(text, "; {sent} were sent, {matching} {match_or_matches}"),
        };
        for job in self.messages {
            let why = self.not(job).map_or_else(|| "matches".to_owned(), |why| format!("does not match: {why}"));
            let _ = write!(text, "\n  {}\n      {why}", describe::message(job));
        }
        text
    }
}
