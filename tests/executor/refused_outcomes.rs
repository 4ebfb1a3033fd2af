//! Outcomes that the database refuses: triggers stand for any cause.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExecutorConfig, JobError, JobId, MessageServices, NewJob, Outcome};

use crate::support::environment::{Gate, PATIENCE, World, lease, patient, quick};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;
use crate::support::sqlx_0_9::SqlxDb;
use crate::support::{SqlDb, TestDb, eventually};

/// The database's message when it refuses.
const REFUSED: &str = "not this one";

/// A database that can be made to refuse.
pub(crate) trait Refusing: World {
    /// Refuses to move this job into another table.
    async fn refuse_into(&self, table: &str, id: JobId);

    /// Refuses to remove this job, which every outcome requires.
    async fn refuse_the_end(&self, id: JobId);

    /// Ends what [`refuse_the_end`](Self::refuse_the_end) began.
    async fn allow_the_end(&self);

    /// Refuses each claim, and any other change of a job.
    async fn refuse_claims(&self);

    async fn allow_claims(&self);

    /// Makes the time be over until which a job was hidden.
    async fn unhide_all(&self, id: JobId);
}

impl Refusing for Pg<false> {
    async fn refuse_into(&self, table: &str, id: JobId) {
        self.raw(&format!("{REFUSE}; create trigger refuse before insert on {{schema}}.{table} for each row when (new.id = '{id}') execute function {{schema}}.refuse()")).await;
    }

    async fn refuse_the_end(&self, id: JobId) {
        self.raw(&format!("{REFUSE}; create trigger refuse before delete on {{schema}}.job for each row when (old.id = '{id}') execute function {{schema}}.refuse()")).await;
    }

    async fn allow_the_end(&self) {
        self.raw("drop trigger refuse on {schema}.job").await;
    }

    async fn refuse_claims(&self) {
        self.raw(&format!("{REFUSE}; create trigger refuse_claims before update on {{schema}}.job for each row execute function {{schema}}.refuse()")).await;
    }

    async fn allow_claims(&self) {
        self.raw("drop trigger refuse_claims on {schema}.job").await;
    }

    async fn unhide_all(&self, id: JobId) {
        self.raw(&format!("update {{schema}}.job set visible_at = null where id = '{id}'")).await;
    }
}

const REFUSE: &str = "create or replace function {schema}.refuse() returns trigger language plpgsql as
                      $$ begin raise exception 'not this one'; end $$";

impl Refusing for SqlxDb {
    async fn refuse_into(&self, table: &str, id: JobId) {
        self.aside().refuse_into(table, id).await;
    }

    async fn refuse_the_end(&self, id: JobId) {
        self.aside().refuse_the_end(id).await;
    }

    async fn allow_the_end(&self) {
        self.aside().allow_the_end().await;
    }

    async fn refuse_claims(&self) {
        self.aside().refuse_claims().await;
    }

    async fn allow_claims(&self) {
        self.aside().allow_claims().await;
    }

    async fn unhide_all(&self, id: JobId) {
        self.aside().unhide_all(id).await;
    }
}

#[cfg(feature = "sqlite")]
impl Refusing for SqliteDb {
    async fn refuse_into(&self, table: &str, id: JobId) {
        let state = table.trim_end_matches("_job");
        let sql = format!(
            "create trigger refuse_{state} before update on jobwright_job when new.id = x'{}' and new.state = '{state}'
             begin select raise(abort, '{REFUSED}'); end",
            id.as_uuid().simple()
        );
        self.connection().execute_batch(&sql).unwrap();
    }

    async fn refuse_the_end(&self, id: JobId) {
        let id = id.as_uuid().simple();
        let sql = format!(
            "create trigger refuse_removal before delete on jobwright_job when old.id = x'{id}' begin select raise(abort, '{REFUSED}'); end;
             create trigger refuse_end before update on jobwright_job
             when old.id = x'{id}' and old.state = 'running' and new.state in ('timer', 'dead') begin select raise(abort, '{REFUSED}'); end"
        );
        self.connection().execute_batch(&sql).unwrap();
    }

    async fn allow_the_end(&self) {
        self.connection().execute_batch("drop trigger refuse_end; drop trigger refuse_removal").unwrap();
    }

    async fn refuse_claims(&self) {
        let sql = format!(
            "create trigger refuse_claims before update on jobwright_job begin select raise(abort, '{REFUSED}'); end"
        );
        self.connection().execute_batch(&sql).unwrap();
    }

    async fn allow_claims(&self) {
        self.connection().execute_batch("drop trigger refuse_claims").unwrap();
    }

    async fn unhide_all(&self, id: JobId) {
        let sql = format!("update jobwright_job set visible_at = null where id = x'{}'", id.as_uuid().simple());
        self.connection().execute_batch(&sql).unwrap();
    }
}

/// How often the handler of each job ran.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<JobId, u32>>>);

impl Runs {
    fn of(&self, id: JobId) -> u32 {
        self.0.lock().unwrap().get(&id).copied().unwrap_or(0)
    }

    fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap().values().copied().collect()
    }
}

/// Builds an executor whose handlers count, wait at the gate, and end as given.
async fn counting<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
    runs: &Runs,
    gate: &Gate,
    ends: fn() -> Result<Outcome, JobError>,
) -> CommandExecutor<W::Store> {
    let (runs, gate) = (runs.clone(), gate.clone());
    CommandExecutor::builder(messages.clone())
        .config(config)
        .queue("default", JOBS)
        .handle("counts", move |job| {
            *runs.0.lock().unwrap().entry(job.id).or_default() += 1;
            let gate = gate.clone();
            async move {
                gate.pass().await;
                ends()
            }
        })
        .start()
        .await
        .unwrap()
}

/// They end together, so their outcomes are recorded together.
const JOBS: usize = 40;

async fn send<W: World>(messages: &MessageServices<W::Store>, attempts: u32) -> Vec<JobId> {
    let mut cx = messages.begin();
    let job = || NewJob::json("counts", &()).max_attempts(attempts);
    let ids = (0..JOBS).map(|_| cx.send(job()).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

/// Whatever reason the database has to refuse one of many.
pub(crate) async fn one_of_many_is_a_dead_letter_that_says_why<W: Refusing>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 5).await;
    let bad = ids[JOBS / 2];
    db.refuse_into("timer_job", bad).await;
    let (runs, gate) = (Runs::default(), Gate::closed());
    let later = || Err(JobError::retry_after("no", Duration::from_secs(3600)));
    let executor = counting::<W>(&messages, quick(), &runs, &gate, later).await;
    gate.waiting(JOBS).await;
    gate.open();
    db.reaches(bad, JobState::Dead).await;
    db.counts(JobState::Timer, JOBS - 1).await;
    let (_, reason) = db.jobs().detail(bad).await.dead.unwrap();
    assert!(reason.contains("its outcome could not be recorded") && reason.contains(REFUSED), "{reason}");
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(runs.all(), [1; JOBS]);
    assert_eq!(stats.in_flight, 0);
}

/// No outcome of the job is ever accepted. Each run of its handler costs an attempt, runs are spaced out, and there are no more than its attempts
/// allow.
pub(crate) async fn one_that_can_not_end_waits_at_its_cost<W: Refusing>(db: &W) {
    let messages = db.messages().await;
    let ids = send::<W>(&messages, 2).await;
    let bad = ids[JOBS / 2];
    db.refuse_the_end(bad).await;
    let (runs, gate) = (Runs::default(), Gate::closed());
    let done = || Ok(Outcome::Done);
    let executor = counting::<W>(&messages, quick(), &runs, &gate, done).await;
    gate.waiting(JOBS).await;
    gate.open();
    let jobs = db.jobs();
    let waits = async |attempt| {
        eventually(PATIENCE, async || {
            let summary = jobs.detail(bad).await.summary;
            (summary.state, summary.attempt) == (JobState::Waiting, attempt)
        })
        .await;
    };
    waits(1).await;
    eventually(PATIENCE, async || jobs.all().await.len() == 1).await;
    // A scan of all waiting jobs does not find it: jobs sent later run before it.
    let elsewhere = db.messages().await;
    let other = counting::<W>(&elsewhere, quick(), &runs, &gate, done).await;
    let late = send::<W>(&messages, 1).await;
    for id in late {
        db.gone(id).await;
    }
    assert_eq!((runs.of(bad), jobs.detail(bad).await.summary.attempt), (1, 1));

    db.unhide_all(bad).await;
    waits(2).await;
    assert_eq!(runs.of(bad), 2);
    // Its attempts are used up: it only has to become a dead letter.
    db.unhide_all(bad).await;
    waits(3).await;
    db.allow_the_end().await;
    db.unhide_all(bad).await;
    db.reaches(bad, JobState::Dead).await;
    let (_, reason) = jobs.detail(bad).await.dead.unwrap();
    assert!(reason.contains("could not be recorded"), "{reason}");
    assert_eq!(runs.of(bad), 2);
    for executor in [executor, other] {
        assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().in_flight, 0);
    }
}

/// The job is no longer in flight before the node checks for unknown claims, though the rest of its batch is still being recorded. Otherwise it would
/// be given back only at the next check, in two minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_can_not_be_postponed_is_released_at_once() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let slow = World::config(&db).call_timeout(Duration::from_secs(120));
    let messages = MessageServices::postgres(&slow).await.unwrap();
    let mut cx = messages.begin();
    let jobs: Vec<NewJob> = (0..4).map(|n| NewJob::json("fails", &n)).collect();
    let ids: Vec<JobId> = jobs.into_iter().map(|job| cx.send(job).unwrap()).collect();
    cx.commit().await.unwrap();
    let (first, bad, next) = (ids[0], ids[1], ids[2]);
    db.refuse_into("timer_job", bad).await;
    db.refuse_into("dead_letter_job", bad).await;
    db.raw(&format!(
        "create trigger refuse_hold before update on {{schema}}.job for each row
             when (old.id = '{bad}' and new.visible_at is not null) execute function {{schema}}.refuse();
         create function {{schema}}.wait() returns trigger language plpgsql as
             $$ begin lock table {{schema}}.ledger in share mode; return new; end $$;
         create trigger wait before insert on {{schema}}.timer_job for each row
             when (new.id = '{first}') execute function {{schema}}.wait();
         create function {{schema}}.dawdle() returns trigger language plpgsql as
             $$ begin perform pg_sleep(3); return new; end $$;
         create trigger dawdle before insert on {{schema}}.timer_job for each row
             when (new.id = '{next}') execute function {{schema}}.dawdle()"
    ))
    .await;
    // The first outcome waits for this lock, so the next two come together.
    let held = db.hold("lock table {schema}.ledger in exclusive mode").await;
    let gates: Vec<Gate> = (0..4).map(|_| Gate::closed()).collect();
    let doors = gates.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        // One after the other: the next begins when the previous outcome is handed to the completer.
        .queue("default", 1)
        .handle("fails", move |job| {
            let door = doors[job.payload.decode::<usize>().unwrap()].clone();
            async move {
                door.pass().await;
                Err(JobError::retry_after("no", Duration::from_secs(3600)))
            }
        })
        .start()
        .await
        .unwrap();
    gates[0].open();
    let client = db.client().await;
    let waits = "select exists (select from pg_locks where not granted and relation = 'ledger'::regclass)";
    eventually(PATIENCE, async || client.query_one(waits, &[]).await.unwrap().get(0)).await;
    gates[1].open();
    gates[2].open();
    gates[3].waiting(1).await;
    held.release().await;
    db.reaches(bad, JobState::Waiting).await;
    gates[3].open();
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A server that lacks a resource for a while refuses nothing permanently: the job is neither delayed by a minute nor given back to run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_on_the_way_to_the_dead_letters_is_waited_for() {
    // The server lacks something, or lets the role do nothing by now.
    for state in ["53200", "42501"] {
        on_the_way_to_the_dead_letters(state).await;
    }
}

async fn on_the_way_to_the_dead_letters(state: &str) {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let ids = send::<Pg<false>>(&messages, 1).await;
    let bad = ids[JOBS / 2];
    db.refuse_into("timer_job", bad).await;
    // A sequence keeps its value after a rollback.
    db.raw(&format!(
        "create sequence {{schema}}.tries;
         create function {{schema}}.exhausted() returns trigger language plpgsql security definer set search_path = {{schema}} as
             $$ begin
                 if nextval('{{schema}}.tries') <= 3 then raise exception 'not now' using errcode = '{state}'; end if;
                 return new;
             end $$;
         create trigger exhausted before insert on {{schema}}.dead_letter_job for each row
             when (new.id = '{bad}') execute function {{schema}}.exhausted()"
    ))
    .await;
    let (runs, gate) = (Runs::default(), Gate::closed());
    let later = || Ok(Outcome::Snooze(Duration::from_secs(3600)));
    let executor = counting::<Pg<false>>(&messages, quick(), &runs, &gate, later).await;
    gate.waiting(JOBS).await;
    gate.open();
    db.reaches(bad, JobState::Dead).await;
    db.counts(JobState::Timer, JOBS - 1).await;
    assert_eq!((db.jobs().detail(bad).await.summary.attempt, runs.all()), (1, vec![1; JOBS]), "it was claimed again");
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().in_flight, 0);
}

/// As a migration of the application's that went wrong, or a damaged file: no statement of a kind works, and no job is to blame.
pub(crate) async fn a_table_that_is_gone_for_a_while<W: World + SqlDb>(db: &W) {
    let logs = Logs::capture();
    let messages = db.messages().await;
    send::<W>(&messages, 1).await;
    let (runs, gate) = (Runs::default(), Gate::closed());
    let config = lease(30).poll_interval(Duration::from_millis(100));
    let executor = counting::<W>(&messages, config, &runs, &gate, || Ok(Outcome::Done)).await;
    gate.waiting(JOBS).await;
    // A new name has no schema on PostgreSQL.
    let prefix = if std::any::type_name::<W>().contains("Sqlite") { "{}" } else { "" };
    db.change(&format!("alter table {{}}job rename to {prefix}job_elsewhere")).await;
    gate.open();
    eventually(PATIENCE, async || logs.about("no job's fault", "WARN").len() == 1).await;
    db.change(&format!("alter table {{}}job_elsewhere rename to {prefix}job")).await;
    db.drained().await;
    assert_eq!(runs.all(), vec![1; JOBS], "handlers ran again");
    assert_eq!(db.jobs().count(JobState::Dead).await, 0);
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.refused), (JOBS as u64, 0), "{stats:?}");
}
