//! A shop as a web service: an order and the job that charges it are one commit.

#[path = "../../support/bank.rs"]
mod bank;

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
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

impl Command for ChargeOrder {
    const KIND: &'static str = "charge-order";
    type State = Bank;

    async fn execute(self, cx: &mut JobContext<'_, Bank>) -> Result<Outcome, JobError> {
        // The bank sees the same key at each attempt, so it charges once.
        let key = cx.job().id;
        let bank = cx.state();
        let transaction = cx.transaction().await?;
        let order = transaction.query_one("select cents from orders where id = $1", &[&self.order]).await?;
        bank.charge(order.get(0), &key.to_string()).await?;
        transaction.execute("update orders set paid = true where id = $1", &[&self.order]).await?;
        // The order is paid and this job is gone, or neither.
        Ok(Outcome::Done)
    }
}

/// Returns what runs the jobs. Tests use the same.
pub fn executor(builder: ExecutorBuilder, bank: Bank) -> ExecutorBuilder {
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
pub async fn put_schedules(messages: &MessageServices) -> Result<(), Error> {
    let each_morning = Schedule::in_zone("0 6 * * *", "Europe/Berlin")?;
    let remind = NewJob::json("remind-unpaid", &());
    messages.schedules().put(NewSchedule::new("remind-unpaid", each_morning, remind)).await?;
    Ok(())
}

/// Returns the routes of the service.
pub fn routes(messages: MessageServices) -> Router {
    Router::new().route("/orders", post(place)).route("/orders/{id}", get(show)).with_state(messages)
}

/// Runs jobs and answers requests until `stop` is ready. Then it stops both gracefully.
///
/// # Errors
/// When the executor can't start, or either can't go on.
pub async fn run(
    messages: MessageServices,
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
    State(messages): State<MessageServices>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<Value>), Failure> {
    let mut cx = messages.begin();
    let insert = "insert into orders (customer, cents) values ($1, $2) returning id";
    let row = cx.transaction().await?.query_one(insert, &[&order.customer, &order.cents]).await?;
    let id: i64 = row.get(0);
    let job = cx.send(ChargeOrder { order: id })?;
    cx.commit().await?; // the order and its job, or neither
    Ok((StatusCode::CREATED, Json(json!({ "order": id, "job": job }))))
}

async fn show(State(messages): State<MessageServices>, Path(id): Path<i64>) -> Result<Response, Failure> {
    let mut cx = messages.begin();
    let select = "select customer, cents, paid from orders where id = $1";
    let row = cx.transaction().await?.query_opt(select, &[&id]).await?;
    cx.rollback().await?;
    Ok(match row {
        Some(row) => {
            let (customer, cents, paid): (String, i64, bool) = (row.get(0), row.get(1), row.get(2));
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
