//! Progress, checkpoints and results of handlers.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::codec::{ContentKind, Label};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::handler::job_context::{Engine, JobContext};
use crate::job::{Payload, check_numbers};
use crate::message::MessageServices;
use crate::store::{CHECKPOINT_MAX, NOTE_MAX, NewResult, ProgressUpdate, Store, clip};

impl<A, S: Store> JobContext<'_, A, S> {
    /// Records how far the job has got: a percentage (more than 100 counts as 100) and a line for people, cut to 1 KiB. Other processes see
    /// it at once, whatever happens to the handler's transaction, and so does the next attempt. It costs one statement, so don't call it
    /// for every row of a long loop.
    ///
    /// # Errors
    /// [`Aborted`](ErrorKind::Aborted) when the job is no longer this handler's: stop. [`Invalid`](ErrorKind::Invalid) on the embedded
    /// store while the context's transaction is open, because there is only one writer: call it before. Also when the database does not
    /// answer.
    pub async fn progress(&mut self, percent: u8, note: impl Into<String>) -> Result<()> {
        let note = Some(clip(&note.into(), NOTE_MAX));
        self.record(ProgressUpdate { percent: Some(percent.min(100)), note, checkpoint: None }).await
    }

    /// Saves what the next attempt can continue from ([`checkpoint`](Self::checkpoint)): the last finished row, a cursor, an id at another
    /// service. It is saved at once, outside the handler's transaction, so save only what stays true if that is rolled back.
    ///
    /// # Errors
    /// As for [`progress`](Self::progress). Also when the value can't be written as JSON, or is longer than 16 KiB as JSON.
    pub async fn save_checkpoint<T: Serialize + Sync>(&mut self, value: &T) -> Result<()> {
        let json = self.to_json(value, "the checkpoint")?;
        if json.get().len() > CHECKPOINT_MAX {
            return Err(Error::invalid(format!(
                "the checkpoint of a {:?} job has {} bytes; {CHECKPOINT_MAX} is the limit: store it elsewhere and keep a reference",
                self.job.kind,
                json.get().len()
            )));
        }
        let json = self.engine.messages.shared.codecs.keep_json(json, self.label(ContentKind::Checkpoint))?;
        self.record(ProgressUpdate { checkpoint: Some(json), ..ProgressUpdate::default() }).await
    }

    /// Returns the checkpoint that this or an earlier attempt saved last.
    ///
    /// # Errors
    /// When it is not a `T`, or the database does not answer.
    pub async fn checkpoint<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(json) =
            self.engine.messages.shared.jobs.progress(self.job.id).await?.and_then(|progress| progress.checkpoint)
        else {
            return Ok(None);
        };
        let checkpoint =
            self.engine.messages.shared.codecs.read_json(Payload::Json(json), self.label(ContentKind::Checkpoint))?;
        checkpoint.decode().map(Some).map_err(|error| {
            Error::invalid(format!("the checkpoint of a {:?} job can't be read as the requested type", self.job.kind))
                .with_source(error)
        })
    }

    /// Sets a result that is committed with the end of this job if, and only if, it succeeds. A caller that knows the job's id can read it
    /// ([`MessageServices::wait_for_result`](crate::MessageServices::wait_for_result)) until
    /// [`HistoryConfig::results`](crate::HistoryConfig::results) is over. The last call counts.
    ///
    /// # Errors
    /// When the value can't be written as JSON, or is longer than a payload may be.
    pub fn result<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let retention = self.engine.messages.shared.jobs.history_config().results;
        self.result_for(value, retention)
    }

    /// Sets a result with its own retention time.
    ///
    /// # Errors
    /// As for [`result`](Self::result).
    pub fn result_for<T: Serialize>(&mut self, value: &T, retention: Duration) -> Result<()> {
        let payload = self.to_json(value, "the result")?;
        let (size, largest) = (payload.get().len(), self.engine.messages.shared.limits.payload);
        if size > largest {
            return Err(Error::invalid(format!(
                "the result of a {:?} job has {size} bytes; {largest} is the limit (`database.max_payload`): store it elsewhere and return a \
                 reference",
                self.job.kind
            )));
        }
        let payload = self.engine.messages.shared.codecs.keep_json(payload, self.label(ContentKind::Result))?;
        self.context.keep_result(NewResult { id: self.job.id, kind: self.job.kind.clone(), payload, retention });
        Ok(())
    }

    fn label(&self, part: ContentKind) -> Label<'_> {
        Label::new(part, &self.job.kind).queue(&self.job.queue)
    }

    fn to_json<T: Serialize>(&self, value: &T, what: &str) -> Result<Box<RawValue>> {
        let json = serde_json::value::to_raw_value(value).map_err(|error| {
            Error::invalid(format!("{what} of a {:?} job can't be written as JSON", self.job.kind)).with_source(error)
        })?;
        check_numbers(json.get(), self.engine.messages.shared.limits.payload)?;
        Ok(json)
    }

    async fn record(&mut self, update: ProgressUpdate) -> Result<()> {
        let Engine { messages: MessageServices { shared }, node } = self.engine;
        let jobs = &shared.jobs;
        if self.context.has_transaction() && jobs.is_single_writer() {
            return Err(Error::invalid(
                "progress can't be written while this context's transaction is open: the embedded database has one writer; report it before the \
                 first call of `transaction`",
            ));
        }
        if jobs.record_progress(node, self.job.fence(), &update).await? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Aborted,
            format!("job {} is no longer run by this handler: its claim was lost, or it was cancelled", self.job.id),
        ))
    }
}
