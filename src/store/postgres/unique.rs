//! Takes the keys of unique jobs before the jobs are inserted, in the same transaction.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::columns::{GivenIds, other_jobs};
use super::driver::Columns;
use crate::error::Result;
use crate::job::{JobId, JobMessage, UniqueConflict};
use crate::store::given_ids::refuse;
use crate::store::unique::{Asked, Taken, conflict};

/// Returns the parameters of `known_ids`, which runs before the keys are taken. Returns `None` if no sender chose an id, or no message is unique.
pub(super) fn given(messages: &[JobMessage]) -> Option<GivenIds<'_>> {
    if messages.iter().all(|message| message.options.unique.is_none()) { None } else { GivenIds::of(messages) }
}

/// The requested keys, as one array per column.
pub(super) struct Keys<'a> {
    asked: Asked<'a>,
    hashes: Vec<Vec<u8>>,
    ids: Vec<Uuid>,
    holds: Vec<&'static str>,
    periods: Vec<Option<i64>>,
    conflicts: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// Returns `None` if no message asks for a key. `known` is the answer to [`given`].
    ///
    /// # Errors
    /// `Conflict` if one of them is the id of another job, or of two messages with one key the later is to be rejected.
    pub(super) fn new(messages: &'a [JobMessage], known: &[impl Columns]) -> Result<Option<Self>> {
        refuse(&other_jobs(known)?)?;
        let known = known.iter().map(|row| row.column::<Uuid>("id").map(JobId::from)).collect::<Result<_>>()?;
        let Some(asked) = Asked::new(messages, &known)? else { return Ok(None) };
        let options = || asked.firsts.iter().map(|(_, _, options)| *options);
        Ok(Some(Self {
            hashes: options().map(|options| bytes(&options.key)).collect(),
            ids: asked.firsts.iter().map(|(_, message, _)| *message.id.as_uuid()).collect(),
            holds: options().map(|options| options.hold.as_str()).collect(),
            periods: options().map(|options| options.period).collect(),
            conflicts: options().map(|options| on_conflict(options.conflict)).collect(),
            asked,
        }))
    }

    /// Returns the parameters of `take_unique`.
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [&self.hashes, &self.ids, &self.holds, &self.periods, &self.conflicts]
    }

    /// Interprets the answer of `take_unique`.
    pub(super) fn read(&self, answer: &[impl Columns]) -> Result<Taken> {
        let mut holders = vec![None; self.asked.firsts.len()];
        for row in answer {
            let at = usize::try_from(row.column::<i32>("n")? - 1).unwrap_or(usize::MAX);
            let holder = JobId::from(row.column::<Uuid>("holder")?);
            match (row.column::<&str>("verdict")?, self.asked.firsts.get(at)) {
                ("conflict", Some((_, message, _))) => return Err(conflict(message, holder)),
                ("kept", Some(_)) => holders[at] = Some(holder),
                _ => {}
            }
        }
        Ok(self.asked.taken(&holders))
    }
}

/// Decodes hex, which this crate has written itself.
fn bytes(hex: &str) -> Vec<u8> {
    let digit = |hex: u8| char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    hex.as_bytes().chunks_exact(2).filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Returns the word for it.
pub(super) fn on_conflict(conflict: UniqueConflict) -> &'static str {
    match conflict {
        UniqueConflict::Keep => "keep",
        UniqueConflict::Replace => "replace",
        UniqueConflict::Reject => "reject",
    }
}
