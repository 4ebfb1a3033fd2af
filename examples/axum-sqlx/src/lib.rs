//! A shop as a web service, with transactions of sqlx: an order and the job that charges it are one commit. It differs from ../axum by the queries and the
//! store alone.

#[path = "../../support/bank.rs"]
mod bank;

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use jobwright::sqlx_0_8::Sqlx;
use jobwright::{
    Command, CommandExecutor, Error, ExecutorBuilder, JobContext, JobError, MessageServices, NewJob, NewSchedule,
    Outcome, RetryAdvice, Schedule,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::bank::{Bank, BankError};

/// The service's own tables. A real one has its own migrations.
pub const SCHEMA: &str = "create table if not exists orders (
    id bigint generated always as identity primary key,
    customer text not null,
    cents bigint not null,
    paid boolean not null default false
)";

/// Charges an order.
#[derive(Serialize, Deserialize)]
pub struct ChargeOrder {
    /// Its id.
    pub order: i64,
}

impl Command<Sqlx> for ChargeOrder {
    const KIND: &'static str = "charge-order";
    type State = Bank;

    async fn execute(self, cx: &mut JobContext<'_, Bank, Sqlx>) -> Result<Outcome, JobError> {
        // The bank sees the same key at each attempt, so it charges once.
        let key = cx.job().id;
        let bank = cx.state();
        let transaction = cx.transaction().await?;
        let cents: i64 = sqlx::query_scalar("select cents from orders where id = $1")
            .bind(self.order)
            .fetch_one(&mut **transaction)
            .await?;
        bank.charge(cents, &key.to_string()).await?;
        set_paid(transaction, self.order).await?;
        // The order is paid and this job is gone, or neither.
        Ok(Outcome::Done)
    }
}

/// A function of the service's own, which knows nothing of jobs.
async fn set_paid(connection: &mut sqlx::PgConnection, order: i64) -> sqlx::Result<()> {
    sqlx::query("update orders set paid = true where id = $1").bind(order).execute(connection).await?;
    Ok(())
}

/// Returns what runs the jobs. Tests use the same.
pub fn executor(builder: ExecutorBuilder<Sqlx>, bank: Bank) -> ExecutorBuilder<Sqlx> {
    builder
        .command::<ChargeOrder>()
        .handle("remind-unpaid", |job| async move {
            tracing::info!(job = %job.id, "reminders go out here");
            Ok(Outcome::Done)
        })
        .state(bank)
        .queue("default", 10)
        // An order that the bank declines becomes a dead letter at once; all else is tried again.
        .classify(|error, _job| match error.downcast_ref() {
            Some(BankError::Declined(_)) => RetryAdvice::Never,
            _ => error.advice(),
        })
}

/// Puts the schedules. Safe at each start: an unchanged one keeps its next occurrence.
///
/// # Errors
/// When the database does not answer.
pub async fn put_schedules(messages: &MessageServices<Sqlx>) -> Result<(), Error> {
    let each_morning = Schedule::in_zone("0 6 * * *", "Europe/Berlin")?;
    let remind = NewJob::json("remind-unpaid", &());
    messages.schedules().put(NewSchedule::new("remind-unpaid", each_morning, remind)).await?;
    Ok(())
}

/// Returns the routes of the service.
pub fn routes(messages: MessageServices<Sqlx>) -> Router {
    Router::new().route("/orders", post(place)).route("/orders/{id}", get(show)).with_state(messages)
}

/// Runs jobs and answers requests until `stop` is ready. Then it stops both gracefully.
///
/// # Errors
/// When the executor can't start, or either can't go on.
pub async fn run(
    messages: MessageServices<Sqlx>,
    listener: tokio::net::TcpListener,
    bank: Bank,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    put_schedules(&messages).await?;
    let executor = executor(CommandExecutor::builder(messages.clone()), bank).start().await?;
    // /jobs/metrics, /jobs/readyz and so on.
    let app = routes(messages).nest("/jobs", jobwright_http::executor(executor.telemetry()));
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    // No more requests. Handlers that run have twenty seconds.
    executor.shutdown(Duration::from_secs(20)).await?;
    Ok(())
}

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    cents: i64,
}

async fn place(
    State(messages): State<MessageServices<Sqlx>>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    // A transaction of the service's own pool, as it has them everywhere.
    let mut transaction = messages.store().pool().begin().await?;
    let insert = sqlx::query_scalar("insert into orders (customer, cents) values ($1, $2) returning id");
    let id: i64 = insert.bind(&order.customer).bind(order.cents).fetch_one(&mut *transaction).await?;
    let mut enlisted = messages.enlist(&mut transaction);
    let job = enlisted.send(ChargeOrder { order: id })?;
    let flushed = enlisted.flush().await?;
    transaction.commit().await?; // the order and its job, or neither
    flushed.committed();
    Ok((StatusCode::CREATED, Json(json!({ "order": id, "job": job }))))
}

async fn show(State(messages): State<MessageServices<Sqlx>>, Path(id): Path<i64>) -> Result<Response, Failure> {
    let select = sqlx::query_as("select customer, cents, paid from orders where id = $1").bind(id);
    let row: Option<(String, i64, bool)> = select.fetch_optional(messages.store().pool()).await?;
    Ok(match row {
        Some((customer, cents, paid)) => {
            Json(json!({ "customer": customer, "cents": cents, "paid": paid })).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// Any error of a request. Its text is for the log, and not for the client.
struct Failure(Box<dyn std::error::Error + Send + Sync>);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        tracing::error!(error = %self.0, "a request failed");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
