//! Jobs as statements, for transactions of drivers that this library does not know.

use std::fmt;

use jiff::Timestamp;

use super::MessageServices;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, IntoJob, JobId, JobMessage};
use crate::store::Store;

/// A statement that sends one job, in a transaction of any driver of PostgreSQL. Made by [`MessageServices::as_sql`].
///
/// It has one parameter, a text. It returns one row with one column, `id`, a UUID. If that differs from [`id`](Self::id), the unique job was not sent, and
/// another job holds its key.
#[derive(Clone)]
#[non_exhaustive]
#[must_use = "nothing is sent before the statement is executed and its transaction has committed"]
pub struct SqlStatement {
    /// The text of the statement. It is the same for all jobs of these services, so a driver prepares it once.
    pub text: String,
    /// The value of `$1`. It has the content of the job.
    pub parameter: String,
    /// The id of the job.
    pub id: JobId,
    /// The queue of the job, for [`wake`](MessageServices::wake). A [send hook](MessageServices::on_send) may have chosen it.
    pub queue: String,
}

/// Shows no content: it must not be in a log.
impl fmt::Debug for SqlStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlStatement({}, {} bytes)", self.text, self.parameter.len())
    }
}

/// Refuses a job that expires before it is due, as the SQL function does: there the error would cost the caller its transaction. A context sends such a job,
/// which expires at once.
fn refuse_stillborn(message: &JobMessage) -> Result<()> {
    let (Due::At(at), Some(ttl)) = (message.due, message.options.ttl) else { return Ok(()) };
    // By the clock of this machine: the database decides when a job is due, and near the border the function has the last word.
    if Timestamp::now().saturating_add(ttl).is_ok_and(|end| at >= end) {
        return Err(Error::invalid(format!(
            "the job would never run: it is due at {at} and lives for {ttl:?}; make the time to live longer"
        )));
    }
    Ok(())
}

impl<S: Store> MessageServices<S> {
    /// Turns a job into a statement that sends it, for a transaction of another driver: sqlx, diesel, sea-orm and so on. The job is sent if that
    /// transaction commits. docs/interop.md has a recipe for each of these drivers.
    ///
    /// The job is what a [`Context`](crate::Context) would send: with the defaults of its command, through the [send hooks](Self::on_send), checked, and
    /// encoded by the [codecs](Self::with_codec). The statement calls the SQL function `jobwright.send`.
    ///
    /// ```no_run
    /// # async fn f(messages: jobwright::MessageServices, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use jobwright::NewJob;
    ///
    /// let job = messages.as_sql(NewJob::json("send-invoice", &42).queue("billing").priority(5))?;
    /// let transaction = client.transaction().await?;                        // of any driver
    /// transaction.execute("insert into orders (id) values (42)", &[]).await?;
    /// transaction.query_one(&job.text, &[&job.parameter]).await?;
    /// transaction.commit().await?;
    /// messages.wake(&job.queue)?;                                           // or executors find it at their next poll
    /// # Ok(()) }
    /// ```
    ///
    /// Differences from a context:
    /// * Executors are not woken by the commit: call [`wake`](Self::wake). The job is claimed from the table, also where there is a broker.
    /// * A conflict (a given id of another job, a unique job that is to be rejected) is an error of the statement (SQLSTATE 23505), so the transaction
    ///   has failed.
    /// * A job whose time to live ends before it is due is refused; a context sends it, and it expires.
    /// * A queue that is full refuses nothing, and [`sent`](Self::sent) does not count the job.
    /// * In a handler, the job joins the trace of the handler's job only with [`NewJob::trace`](crate::NewJob::trace), and send hooks see no sender.
    /// * Several unique jobs, or jobs with given ids, in one transaction: send them in the same order everywhere, or two transactions may wait for each other and
    ///   one fails (SQLSTATE 40P01). A context orders them itself.
    ///
    /// While the job exists, the same statement sends nothing more. If the job is over, the same statement sends it again, and it runs again.
    ///
    /// # Errors
    /// * As for [`Context::send`](crate::Context::send), when the job is invalid, or a hook refuses it.
    /// * When a codec can't encode its payload.
    /// * [`Refused`](ErrorKind::Refused) on an embedded database.
    /// * `Refused` where custom message services [wrap](Self::wrap) these: they could neither write in that transaction nor learn of its commit. Use a
    ///   clone from before the wrap if that is meant.
    pub fn as_sql(&self, job: impl IntoJob<S>) -> Result<SqlStatement> {
        if self.shared.is_wrapped() {
            return Err(Error::new(
                ErrorKind::Refused,
                "a job can't be sent by SQL through custom message services, which would not see its flush and its commit: send it through a context, \
                 `enlist` a transaction, or use message services that nothing wraps",
            ));
        }
        let mut message = self.shared.hooked(job.into_job())?.validate(self.shared.limits)?;
        refuse_stillborn(&message)?;
        self.shared.codecs.message(&mut message)?;
        let by_sql = self.shared.jobs.send_by_sql(&message, self.shared.limits.payload)?;
        let (text, parameter) = by_sql.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "a job can't be sent by SQL into an embedded database, which has no functions: send it through a context, or `enlist` a transaction",
            )
        })?;
        Ok(SqlStatement { text, parameter, id: message.id, queue: message.queue })
    }
}
