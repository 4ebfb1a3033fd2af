//! PostgreSQL: what forgets, ages, moves or releases rows goes on around one that the application refuses to let go, and takes it later.

use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine::ClaimRequest;

use crate::support::jobs::{claim_number, hand_out_number};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// The statements, each with the table whose rows it takes, how its rows are marked that are refused, and which rows are still to be taken.
const STATEMENTS: &[(&str, &str, &str, &str)] = &[
    ("prune_history", "history", "kind = 'bad'", "true"),
    ("prune_dead_letters", "dead_letter_job", "kind = 'bad'", "true"),
    ("prune_results", "result", "kind = 'bad'", "true"),
    ("prune_progress", "progress", "percent = 66", "true"),
    ("prune_submissions", "submission", "get_byte(digest, 0) = 66", "true"),
    ("prune_rate_log", "rate_log", "key = 'q:bad'", "true"),
    ("prune_audit", "audit", "who = 'bad'", "true"),
    ("prune_keys", "unique_key", "get_byte(key, 0) = 66", "true"),
    ("expire_jobs", "job", "kind = 'bad'", "true"),
    ("expire_jobs", "timer_job", "kind = 'bad'", "true"),
    ("expire_jobs", "unique_key", "get_byte(key, 0) = 66", "true"),
    ("promote", "timer_job", "kind = 'bad'", "true"),
    ("age", "job", "kind = 'bad'", "rank = 0"),
    ("release_lost", "job", "kind = 'bad'", "lock_owner is not null"),
    ("release_claimed", "job", "kind = 'bad'", "lock_owner is not null"),
    ("release_unknown", "job", "kind = 'bad'", "lock_owner is not null"),
    ("expire_external", "external_job", "kind = 'bad'", "true"),
    ("unhide", "job", "kind = 'bad'", "visible_at is not null"),
];

/// How many rows there are of each, and which of them are refused: the first, one among the others, and the last.
const ROWS: usize = 20;
const BAD: [usize; 3] = [1, 10, 20];

/// How many rows a run takes at most: some of those that are refused come after the ones that it would take.
const WINDOW: usize = 7;

fn is_bad(n: usize) -> bool {
    BAD.contains(&n)
}

/// Makes the rows that a statement takes, and returns what runs it.
async fn fill<const POOLED: bool>(db: &Pg<POOLED>, statement: &str, table: &str) -> Vec<jobwright::JobId> {
    let bad = "case when n in (1, 10, 20) then";
    let each = format!("generate_series(1, {ROWS}) n");
    let old = "now() - interval '1 hour' + n * interval '1 second'";
    match statement {
        "prune_history" => {
            db.raw(&format!(
                "insert into {{schema}}.history (job_id, seq, kind, queue, outcome, attempt, created_at, ended_at)
                 select gen_random_uuid(), n, {bad} 'bad' else 'good' end, 'q', 'done', 1, now(), {old} from {each}"
            ))
            .await;
        }
        "prune_dead_letters" => {
            db.raw(&format!(
                "insert into {{schema}}.dead_letter_job
                     (seq, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason, payload)
                 select n, 1, {old}, now(), gen_random_uuid(), 1, 1, 0, {bad} 'bad' else 'good' end, 'q', 'no', '1' from {each}"
            ))
            .await;
        }
        "prune_results" => {
            db.raw(&format!(
                "insert into {{schema}}.result (job_id, kind, payload, expires_at)
                 select gen_random_uuid(), {bad} 'bad' else 'good' end, '1', {old} from {each}"
            ))
            .await;
        }
        "prune_progress" => {
            db.raw(&format!(
                "insert into {{schema}}.progress (job_id, percent) select gen_random_uuid(), {bad} 66 else 1 end from {each}"
            ))
            .await;
        }
        "prune_submissions" => {
            db.raw(&format!(
                "insert into {{schema}}.submission (id, digest, received_at)
                 select gen_random_uuid(), {bad} decode('42', 'hex') else decode('00', 'hex') end, {old} from {each}"
            ))
            .await;
        }
        "prune_rate_log" => {
            db.raw(&format!(
                "insert into {{schema}}.rate_log (key, at, n) select {bad} 'q:bad' else 'q:good' end, {old}, 1 from {each}"
            ))
            .await;
        }
        "prune_audit" => {
            db.raw(&format!(
                "insert into {{schema}}.audit (at, who, action, what) select {old}, {bad} 'bad' else 'good' end, 'a', '1' from {each}"
            ))
            .await;
        }
        "expire_jobs" if table == "unique_key" => {
            db.raw(&format!(
                "insert into {{schema}}.unique_key (key, job_id, hold, expires_at)
                 select set_byte(uuid_send(gen_random_uuid()), 0, {bad} 66 else 1 end), gen_random_uuid(), 'period', {old} from {each}"
            ))
            .await;
        }
        // A run looks at the keys from a random place on, so the others are where most runs come by.
        "prune_keys" => {
            db.raw(&format!(
                "insert into {{schema}}.unique_key (key, job_id, hold)
                 select set_byte(uuid_send(gen_random_uuid()), 0, {bad} 66 else 254 end), gen_random_uuid(), 'done' from {each}"
            ))
            .await;
        }
        _ => return fill_jobs(db, statement, table).await,
    }
    Vec::new()
}

async fn fill_jobs<const POOLED: bool>(db: &Pg<POOLED>, statement: &str, table: &str) -> Vec<jobwright::JobId> {
    let store = db.jobs();
    let all = (1..=ROWS).map(|n| {
        let job = NewJob::json(if is_bad(n) { "bad" } else { "good" }, &n);
        let job = if statement == "expire_jobs" { job.ttl(Duration::from_secs(3600)) } else { job };
        if table == "timer_job" { job.delay(Duration::from_secs(600)) } else { job }
    });
    let ids = store.send_all(all).await;
    match statement {
        "expire_jobs" => {
            db.raw(&format!(
                "update {{schema}}.{table} set options = jsonb_set(options, '{{expires}}', to_jsonb(1000000 + seq))"
            ))
            .await;
        }
        "expire_external" => {
            let lease = Duration::from_secs(3600);
            let out = store.hand_out("default", ROWS, lease, hand_out_number()).await.unwrap();
            assert_eq!(out.len(), ROWS);
            db.raw("update {schema}.external_job set lease_until = now() - interval '1 minute'").await;
        }
        "promote" => db.raw("update {schema}.timer_job set due_at = now() - interval '1 minute'").await,
        "age" => {
            store.put_rule(&Rule::new(Scope::Queue, "default").aging(Duration::from_secs(60))).await.unwrap();
            db.raw("update {schema}.job set created_at = now() - interval '1 hour'").await;
        }
        "unhide" => db.raw("update {schema}.job set visible_at = now() + interval '30 s'").await,
        _ => {}
    }
    ids
}

/// Runs a statement once. `claimed` names what was claimed.
async fn run(store: &Jobs, statement: &str, ids: &[jobwright::JobId], claimed: &ClaimRequest<'_>) {
    let zero = Duration::ZERO;
    match statement {
        "prune_history" => drop(store.prune_history(zero, 100).await.unwrap()),
        "prune_dead_letters" => drop(store.prune_dead_letters(zero, 100).await.unwrap()),
        "prune_results" => drop(store.prune_results(100).await.unwrap()),
        "prune_progress" => drop(store.prune_progress(100).await.unwrap()),
        "prune_submissions" => drop(store.prune_submissions(zero, 100).await.unwrap()),
        "prune_rate_log" => drop(store.prune_rates(100).await.unwrap()),
        "prune_audit" => drop(store.prune_audit(zero, 100).await.unwrap()),
        "prune_keys" => drop(store.prune_keys(100).await.unwrap()),
        "expire_jobs" => drop(store.expire_jobs(WINDOW).await.unwrap()),
        "expire_external" => drop(store.expire_external(WINDOW).await.unwrap()),
        "promote" => drop(store.promote_due(WINDOW).await.unwrap()),
        "age" => drop(store.age_jobs(WINDOW).await.unwrap()),
        "release_lost" => drop(store.release_lost(WINDOW, None).await.unwrap()),
        "release_claimed" => drop(store.release_claimed(claimed.node, claimed.claim, ids).await.unwrap()),
        // Its caller is told that rows are left.
        "release_unknown" => drop(store.release_unknown(claimed.node, &[], None).await),
        "unhide" => drop(store.unhide(ids).await.unwrap()),
        other => panic!("no such statement: {other}"),
    }
}

/// Returns how many rows are to be taken that are not refused, and how many that are.
async fn left<const POOLED: bool>(db: &Pg<POOLED>, table: &str, bad: &str, taken: &str) -> (i64, i64) {
    let sql = format!(
        "select count(*) filter (where not {bad}), count(*) filter (where {bad}) from \"{}\".{table} where {taken}",
        db.schema()
    );
    let row = db.aside().await.query_one(&sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// A trigger of the application refuses some rows.
pub(crate) async fn rows_refused_by_a_trigger_do_not_fail_their_batch<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    for (statement, table, bad, taken) in STATEMENTS {
        println!("{statement} of {table}");
        let ids = fill(db, statement, table).await;
        let node = store.node().await;
        let claimed = ClaimRequest::new(node, claim_number(), "default", 100);
        if statement.starts_with("release") {
            assert_eq!(store.claim(&claimed).await.unwrap().jobs.len(), ROWS);
            if *statement == "release_lost" {
                store.declare(node).await;
            }
        }
        db.raw(&format!(
            "create function {{schema}}.refuse_some() returns trigger language plpgsql as $$ begin
                 if (select {bad} from (select old.*) row) then raise exception 'the application keeps this row'; end if;
                 return null;
             end $$;
             create trigger keeps after delete or update on {{schema}}.{table} for each row execute function {{schema}}.refuse_some()"
        ))
        .await;
        eventually(PATIENCE, async || {
            run(&store, statement, &ids, &claimed).await;
            left(db, table, bad, taken).await == (0, 3)
        })
        .await;
        db.raw(&format!("drop trigger keeps on {{schema}}.{table}; drop function {{schema}}.refuse_some()")).await;
        eventually(PATIENCE, async || {
            run(&store, statement, &ids, &claimed).await;
            left(db, table, bad, taken).await == (0, 0)
        })
        .await;
        db.clear().await;
        db.raw("delete from {schema}.rule; delete from {schema}.dead_letter_job").await;
    }
}

/// A table of the application refers to a row, or goes with it while another transaction has locked that.
pub(crate) async fn rows_the_application_refers_to_do_not_fail_their_batch<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let claimed = ClaimRequest::new(store.node().await, claim_number(), "default", 100);
    for (statement, table, key) in [
        ("prune_dead_letters", "dead_letter_job", "id"),
        ("prune_results", "result", "job_id"),
        ("promote", "timer_job", "id"),
        ("expire_jobs", "timer_job", "id"),
    ] {
        for (action, lock) in [("restrict", ""), ("cascade", "select from {schema}.theirs for update")] {
            println!("{statement} of {table}, on delete {action}");
            fill(db, statement, table).await;
            db.raw(&format!(
                "create table {{schema}}.theirs (job uuid primary key references {{schema}}.{table} ({key}) on delete {action});
                 insert into {{schema}}.theirs select {key} from {{schema}}.{table} where kind = 'bad' limit 1"
            ))
            .await;
            let held = if lock.is_empty() { None } else { Some(db.hold(lock).await) };
            eventually(PATIENCE, async || {
                run(&store, statement, &[], &claimed).await;
                let (good, bad) = left(db, table, "kind = 'bad'", "true").await;
                (good, bad) == (0, 1)
            })
            .await;
            match held {
                Some(held) => held.release().await,
                None => db.raw("delete from {schema}.theirs").await,
            }
            eventually(PATIENCE, async || {
                run(&store, statement, &[], &claimed).await;
                left(db, table, "kind = 'bad'", "true").await == (0, 0)
            })
            .await;
            db.raw("drop table {schema}.theirs").await;
        }
    }
}

/// More rows are refused than one run can go around: the next runs go on behind them.
pub(crate) async fn many_that_are_refused_hide_none<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    db.raw(
        "insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, ended_at)
         select gen_random_uuid(), n, case when n <= 300 then 'bad' else 'good' end, 'q', 'done', 1, now(), now() - interval '1 hour' + n * interval '1 s'
         from generate_series(1, 400) n;
         create function {schema}.refuse_some() returns trigger language plpgsql as $$ begin
             if old.kind = 'bad' then perform pg_sleep(0.05); raise exception 'the application keeps this row'; end if;
             return null;
         end $$;
         create trigger keeps after delete on {schema}.history for each row execute function {schema}.refuse_some()",
    )
    .await;
    eventually(PATIENCE, async || {
        store.prune_history(Duration::ZERO, 50).await.unwrap();
        left(db, "history", "kind = 'bad'", "true").await == (0, 300)
    })
    .await;
}

/// A timer whose values are at fault becomes a dead letter beside one that is refused, and a timer that only breaks a constraint of the
/// application stays.
pub(crate) async fn each_row_is_judged_by_its_own_error<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    fill(db, "promote", "timer_job").await;
    let theirs = format!("{}_theirs", db.schema());
    db.raw(&format!(
        "create schema \"{theirs}\"; create table \"{theirs}\".t (x int not null);
         create function {{schema}}.refuse_some() returns trigger language plpgsql as $$ begin
             if old.payload = '1' then raise exception 'the application keeps this row'; end if;
             if old.payload = '10' then insert into \"{theirs}\".t values (null); end if;
             if old.payload = '20' then perform 1 / 0; end if;
             return null;
         end $$;
         create trigger keeps after delete on {{schema}}.timer_job for each row execute function {{schema}}.refuse_some()"
    ))
    .await;
    // It can't even be made a dead letter, because the trigger refuses that too.
    let parked = "queue like 'unreadable:%'";
    eventually(PATIENCE, async || {
        store.promote_due(WINDOW).await.unwrap();
        left(db, "timer_job", "payload = '20'", parked).await == (0, 1)
            && left(db, "timer_job", "payload in ('1', '10')", "true").await.0 == 1
    })
    .await;
    store.promote_due(WINDOW).await.unwrap();
    assert_eq!(left(db, "timer_job", "payload in ('1', '10')", &format!("not {parked}")).await, (0, 2));
    db.raw("drop trigger keeps on {schema}.timer_job; drop function {schema}.refuse_some()").await;
    store.promote_due(WINDOW).await.unwrap();
    assert_eq!(left(db, "timer_job", "true", &format!("not {parked}")).await, (0, 0));
    db.raw(&format!("drop schema \"{theirs}\" cascade")).await;
}

/// One row is locked, and another one is refused: an executor retires without both.
pub(crate) async fn one_is_locked_and_one_refused<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    fill(db, "release_lost", "job").await;
    let node = store.node().await;
    let claimed = ClaimRequest::new(node, claim_number(), "default", 100);
    assert_eq!(store.claim(&claimed).await.unwrap().jobs.len(), ROWS);
    db.raw(
        "create function {schema}.refuse_some() returns trigger language plpgsql as $$ begin
             if old.payload = '1' then raise exception 'the application keeps this row'; end if;
             return null;
         end $$;
         create trigger keeps after update on {schema}.job for each row execute function {schema}.refuse_some()",
    )
    .await;
    let held = db.hold("select from {schema}.job where payload = '2' for update").await;
    assert_eq!(store.retire_node(node).await.unwrap(), ROWS as u64 - 2);
    held.release().await;
    assert_eq!(left(db, "job", "payload in ('1', '2')", "lock_owner is not null").await, (0, 2));
    assert_eq!(store.release_lost(100, None).await.unwrap().total(), 1, "a monitor finds the one that was locked");
    db.raw("drop trigger keeps on {schema}.job").await;
    assert_eq!(store.release_lost(100, None).await.unwrap().total(), 1);
}

/// An executor whose lease is lost registers again, though the application refuses to let one of its rows go.
pub(crate) async fn a_node_retires_without_its_refused_rows<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    fill(db, "release_lost", "job").await;
    let node = store.node().await;
    let claimed = ClaimRequest::new(node, claim_number(), "default", 100);
    assert_eq!(store.claim(&claimed).await.unwrap().jobs.len(), ROWS);
    db.raw(
        "create function {schema}.refuse_some() returns trigger language plpgsql as $$ begin
             if old.kind = 'bad' then raise exception 'the application keeps this row'; end if;
             return null;
         end $$;
         create trigger keeps after update on {schema}.job for each row execute function {schema}.refuse_some()",
    )
    .await;
    assert_eq!(store.retire_node(node).await.unwrap(), (ROWS - BAD.len()) as u64);
    assert_eq!(left(db, "job", "kind = 'bad'", "lock_owner is not null").await, (0, 3));
    db.raw("drop trigger keeps on {schema}.job").await;
    assert_eq!(store.release_lost(100, None).await.unwrap().total(), 3, "a monitor finds the others");
}

/// A claim whose answer got lost, of a row that another transaction has locked, is told to the caller, who asks again.
pub(crate) async fn a_lost_claim_that_is_locked_is_not_forgotten<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let ids = fill(db, "release_claimed", "job").await;
    let claimed = ClaimRequest::new(store.node().await, claim_number(), "default", 100);
    assert_eq!(store.claim(&claimed).await.unwrap().jobs.len(), ROWS);
    let held = db.hold("select from {schema}.job where kind = 'bad' for update").await;
    let error = store.release_claimed(claimed.node, claimed.claim, &ids).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(left(db, "job", "kind = 'bad'", "lock_owner is not null").await, (0, 3));
    held.release().await;
    assert_eq!(store.release_claimed(claimed.node, claimed.claim, &ids).await.unwrap(), 3);
}
