use std::fmt;
use std::fmt::Write as _;
use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;

use super::describe;
use crate::context::Context;
use crate::executor::{Batch, Command, JobContext};
use crate::job::{Due, JobMessage};
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
    Sent { messages: pending.messages(), conditions: Vec::new(), store: PhantomData }
}

/// Returns `Err` with the reason why a message does not match.
type Condition<'a> = Box<dyn Fn(&JobMessage) -> Result<(), String> + 'a>;

/// An assertion about sent messages. Each condition narrows it.
#[must_use = "nothing is checked before `once`, `times` or `never`"]
pub struct Sent<'a, S: Store> {
    messages: &'a [JobMessage],
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
    fn when(mut self, says: String, condition: impl Fn(&JobMessage) -> Result<(), String> + 'a) -> Self {
        self.conditions.push((says, Box::new(condition)));
        self
    }

    /// Matches messages of this kind.
    pub fn kind(self, kind: &'a str) -> Self {
        self.when(
            format!("of kind {kind:?}"),
            move |job| {
                if job.kind == kind { Ok(()) } else { Err("another kind".to_owned()) }
            },
        )
    }

    /// Matches messages in this queue.
    pub fn queue(self, queue: &'a str) -> Self {
        self.when(format!("in queue {queue:?}"), move |job| {
            if job.queue == queue { Ok(()) } else { Err(format!("its queue is {:?}", job.queue)) }
        })
    }

    /// Matches messages of this priority.
    pub fn priority(self, priority: i16) -> Self {
        self.when(format!("of priority {priority}"), move |job| {
            if job.priority == priority { Ok(()) } else { Err(format!("its priority is {}", job.priority)) }
        })
    }

    /// Matches messages with this header.
    pub fn header(self, name: &'a str, value: &'a str) -> Self {
        self.when(format!("with header {name}={value:?}"), move |job| match job.headers.get(name) {
            Some(found) if found == value => Ok(()),
            Some(found) => Err(format!("its header {name} is {found:?}")),
            None => Err(format!("it has no header {name}")),
        })
    }

    /// Matches messages in this exclusive group.
    pub fn group(self, group: &'a str) -> Self {
        self.when(format!("in group {group:?}"), move |job| same("group", job.options.group.as_deref(), group))
    }

    /// Matches messages of this tenant.
    pub fn tenant(self, tenant: &'a str) -> Self {
        self.when(format!("of tenant {tenant:?}"), move |job| same("tenant", job.options.tenant.as_deref(), tenant))
    }

    /// Matches messages that were due when they were sent.
    pub fn due_now(self) -> Self {
        self.when("due at once".to_owned(), |job| match job.due {
            Due::Now => Ok(()),
            Due::In(delay) => Err(format!("it is due in {delay:?}")),
            Due::At(at) => Err(format!("it is due at {at}")),
        })
    }

    /// Matches messages that were due later than they were sent.
    pub fn due_later(self) -> Self {
        self.when("due later".to_owned(), |job| {
            if job.due == Due::Now { Err("it is due at once".to_owned()) } else { Ok(()) }
        })
    }

    /// Matches messages with exactly this payload, compared as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let wanted = serde_json::to_value(value).map_err(|error| error.to_string());
        self.when(format!("with payload {}", shown(&wanted)), move |job| {
            let found: Value = decoded(job)?;
            let wanted = wanted.as_ref().map_err(Clone::clone)?;
            if found == *wanted { Ok(()) } else { Err("its payload is another one".to_owned()) }
        })
    }

    /// Matches messages whose payload has at least these fields, at any depth, compared as JSON.
    pub fn json_with<T: Serialize + ?Sized>(self, part: &T) -> Self {
        let wanted = serde_json::to_value(part).map_err(|error| error.to_string());
        self.when(format!("with {} in its payload", shown(&wanted)), move |job| {
            let found: Value = decoded(job)?;
            let wanted = wanted.as_ref().map_err(Clone::clone)?;
            difference(&found, wanted, "payload").map_or(Ok(()), Err)
        })
    }

    /// Matches commands that satisfy `holds`. A payload that can't be decoded as the command does not match.
    pub fn command<C: Command<S>>(self, holds: impl Fn(&C) -> bool + 'a) -> Self {
        self.when(format!("that is a {:?} as asked for", C::KIND), move |job| {
            if job.kind != C::KIND {
                return Err("another kind".to_owned());
            }
            let command: C = decoded(job)?;
            if holds(&command) { Ok(()) } else { Err("the closure says no".to_owned()) }
        })
    }

    /// Matches messages that satisfy `holds`; `says` describes the condition when it fails.
    pub fn matching(self, says: &str, holds: impl Fn(&JobMessage) -> bool + 'a) -> Self {
        let not = format!("not {says}");
        self.when(says.to_owned(), move |job| if holds(job) { Ok(()) } else { Err(not.clone()) })
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
        let meant: Vec<_> = self.messages.iter().filter(|job| self.not(job).is_none()).collect();
        assert!(meant.len() == times, "{}", self.complaint(times, meant.len()));
        meant
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

    fn complaint(&self, wanted: usize, found: usize) -> String {
        let mut text =
            format!("expected {}", if wanted == 1 { "one job".to_owned() } else { format!("{wanted} jobs") });
        for (says, _) in &self.conditions {
            let _ = write!(text, " {says}");
        }
        let _ = write!(text, ", but {found} of {} sent are", self.messages.len());
        if self.messages.is_empty() {
            text.push_str(": nothing was sent");
        }
        for job in self.messages {
            let why = self.not(job).map_or_else(|| "as asked for".to_owned(), |why| format!("not: {why}"));
            let _ = write!(text, "\n  {}\n      {why}", describe::message(job));
        }
        text
    }
}

fn same(what: &str, found: Option<&str>, wanted: &str) -> Result<(), String> {
    match found {
        Some(found) if found == wanted => Ok(()),
        Some(found) => Err(format!("its {what} is {found:?}")),
        None => Err(format!("it has no {what}")),
    }
}

fn shown(value: &Result<Value, String>) -> String {
    match value {
        Ok(value) => value.to_string(),
        Err(error) => format!("what can't be JSON ({error})"),
    }
}

fn decoded<T: serde::de::DeserializeOwned>(job: &JobMessage) -> Result<T, String> {
    job.payload.decode().map_err(|error| format!("its payload can't be read: {error}"))
}

/// Returns where `found` lacks something of `wanted`.
fn difference(found: &Value, wanted: &Value, at: &str) -> Option<String> {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().find_map(|(name, wanted)| {
            let at = format!("{at}.{name}");
            match found.get(name) {
                Some(found) => difference(found, wanted, &at),
                None => Some(format!("{at} is missing")),
            }
        }),
        _ if found == wanted => None,
        _ => Some(format!("{at} is {found}")),
    }
}
