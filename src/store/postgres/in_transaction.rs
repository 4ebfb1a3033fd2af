//! The statements that run in a transaction of the application: the flush of its messages, and the end of the job whose handler used it.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::columns::{MessageColumns, Texts, in_parts, other_jobs};
use super::commit_status::Evidence;
use super::driver::{Columns as _, Driver};
use super::rows;
use super::statements::Statements;
use super::types::JsonParam;
use super::unique::{Keys, given};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobMessage, NodeId};
use crate::store::admission::group_key;
use crate::store::given_ids::{refuse, refuse_twice};
use crate::store::unique::Taken;
use crate::store::{GroupClaim, Inserted, NewResult, Preclaim, Removed};

/// Inserts messages. `evidence` is there if this store commits the transaction, and gets the facts by which the commit can be asked for later.
pub(super) async fn insert(
    driver: &mut impl Driver,
    sql: &Statements,
    messages: &[JobMessage],
    owned: Option<&Preclaim>,
    mut evidence: Option<&mut Evidence>,
) -> Result<Inserted> {
    refuse_twice(messages)?;
    let texts = Texts::new(messages);
    let mut taken = Taken::default();
    let known = match given(messages) {
        Some(given) => driver.run("look for given ids", &sql.known_ids, &given.params()).await?,
        None => Vec::new(),
    };
    if let Some(keys) = Keys::new(messages, &known)? {
        taken = keys.read(&driver.run("ask for keys", &sql.take_unique, &keys.params()).await?)?;
    }
    let parts = MessageColumns::of_each(messages, &texts, owned, &taken.skip);
    let mut inserted = Inserted::default();
    if parts.is_empty() {
        return Ok(taken.reported());
    }
    if let Some(given) = in_parts(messages, &parts) {
        refuse(&other_jobs(&driver.run("decide about given ids", &sql.lock_ids, &given.params()).await?)?)?;
    }
    for columns in parts {
        // The commit of a caller needs no proof here.
        let columns = if evidence.is_some() { columns.named() } else { columns };
        let rows = driver.run("flush job messages", columns.statement(sql), &columns.params()).await?;
        let (more, xid) = columns.read(&rows)?;
        inserted.add(more);
        if let Some(evidence) = evidence.as_deref_mut()
            && evidence.xid.is_none()
        {
            evidence.xid = xid;
        }
    }
    if let Some(evidence) = evidence {
        // A job whose id was given may have existed before.
        let written = messages.iter().enumerate().filter(|(position, _)| !taken.skip.contains(position));
        let fresh = written.map(|(_, message)| message).find(|message| !message.id_given);
        if let Some(fresh) = fresh {
            evidence.job = Some(fresh.id.into());
        }
    }
    inserted.add(taken.reported());
    Ok(inserted)
}

/// See [`UnitOfWork::remove`](crate::store::UnitOfWork::remove).
pub(super) async fn remove(
    driver: &mut impl Driver,
    sql: &Statements,
    evidence: &mut Evidence,
    node: NodeId,
    fence: Fence,
) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 3] = [&node.0, fence.id.as_uuid(), &fence.version];
    let rows = driver.run("remove the finished job", &sql.remove, &params).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    evidence.xid = Some(row.column("xid")?);
    Ok(true)
}

/// See [`UnitOfWork::remove_and_lease`](crate::store::UnitOfWork::remove_and_lease).
pub(super) async fn remove_and_lease(
    driver: &mut impl Driver,
    sql: &Statements,
    evidence: &mut Evidence,
    (node, fence): (NodeId, Fence),
    claim_next: &GroupClaim,
    claim: ClaimNumber,
) -> Result<Removed> {
    let (key, lease) = (group_key(&claim_next.group), Uuid::from(claim_next.lease));
    let number = claim.as_int4();
    let params: [&(dyn ToSql + Sync); 6] = [&node.0, fence.id.as_uuid(), &fence.version, &key, &lease, &number];
    let tried = "remove the finished job and go on with its group";
    let rows = driver.run(tried, &sql.remove_and_lease, &params).await?;
    let Some(row) = rows.first() else { return Ok(Removed::NotOwned) };
    evidence.xid = Some(row.column("xid")?);
    Ok(if row.column("leased")? { Removed::Leased } else { Removed::Gone })
}

/// See [`UnitOfWork::remove_all`](crate::store::UnitOfWork::remove_all).
pub(super) async fn remove_all(
    driver: &mut impl Driver,
    sql: &Statements,
    evidence: &mut Evidence,
    node: NodeId,
    fences: &[Fence],
) -> Result<bool> {
    let (ids, versions) = rows::fence_columns(fences);
    let rows = driver.run("remove finished jobs", &sql.remove_all, &[&node.0, &ids, &versions]).await?;
    if let Some(row) = rows.first() {
        evidence.xid = Some(row.column("xid")?);
    }
    Ok(rows.len() == fences.len())
}

/// See [`UnitOfWork::keep_result`](crate::store::UnitOfWork::keep_result).
pub(super) async fn keep_result(driver: &mut impl Driver, sql: &Statements, result: &NewResult) -> Result<()> {
    let payload = JsonParam(result.payload.get());
    let retention = rows::micros(result.retention);
    let params: [&(dyn ToSql + Sync); 4] = [result.id.as_uuid(), &result.kind, &payload, &retention];
    driver.run("keep the result of a job", &sql.keep_result, &params).await?;
    Ok(())
}

/// Returns the database and its server, for people and to be compared.
pub(super) async fn place(driver: &mut impl Driver, sql: &Statements) -> Result<String> {
    let rows = driver.run("find out which database it is", &sql.place, &[]).await?;
    rows.first().map_or_else(|| Ok(String::new()), |row| row.column("place"))
}
