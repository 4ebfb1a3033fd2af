//! Claims that count the limits they fall under: see `allowance` in the schema.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use tokio_postgres::Row;

use super::range::Ranges;
use super::rows;
use super::shared::Shared;
use super::unreadable::claimed;
use crate::error::Result;
use crate::store::{Allowed, ClaimRequest, Claimed, Counted, Scope};

/// Returns the key that a limit is counted under.
fn key(counted: &Counted<'_>) -> String {
    format!("{}{}", counted.scope.prefix(), counted.name)
}

/// Returns the locks that an admission pass waits for: claims count the keys of queues and kinds, and no others. The server has capacity
/// for a few thousand locks, and a pass may involve more tenants than that.
pub(super) fn locks(schema: &str, keys: &[String]) -> Vec<i64> {
    let counted = [Scope::Queue, Scope::Kind].map(Scope::prefix);
    let keys = keys.iter().filter(|key| counted.iter().any(|prefix| key.starts_with(prefix)));
    keys.map(|key| lock(schema, key)).collect()
}

/// Returns the lock of a key, which everything that counts under it takes. Two keys may share a lock; then their users wait for each other.
fn lock(schema: &str, key: &str) -> i64 {
    let mut hash = Sha256::new();
    // A schema name contains no NUL.
    hash.update(schema.as_bytes());
    hash.update([0]);
    hash.update(key.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    i64::from_be_bytes(first)
}

/// Returns the jobs, and how many rows were claimed.
pub(super) async fn claim(shared: &Arc<Shared>, request: &ClaimRequest<'_>) -> Result<(Claimed, usize)> {
    let ranges = Ranges::of(&request.range, None);
    let after: Vec<i64> = ranges.after.iter().map(|after| after.unwrap_or(i64::MIN)).collect();
    let keys: Vec<String> = request.counted.iter().map(key).collect();
    let locks: Vec<i64> = keys.iter().map(|key| lock(&shared.config.schema, key)).collect();
    let scopes: Vec<&str> = request.counted.iter().map(|counted| counted.scope.as_str()).collect();
    let names: Vec<&str> = request.counted.iter().map(|counted| counted.name).collect();
    let running: Vec<i32> =
        request.counted.iter().map(|counted| i32::try_from(counted.running).unwrap_or(i32::MAX)).collect();
    let is = |scope: Scope| request.counted.iter().any(|counted| counted.scope == scope);
    let answer = shared
        .engine_once(
            "claim jobs under limits",
            if request.suspects { &shared.sql.claim_suspect_counted } else { &shared.sql.claim_counted },
            &[
                &request.node.0,
                &request.queue,
                &ranges.ranks,
                &after,
                &ranges.last_ranks,
                &ranges.last_seqs,
                &request.kinds,
                &rows::count(request.limit),
                &request.claim.as_int4(),
                &locks,
                &keys,
                &scopes,
                &names,
                &running,
                &is(Scope::Queue),
                &is(Scope::Kind),
                &request.admitted_too,
            ],
        )
        .await?;
    let is_claimed = |row: &Row| matches!(rows::get::<Option<uuid::Uuid>>(row, "id"), Ok(Some(_)));
    let (rows, told): (Vec<Row>, Vec<Row>) = answer.into_iter().partition(is_claimed);
    let told = rows::single(&told)?;
    let recount = rows::get::<Option<Vec<i32>>>(told, "recount")?;
    let micros = rows::get::<Option<i64>>(told, "wait_us")?;
    let allowed = Allowed {
        jobs: usize::try_from(rows::get::<i64>(told, "allowed")?).unwrap_or(0),
        wait: micros.map(|micros| std::time::Duration::from_micros(micros.max(0).unsigned_abs())),
        unblocked: rows::get(told, "unblocked")?,
        written: recount.is_some(),
        recount: recount.into_iter().flatten().filter_map(|place| usize::try_from(place - 1).ok()).collect(),
        waits: rows::get(told, "waits")?,
        passed_over: rows::get(told, "passed_over")?,
        yields: rows::get(told, "yields")?,
        permits: rows::get(told, "permits")?,
    };
    let claimed =
        Claimed { jobs: claimed(shared, request.node, &rows).await?, reserved_from: None, allowed: Some(allowed) };
    Ok((claimed, rows.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_waits_for_claims_that_count_and_not_for_each_tenant() {
        let mut keys: Vec<String> =
            (0..10_000).flat_map(|n| [format!("t:{n}"), format!("s:q\u{1}{n}"), format!("g:{n}")]).collect();
        assert!(locks("s", &keys).is_empty());
        keys.extend(["q:default", "k:mail"].map(str::to_owned));
        assert_eq!(locks("s", &keys), [lock("s", "q:default"), lock("s", "k:mail")]);
    }
}
