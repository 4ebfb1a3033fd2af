//! Claim and remove in batches.

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Result;
use crate::load::{BATCH, QUEUE};
use crate::setup::{Bench, Schema};

/// Empties a filled table over open connections.
pub(crate) async fn empty(clients: &[Client], schema: &Schema) -> Result<()> {
    empty_by(clients, schema, BATCH).await
}

/// The same with another batch size, for each connection.
pub(crate) async fn empty_by(clients: &[Client], schema: &Schema, batch: usize) -> Result<()> {
    let cycles = clients.iter().enumerate().map(|(n, client)| cycle(client, schema, n as i64 + 1, batch));
    futures_util::future::try_join_all(cycles).await?;
    Ok(())
}

pub(crate) async fn connect(bench: &Bench<'_>, connections: usize) -> Result<Vec<Client>> {
    futures_util::future::try_join_all((0..connections).map(|_| bench.connect_bare())).await
}

/// The HOT update of the lock columns, found again by ctid, then a removal by id: the cheapest cycle that survives a crash of its owner and counts
/// attempts. `blocked_on is null` is the condition of the index of claimable jobs.
async fn cycle(client: &Client, schema: &Schema, owner: i64, batch: usize) -> Result<()> {
    let job = schema.table();
    let claim = client
        .prepare_typed(
            &format!(
                "update {job} set lock_owner = $1, version = version + 1, attempt = attempt + 1, claimed_at = clock_timestamp() \
                 where ctid = any (array(select ctid from {job} where queue = '{QUEUE}' and blocked_on is null and lock_owner is null \
                                         order by rank, seq limit {batch} for update skip locked)) \
                 returning id, payload"
            ),
            &[Type::INT8],
        )
        .await?;
    let remove = client
        .prepare_typed(
            &format!("delete from {job} where id = any ($1) and lock_owner = $2"),
            &[Type::UUID_ARRAY, Type::INT8],
        )
        .await?;
    loop {
        let rows = client.query(&claim, &[&owner]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        client.execute(&remove, &[&ids, &owner]).await?;
    }
}
