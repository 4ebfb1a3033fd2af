//! Sends jobs in transactions of diesel-async. Copy this file: it knows nothing of this service.

use diesel::sql_types::{Text, Uuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use jobwright::{IntoJob, JobId, MessageServices, Postgres};

/// Any error of a unit of work; [`downcast_ref`](std::error::Error#method.downcast_ref) finds those of diesel and of jobwright in it.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A job that is sent if its transaction commits. Then call [`committed`](Self::committed).
#[derive(Debug)]
#[must_use = "executors are not woken before `committed` is called"]
pub struct Sent {
    /// The id of the job; of a unique job whose key is held, that of the job that holds it.
    pub id: JobId,
    /// Whether the job has the id with which it was sent. If not, another job holds its key, and nothing was sent.
    pub is_sent: bool,
    queue: String,
}

/// Sends a job in the transaction that is open on `connection`. At the first error, of this or of any other statement, return it from the closure of
/// `transaction`. Otherwise the server rolls the transaction back at its commit, and diesel-async returns `Ok`.
///
/// # Errors
/// When the job is invalid or the database does not take it. A conflict, as of a unique job that is to be rejected, is diesel's `UniqueViolation`.
pub async fn send(
    connection: &mut AsyncPgConnection,
    messages: &MessageServices,
    job: impl IntoJob<Postgres>,
) -> Result<Sent, Error> {
    #[derive(diesel::QueryableByName)]
    struct Answer {
        #[diesel(sql_type = Uuid)]
        id: uuid::Uuid,
    }

    let statement = messages.as_sql(job)?;
    let query = diesel::sql_query(statement.text).bind::<Text, _>(statement.parameter);
    let answer: Answer = query.get_result(connection).await?;
    let id = JobId::from(answer.id);
    Ok(Sent { id, is_sent: id == statement.id, queue: statement.queue })
}

impl Sent {
    /// Wakes the executors of the job's queue, after the commit. Without it they find the job at their next poll.
    pub fn committed(self, messages: &MessageServices) -> JobId {
        if self.is_sent {
            // An invalid name was refused before.
            let _ = messages.wake(&self.queue);
        }
        self.id
    }
}
