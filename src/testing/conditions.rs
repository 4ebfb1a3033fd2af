//! The conditions of an assertion about sent messages: one for each property that a job can be given.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Sent;
use super::describe::{held, on_conflict};
use crate::executor::Command;
use crate::job::{Due, JobId, JobMessage, RetryPolicy, Unique};
use crate::store::Store;

impl<'a, S: Store> Sent<'a, S> {
    /// Matches messages of this kind.
    pub fn kind(self, kind: &'a str) -> Self {
        self.when(format!("of kind {kind:?}"), move |job| {
            if job.kind == kind { Ok(()) } else { Err(format!("its kind is {:?}", job.kind)) }
        })
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

    /// Matches the message with this id.
    pub fn id(self, id: JobId) -> Self {
        self.when(
            format!("with id {id}"),
            move |job| {
                if job.id == id { Ok(()) } else { Err(format!("its id is {}", job.id)) }
            },
        )
    }

    /// Matches messages with this many attempts.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.when(format!("of {attempts} attempts"), move |job| {
            if job.max_attempts == attempts { Ok(()) } else { Err(format!("it has {} attempts", job.max_attempts)) }
        })
    }

    /// Matches messages in this exclusive group, in strict order ([`NewJob::ordered`](crate::NewJob::ordered)).
    pub fn ordered(self, group: &'a str) -> Self {
        self.when(format!("in group {group:?} in strict order"), move |job| {
            same("group", job.options.group.as_deref(), group)?;
            if job.options.ordered { Ok(()) } else { Err("its group is not in strict order".to_owned()) }
        })
    }

    /// Matches messages with this limit key.
    pub fn limit_key(self, key: &'a str) -> Self {
        self.when(format!("with limit key {key:?}"), move |job| {
            same("limit key", job.options.limit_key.as_deref(), key)
        })
    }

    /// Matches messages with this time to live.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.when(format!("with a time to live of {ttl:?}"), move |job| match job.options.ttl {
            Some(found) if found == ttl => Ok(()),
            Some(found) => Err(format!("its time to live is {found:?}")),
            None => Err("it has no time to live".to_owned()),
        })
    }

    /// Matches messages with these delays between attempts.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.when(format!("with retry policy {policy}"), move |job| match &job.options.retry {
            Some(found) if *found == policy => Ok(()),
            Some(found) => Err(format!("its retry policy is {found}")),
            None => Err("it has no retry policy of its own".to_owned()),
        })
    }

    /// Matches messages that are unique in just this way: by the same key, payload or fields, for as long, and with the same effect on a job
    /// whose key is held.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
    /// # use jobwright::testing::{TestDatabase, assert_sent};
    /// # use jobwright::{NewJob, Unique};
    /// # let db = TestDatabase::sqlite().await?;
    /// let mut cx = db.messages().begin();
    /// cx.send(NewJob::json("sync", &7).unique(Unique::key("customer-7").while_waiting()))?;
    ///
    /// assert_sent(&cx).unique(Unique::key("customer-7").while_waiting()).once();
    /// assert_sent(&cx).unique(Unique::key("customer-8").while_waiting()).never();
    /// # Ok(()) }
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test()).unwrap();
    /// ```
    pub fn unique(self, unique: Unique) -> Self {
        self.when(format!("unique by {}", unique.basis()), move |job| {
            let Some(found) = &job.options.unique else { return Err("it is not unique".to_owned()) };
            let wanted = unique.options_of(job).map_err(|error| error.to_string())?;
            if found.key != wanted.key {
                Err("its unique key is different".to_owned())
            } else if (found.hold, found.period) != (wanted.hold, wanted.period) {
                Err(format!("it holds its unique key {}", held(found)))
            } else if found.conflict != wanted.conflict {
                Err(format!("if its unique key is held, it is to {}", on_conflict(found.conflict)))
            } else {
                Ok(())
            }
        })
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

    /// Matches messages that are due at once or within this time from now. (A [delay](crate::NewJob::delay) of a job that is not stored yet counts
    /// from its flush.) Add [`due_later`](Self::due_later) to leave out those that are due at once.
    pub fn due_within(self, within: Duration) -> Self {
        self.when(format!("due within {within:?}"), move |job| match job.due {
            Due::Now => Ok(()),
            Due::In(delay) if delay <= within => Ok(()),
            Due::In(delay) => Err(format!("it is due in {delay:?}")),
            Due::At(at) => {
                let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
                if left <= within { Ok(()) } else { Err(format!("it is due at {at}, in {left:?}")) }
            }
        })
    }

    /// Matches messages with exactly this payload, compared as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        let wanted = serde_json::to_value(value).map_err(|error| error.to_string());
        self.when(format!("with payload {}", shown(&wanted)), move |job| {
            let found: Value = decoded(job)?;
            let wanted = wanted.as_ref().map_err(Clone::clone)?;
            if found == *wanted { Ok(()) } else { Err("its payload is different".to_owned()) }
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
        self.about(C::KIND).when("that the closure accepts".to_owned(), move |job| {
            if job.kind != C::KIND {
                return Err(format!("its kind is {:?}", job.kind));
            }
            let command: C = decoded(job)?;
            if holds(&command) { Ok(()) } else { Err("the closure does not accept it".to_owned()) }
        })
    }

    /// Matches messages that satisfy `holds`; `says` describes the condition when it fails.
    pub fn matching(self, says: &str, holds: impl Fn(&JobMessage) -> bool + 'a) -> Self {
        let not = format!("not {says}");
        self.when(says.to_owned(), move |job| if holds(job) { Ok(()) } else { Err(not.clone()) })
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
