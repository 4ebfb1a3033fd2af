//! The key of a unique job, computed from what makes it the same as another.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::limits::{DUE_MAX, KEY_MAX};
use super::names::check_text;
use super::unique::{By, Unique, UniqueOptions};
use super::{JobMessage, NewJob, Payload};
use crate::error::{Error, Result};

impl Unique {
    /// Computes the stored options for a job that is otherwise checked.
    pub(super) fn options(&self, job: &NewJob, longest: Duration) -> Result<UniqueOptions> {
        if let Some(period) = self.period.filter(|period| *period < Duration::from_millis(1) || *period > longest) {
            return Err(Error::invalid(format!("the period of a unique job is {period:?}; use 1 ms to 100 years")));
        }
        let mut parts: Vec<Vec<u8>> = vec![b"jobwright unique 1".to_vec()];
        let (tag, content) = match &self.by {
            By::Key(key) => {
                check_text("unique key", key, KEY_MAX)?;
                ("key", vec![key.clone().into_bytes()])
            }
            By::Payload => ("payload", whole(job)?),
            By::Fields(pointers) => ("fields", fields(job, pointers)?),
        };
        let queue = if self.per_queue { job.queue.as_str() } else { "" };
        parts.extend([tag, &job.kind, queue].map(|part| part.as_bytes().to_vec()));
        parts.extend(content);
        let mut hash = Sha256::new();
        for part in parts {
            // The length comes first, so that two parts can't run into each other.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let key = hash.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let period = self.period.map(|period| i64::try_from(period.as_micros()).unwrap_or(i64::MAX));
        Ok(UniqueOptions { key, hold: self.hold, period, conflict: self.conflict })
    }

    /// Computes what a message has if it was sent with this.
    pub(crate) fn options_of(&self, message: &JobMessage) -> Result<UniqueOptions> {
        let job = NewJob::new(&*message.kind, message.payload.clone()).queue(&*message.queue);
        self.options(&job, DUE_MAX)
    }
}

/// Returns the canonical form of a document: equal for all documents with equal content.
fn document(job: &NewJob) -> Result<Option<Value>> {
    match &job.payload {
        Ok(Payload::Json(raw)) => serde_json::from_str(raw.get()).map(Some).map_err(|error| {
            Error::invalid("the payload of a unique job can't be compared: it is nested too deep; use `Unique::key`")
                .with_source(error)
        }),
        _ => Ok(None),
    }
}

fn whole(job: &NewJob) -> Result<Vec<Vec<u8>>> {
    let Ok(payload) = &job.payload else { return Ok(Vec::new()) };
    let content = match document(job)? {
        Some(value) => value.to_string().into_bytes(),
        None => payload.as_bytes().to_vec(),
    };
    Ok(vec![payload.content_type().as_bytes().to_vec(), content])
}

fn fields(job: &NewJob, pointers: &[String]) -> Result<Vec<Vec<u8>>> {
    let Some(value) = document(job)? else {
        return Err(Error::invalid(
            "a job is to be unique by fields of its payload, which is not JSON; use `Unique::key`",
        ));
    };
    if pointers.is_empty() {
        return Err(Error::invalid("a job is to be unique by fields of its payload, but none is named"));
    }
    let mut parts = Vec::with_capacity(pointers.len() * 2);
    for pointer in pointers {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(Error::invalid(format!(
                "{pointer:?} is not a JSON pointer; write `/customer` or `/customer/id`"
            )));
        }
        parts.push(pointer.clone().into_bytes());
        parts.push(value.pointer(pointer).map_or_else(Vec::new, |field| field.to_string().into_bytes()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::Limits;

    fn options(job: NewJob) -> UniqueOptions {
        job.validate(Limits::default()).unwrap().options.unique.unwrap()
    }

    fn job() -> NewJob {
        NewJob::json("k", &json!({ "a": 1, "b": { "c": null } }))
    }

    #[test]
    fn the_same_is_the_same_however_it_is_written() {
        let other = NewJob::new("k", Payload::json_text("{ \"b\":{\"c\":null},\n \"a\":1 }").unwrap());
        assert_eq!(options(job().unique(Unique::payload())), options(other.clone().unique(Unique::payload())));
        let some = Unique::fields(["/a"]);
        assert_eq!(
            options(job().unique(some.clone())).key,
            options(NewJob::json("k", &json!({ "a": 1 })).unique(some)).key
        );
        let key = Unique::key("x");
        assert_eq!(options(job().unique(key.clone())).key, options(job().queue("q").unique(key.clone().replace())).key);
        // Pinned: later builds, and `send` in SQL, must find what is in the database.
        assert_eq!(options(job().unique(key)).key, "81a7e14f22c36e836544db89d0856e959d2c17c6ff5493ce9d23895a3c8515b3");
    }

    #[test]
    fn different_jobs_have_different_keys() {
        let jobs = [
            job().unique(Unique::payload()),
            job().unique(Unique::key("a")),
            job().unique(Unique::key("a").per_queue()),
            job().queue("q").unique(Unique::key("a").per_queue()),
            NewJob::json("other", &1).unique(Unique::key("a")),
            job().unique(Unique::fields(["/a"])),
            job().unique(Unique::fields(["/b/c"])),
            NewJob::json("k", &json!({ "b": {} })).unique(Unique::fields(["/b/c"])),
            job().unique(Unique::fields(["/a", "/b/c"])),
            NewJob::new("k", Payload::text("x")).unique(Unique::payload()),
        ];
        let mut keys: Vec<_> = jobs.into_iter().map(|job| options(job).key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn invalid_unique_options_are_refused() {
        for (job, why) in [
            (job().unique(Unique::key("")), "unique key is empty"),
            (job().unique(Unique::fields(["a"])), "JSON pointer"),
            (job().unique(Unique::fields(Vec::<String>::new())), "none is named"),
            (NewJob::new("k", Payload::text("x")).unique(Unique::fields(["/a"])), "not JSON"),
            (job().unique(Unique::payload().for_period(Duration::ZERO)), "1 ms"),
        ] {
            let error = job.validate(Limits::default()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
