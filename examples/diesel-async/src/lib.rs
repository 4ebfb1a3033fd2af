//! A shop whose own queries are diesel's: an order and the job that charges it are one commit. [`send`](mod@send) is the adapter.

#[path = "../../support/bank.rs"]
mod bank;
pub mod send;

use diesel::prelude::*;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use jobwright::{
    Command, ExecutorBuilder, JobContext, JobError, JobId, KindOptions, MessageServices, NewJob, Outcome, Unique,
};
use serde::{Deserialize, Serialize};

pub use self::bank::{Bank, BankError};
use self::send::{Error, send};

diesel::table! {
    /// The orders.
    orders (id) {
        /// Drawn by the database.
        id -> BigInt,
        /// The customer.
        customer -> Text,
        /// The amount to charge.
        cents -> BigInt,
        /// Whether the bank has charged it.
        paid -> Bool,
    }
}

/// The service's own tables. A real one has its own migrations.
pub const SCHEMA: &str = "create table if not exists orders (
    id bigint generated always as identity primary key,
    customer text not null,
    cents bigint not null,
    paid boolean not null default false
)";

/// The state of the handlers.
pub struct Shop {
    /// The service's own connections.
    pub pool: Pool<AsyncPgConnection>,
    /// The bank.
    pub bank: Bank,
}

/// Charges an order.
#[derive(Serialize, Deserialize)]
pub struct ChargeOrder {
    /// Its id.
    pub order: i64,
}

impl Command for ChargeOrder {
    const KIND: &'static str = "charge-order";
    type State = Shop;

    fn options() -> KindOptions {
        KindOptions::default().queue("billing")
    }

    async fn execute(self, cx: &mut JobContext<'_, Shop>) -> Result<Outcome, JobError> {
        // The bank sees the same key at each attempt, so it charges once.
        let key = cx.job().id.to_string();
        let shop = cx.state();
        let mut connection = shop.pool.get().await?;
        let order = orders::table.find(self.order);
        let cents = order.select(orders::cents).first(&mut connection).await?;
        shop.bank.charge(cents, &key).await?;
        // A transaction of its own, which may stand although the job runs again: it has to be harmless at the second time.
        diesel::update(order).set(orders::paid.eq(true)).execute(&mut connection).await?;
        // This message commits with the end of this job.
        cx.send(NewJob::json("thank", &self.order))?;
        Ok(Outcome::Done)
    }
}

/// Stores an order and sends the job that charges it: both, or neither. Returns their ids.
///
/// # Errors
/// When the database does not take them.
pub async fn place(shop: &Shop, messages: &MessageServices, customer: &str, cents: i64) -> Result<(i64, JobId), Error> {
    let mut connection = shop.pool.get().await?;
    let (order, sent) = connection
        .transaction::<_, Error, _>(async |connection| {
            let order = diesel::insert_into(orders::table)
                .values((orders::customer.eq(customer), orders::cents.eq(cents)))
                .returning(orders::id)
                .get_result(connection)
                .await?;
            let unique = Unique::key(format!("order-{order}"));
            let sent = send(connection, messages, ChargeOrder { order }.job().unique(unique)).await?;
            Ok((order, sent))
        })
        .await?;
    Ok((order, sent.committed(messages)))
}

/// Whether an order is paid.
///
/// # Errors
/// When there is no such order, or the database does not answer.
pub async fn is_paid(shop: &Shop, order: i64) -> Result<bool, Error> {
    let mut connection = shop.pool.get().await?;
    Ok(orders::table.find(order).select(orders::paid).first(&mut connection).await?)
}

/// Returns the service's connections. Creates its tables.
///
/// # Errors
/// When the database does not answer.
pub async fn connect(url: &str) -> Result<Pool<AsyncPgConnection>, Error> {
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url)).build()?;
    pool.get().await?.batch_execute(SCHEMA).await?;
    Ok(pool)
}

/// Returns what runs the jobs. Tests use the same.
pub fn executor(builder: ExecutorBuilder, shop: Shop) -> ExecutorBuilder {
    builder
        .command::<ChargeOrder>()
        .handle("thank", |job| async move {
            println!("thanks for order {}", job.payload.decode::<i64>()?);
            Ok(Outcome::Done)
        })
        .state(shop)
        .queue("billing", 10)
        .queue("default", 10)
}
