//! Logical decoding: a publication over all tables makes PostgreSQL refuse each update and each delete of a table that has no replica identity.

use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;

/// The tables of a schema without a replica identity by which rows can be updated and deleted.
const WITHOUT: &str = "select c.relname::text
    from pg_class c
    where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p')
      and case c.relreplident when 'f' then false
                              when 'd' then not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indisvalid)
                              when 'i' then not exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident and i.indisvalid)
                              else true end
    order by 1";

async fn without<const POOLED: bool>(db: &Pg<POOLED>) -> Vec<String> {
    let rows = db.aside().await.query(WITHOUT, &[&db.schema()]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// A table that a later change adds is looked at too.
pub(crate) async fn each_table_has_one<const POOLED: bool>(db: &Pg<POOLED>) {
    assert_eq!(without(db).await, [""; 0]);
    db.raw("create table {schema}.later (n integer)").await;
    assert_eq!(without(db).await, ["later"], "the look finds nothing");
}

/// Runs cases one after the other, each in a schema of its own on this server.
macro_rules! play {
    ($url:expr, $($module:ident { $($case:ident)* })*) => {
        $($({
            let db = Pg::<false>::create_on($url).await;
            crate::conformance::$module::$case(&db).await;
        })*)*
    };
}

/// They update or delete rows of each table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_over_all_tables_stops_nothing() {
    if crate::support::postgres_url().is_none() {
        return;
    }
    let server = PrivatePg::start_with(&["wal_level = logical"], &[]);
    let url = &server.url();
    let db = Pg::<false>::create_on(url).await;
    db.raw("create publication everything for all tables; create table {schema}.later (n integer); insert into {schema}.later values (1)")
        .await;
    let refused = db.aside().await.batch_execute("update later set n = 2").await.unwrap_err();
    assert!(
        refused.as_db_error().unwrap().message().contains("replica identity"),
        "the server checks nothing: {refused}"
    );
    play! { url,
        claiming { gives_a_token_and_raises_the_attempt }
        sending { a_thousand all_or_nothing }
        idempotence { others_of_the_batch_are_kept }
        timers { in_batches promoted_jobs_keep_their_place }
        fencing { a_batch_is_judged_one_by_one_when_complete a_batch_may_mix_verdicts }
        settling { an_error_is_kept_with_every_verdict cancel_removes }
        external { each_verdict a_reply_is_left leases_run_out_in_batches an_extended_lease_holds }
        release_lost { a_lost_owner_costs_the_attempt several_dead_nodes }
        release_unknown { knowing_nothing_gives_back_all put_off_is_spent_and_hidden }
        nodes { a_heartbeat_renews_the_lease a_retiring_node_gives_back_the_jobs_it_owns }
        dead_letters { a_thousand_over_a_while }
        retry_cancel_delete { retry cancel delete }
        delivered { hidden_or_not }
        submissions { racing_receivers pruned_by_age }
        schedules { each_occurrence_happens_once put_again deleted }
        groups { a_batch_releases_only_the_permits_of_the_jobs_it_ended every_verdict_conserves_permits }
        group_runs { one_after_the_other }
        limits { a_limit_bounds_running_jobs rules_are_kept long_waiting_jobs_gain_priority a_rate_bounds_starts }
        counting { so_many_over_all_nodes a_rate_counts_starts rules_that_come_and_go }
        rates { starts_older_than_their_rates_period_are_removed }
        time_to_live { a_waiting_job_expires }
        uniques { replace for_a_period }
        unique_key_release { a_batch_gives_its_keys_back }
        terminating { a_limit_waits_for_the_handler an_external_worker_reports }
        history { forgotten_when_old old_dead_letters_go the_old_audit_goes a_result_has_its_time }
        job_operations { suspend_from_every_state resume_from_every_state change_in_every_state the_audit_names_operator_and_action an_evicted_node_loses_its_jobs }
        progress { progress_goes_after_its_job }
    }
}
