use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;

/// Identifies a job everywhere: in all tables, over AMQP, in logs. It is a `UUIDv7`, made by the sender unless one was given for an
/// idempotent send. It says nothing about order; the database's sequence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// Creates a new, unique id.
    #[expect(clippy::new_without_default, reason = "two calls give different values")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id as a UUID.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl From<Uuid> for JobId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl From<JobId> for Uuid {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Uuid::parse_str(text).map(Self).map_err(|e| Error::invalid(format!("{text:?} is not a job id (a UUID): {e}")))
    }
}
