//! Claims that fail: when the node checks afterwards what it owns, and when it need not.

use std::time::Duration;

use crate::faults::ledger_worker::{Does, send, start};
use crate::support::environment::{PATIENCE, World, lease};
use crate::support::eventually;
use crate::support::postgres::Pg;

/// Counts claims, and scans of the job table (`release_unknown`). Claims are refused while `refusing` has a row. Sequences count, because they
/// keep their value after a rollback.
const COUNTING: &str = "
    create sequence {schema}.walks;
    create sequence {schema}.refusals;
    create table {schema}.refusing ();
    insert into {schema}.refusing default values;
    create function {schema}.watch() returns trigger language plpgsql as $watch$
    begin
        if current_query() like '%lock_owner = null%' then
            perform nextval('{schema}.walks');
        elsif exists (select from {schema}.refusing) then
            perform nextval('{schema}.refusals');
            raise exception 'could not serialize access' using errcode = 'serialization_failure';
        end if;
        return null;
    end
    $watch$;
    create trigger watch before update on {schema}.job for each statement execute function {schema}.watch()";

async fn count(db: &Pg<false>, sequence: &str) -> i64 {
    let sql = format!("select case when is_called then last_value else 0 end from {}.{sequence}", db.schema());
    db.client().await.query_one(&sql, &[]).await.unwrap().get(0)
}

/// A claim that the server refused took nothing, so there is nothing to check. A check reads the whole job table, and a server that refuses one claim
/// refuses many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_claim_is_no_reason_to_walk_over_all_jobs() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw(COUNTING).await;
    let messages = db.messages().await;
    let ids = send::<Pg<false>>(&messages, Does::Note, 4).await;
    let executor = start::<Pg<false>>(&messages, lease(30), 4, None).await;
    eventually(PATIENCE, async || count(&db, "refusals").await >= 5).await;
    assert_eq!(count(&db, "walks").await, 0);
    db.raw("delete from {schema}.refusing").await;
    db.drained().await;
    db.each_once(&ids).await;
    assert_eq!(count(&db, "walks").await, 0);
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert!(count(&db, "walks").await > 0, "a node that leaves walks: they are counted");
}
