//! Bare loops for groups, limits and unique keys: the database work that each of them needs at least.

use futures_util::future::try_join_all;
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::drain::{connect, empty_by};
use crate::Result;
use crate::load::{BATCH, KIND, QUEUE, SEND_BATCH, payload};
use crate::setup::{Bench, Schema};

/// The kind of loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Claims and removes this many at a time; with two connections each has half of them.
    Batches(usize),
    /// The same with 500, on rows that have a tenant's column.
    Tenant,
    /// The same with 500, on rows that have a column with a unique index, inserted unless the key exists.
    Unique,
    /// Claims the head of each free group of this many, 500 at a time, by an index of group and order. A group is free while its head is not owned.
    Heads(usize),
    /// Removes a job and claims the next one with the same statement, one commit a job. A user's row is in that transaction, or not.
    Chain { row: bool },
}

impl Limit {
    /// Returns the label of the limit beside a drain.
    pub(crate) fn drain(self) -> String {
        match self {
            Self::Batches(size) => format!("claim {size}, remove {size}, on 1 or 2 connections"),
            Self::Tenant => format!("claim {BATCH}, remove {BATCH}, on 1 or 2 connections, a column more"),
            Self::Unique => format!("claim {BATCH}, remove {BATCH}, on 1 or 2 connections, a unique index"),
            Self::Heads(_) => "claim the head of each free group, remove it, on 1 or 2 connections".to_owned(),
            Self::Chain { row: false } => "remove a job and claim the next, one commit a job".to_owned(),
            Self::Chain { row: true } => "BEGIN, row, remove a job and claim the next, COMMIT".to_owned(),
        }
    }

    /// Returns the label of the limit beside a send, where rows have more than plain ones.
    pub(crate) fn send(self) -> Option<String> {
        let with = match self {
            Self::Batches(_) | Self::Chain { .. } => return None,
            Self::Tenant => "the column",
            Self::Unique => "a unique index",
            Self::Heads(_) => "the column and its index",
        };
        Some(format!("insert of {SEND_BATCH} rows from arrays, with {with}"))
    }

    /// Returns the numbers of connections to try; the best counts.
    pub(crate) fn connections(self) -> &'static [usize] {
        match self {
            Self::Chain { .. } => &[1],
            _ => &[1, 2],
        }
    }

    /// Creates what the table has in addition to a plain one.
    pub(crate) async fn prepare(self, client: &Client, schema: &Schema) -> Result<()> {
        let (job, name) = (schema.table(), &schema.name);
        let sql = match self {
            Self::Batches(_) => return Ok(()),
            Self::Tenant => format!("alter table {job} add column key text"),
            Self::Unique => format!("alter table {job} add column key text; create unique index on {job} (key)"),
            Self::Heads(_) => format!("alter table {job} add column key text; create index on {job} (key, seq)"),
            Self::Chain { .. } => format!("create table {name}.effect (n bigint not null)"),
        };
        Ok(client.batch_execute(&sql).await?)
    }

    /// Inserts the jobs, 1,000 with a statement.
    pub(crate) async fn fill(self, client: &Client, schema: &Schema, jobs: usize) -> Result<()> {
        let (column, value, conflict) = match self {
            Self::Batches(_) | Self::Chain { .. } => ("", "", ""),
            Self::Tenant | Self::Heads(_) => (", key", ", m.key", ""),
            Self::Unique => (", key", ", m.key", "on conflict (key) do nothing"),
        };
        let sql = format!(
            "insert into {} (id, kind, queue, rank, max_attempts, payload{column}) \
             select m.id, m.kind, m.queue, 0, 10, m.body::jsonb{value} \
             from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) as m(id, kind, queue, body, key) {conflict}",
            schema.table()
        );
        let statement = client.prepare(&sql).await?;
        let (kinds, queues, bodies) = (vec![KIND; SEND_BATCH], vec![QUEUE; SEND_BATCH], vec![payload(); SEND_BATCH]);
        for first in (0..jobs).step_by(SEND_BATCH) {
            let size = SEND_BATCH.min(jobs - first);
            let ids: Vec<Uuid> = (0..size).map(|_| Uuid::now_v7()).collect();
            let keys: Vec<String> = (first..first + size).map(|n| self.key(n)).collect();
            client.execute(&statement, &[&ids, &&kinds[..size], &&queues[..size], &&bodies[..size], &keys]).await?;
        }
        Ok(())
    }

    /// Returns the value of the column for the job of this number.
    fn key(self, n: usize) -> String {
        match self {
            Self::Batches(_) | Self::Chain { .. } => String::new(),
            Self::Tenant => format!("tenant-{}", n % 10),
            Self::Unique => format!("order-{n}"),
            Self::Heads(groups) => format!("group-{}", n % groups),
        }
    }

    /// Empties the table over open connections.
    pub(crate) async fn empty(self, clients: &[Client], schema: &Schema) -> Result<()> {
        match self {
            Self::Batches(size) => empty_by(clients, schema, (size / clients.len()).max(1)).await,
            Self::Tenant | Self::Unique => empty_by(clients, schema, BATCH).await,
            Self::Heads(groups) => {
                let names: Vec<String> = (0..groups).map(|n| self.key(n)).collect();
                // Each connection has its own groups, so they never wait for each other.
                let hands = names.chunks(groups.div_ceil(clients.len()));
                let loops = clients.iter().zip(hands).enumerate();
                try_join_all(loops.map(|(n, (client, hand))| heads(client, schema, hand, n as i64 + 1))).await?;
                Ok(())
            }
            Self::Chain { row } => chain(clients, schema, row).await,
        }
    }
}

pub(crate) async fn clients(bench: &Bench<'_>, connections: usize) -> Result<Vec<Client>> {
    connect(bench, connections).await
}

/// Claims by ctid, as the plain cycle does, and removes by id.
async fn heads(client: &Client, schema: &Schema, groups: &[String], owner: i64) -> Result<()> {
    let job = schema.table();
    let claim = client
        .prepare_typed(
            &format!(
                "update {job} set lock_owner = $1, version = version + 1, attempt = attempt + 1, claimed_at = clock_timestamp() \
                 where ctid = any (array( \
                     select head.ctid from unnest($2) as g(name) cross join lateral ( \
                         select ctid, lock_owner from {job} where key = g.name order by seq limit 1) head \
                     where head.lock_owner is null)) \
                   and lock_owner is null \
                 returning id, payload"
            ),
            &[Type::INT8, Type::TEXT_ARRAY],
        )
        .await?;
    let remove = client
        .prepare_typed(
            &format!("delete from {job} where id = any ($1) and lock_owner = $2"),
            &[Type::UUID_ARRAY, Type::INT8],
        )
        .await?;
    loop {
        let mut claimed = 0;
        for some in groups.chunks(BATCH) {
            let ids: Vec<Uuid> = client.query(&claim, &[&owner, &some]).await?.iter().map(|row| row.get(0)).collect();
            if !ids.is_empty() {
                client.execute(&remove, &[&ids, &owner]).await?;
            }
            claimed += ids.len();
        }
        if claimed == 0 {
            return Ok(());
        }
    }
}

async fn chain(clients: &[Client], schema: &Schema, row: bool) -> Result<()> {
    const OWNER: i64 = 1;
    let [client] = clients else { return Err("a chain has one connection".into()) };
    let job = schema.table();
    let next = client
        .prepare_typed(
            &format!(
                "with gone as (delete from {job} where id = $1 and lock_owner = $2) \
                 update {job} set lock_owner = $2, version = version + 1, attempt = attempt + 1, claimed_at = clock_timestamp() \
                 where ctid = any (array(select ctid from {job} where queue = '{QUEUE}' and blocked_on is null and lock_owner is null \
                                         order by rank, seq limit 1 for update skip locked)) \
                 returning id, payload, seq"
            ),
            &[Type::UUID, Type::INT8],
        )
        .await?;
    let user = client.prepare(&format!("insert into {}.effect (n) values ($1)", schema.name)).await?;
    let mut held = client.query_opt(&next, &[&Uuid::nil(), &OWNER]).await?;
    while let Some(job) = held {
        let (id, seq): (Uuid, i64) = (job.get(0), job.get(2));
        if row {
            client.batch_execute("begin").await?;
            client.execute(&user, &[&seq]).await?;
        }
        held = client.query_opt(&next, &[&id, &OWNER]).await?;
        if row {
            client.batch_execute("commit").await?;
        }
    }
    Ok(())
}
