use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::executor::handler::job_context::JobContext;
use crate::executor::kinds::options::KindOptions;
use crate::job::{IntoJob, JobError, NewJob, Outcome};
use crate::store::{Postgres, Store};

/// A payload with the code to execute it, like jBPM's command message.
///
/// ```
/// use jobwright::{Command, JobContext, JobError, Outcome};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendInvoice { order: i64 }
///
/// impl Command for SendInvoice {
///     const KIND: &'static str = "send-invoice";
///     type State = ();
///
///     async fn execute(self, cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
///         cx.transaction().await?
///             .execute("update orders set invoiced = true where id = $1", &[&self.order]).await?;
///         Ok(Outcome::Done)
///     }
/// }
/// ```
///
/// `S` is the store whose transaction the command uses. A command that uses none can be implemented for all: `impl<S: Store> Command<S> for
/// …`.
///
/// Handlers run at least once and commit once: what a handler does outside its transaction can happen again.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a command for the store `{S}`",
    label = "needs `impl Command<{S}> for {Self}`",
    note = "`impl Command for {Self}` is for PostgreSQL",
    note = "a command that uses no transaction can be one for every store: `impl<S: Store> Command<S> for {Self}`"
)]
pub trait Command<S: Store = Postgres>: Serialize + DeserializeOwned + Send + 'static {
    /// Names the command in the database and on the wire. It must never change; see [`ALIASES`](Self::ALIASES).
    const KIND: &'static str;

    /// Former names: jobs that were sent under them still find it.
    const ALIASES: &'static [&'static str] = &[];

    /// The type of the state that the application gives to its handlers; `()` for none.
    type State: Send + Sync + 'static;

    /// Returns the defaults of this kind.
    fn options() -> KindOptions {
        KindOptions::default()
    }

    /// Does the work.
    ///
    /// # Errors
    /// Any failure. A [`JobError`] says whether to try again; other errors convert into one that is tried again.
    fn execute(self, cx: &mut JobContext<'_, Self::State, S>)
    -> impl Future<Output = Result<Outcome, JobError>> + Send;

    /// Returns the job message for this command, with the defaults of its kind. It may be changed before it is sent.
    fn job(self) -> NewJob {
        Self::options().apply(NewJob::json(Self::KIND, &self))
    }
}

impl<S: Store, C: Command<S>> IntoJob<S> for C {
    fn into_job(self) -> NewJob {
        self.job()
    }
}
