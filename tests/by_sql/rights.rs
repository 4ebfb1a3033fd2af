//! What a role with the rights of a worker can do, and nothing else.

use jobwright::admin::JobState;
use tokio_postgres::Client;

use super::{LATE, NO_RIGHT, Site, accepted, read, refused, take};
use crate::support::jobs::job;
use crate::support::unique;

/// The statements that `jobwright grants worker` prints.
const GRANTS: &str = include_str!("../../cli/src/grants/worker.sql");

/// A role that is dropped with what it was granted.
struct Role {
    name: String,
    client: Client,
}

async fn allow(owner: &Client, role: &str, queue: &str) {
    let sql = format!("insert into worker_queue (role_name, queue) values ('\"{role}\"'::regrole, $1)");
    owner.execute(&sql, &[&queue]).await.unwrap();
}

impl Role {
    async fn create(site: &Site, queues: &[&str]) -> Self {
        let name = unique("worker_");
        site.worker.batch_execute(&format!("create role \"{name}\"")).await.unwrap();
        for queue in queues {
            allow(&site.worker, &name, queue).await;
        }
        Self::granted(site, name).await
    }

    async fn granted(site: &Site, name: String) -> Self {
        let grants = GRANTS.replace("{schema}", site.db.schema()).replace("{role}", &name);
        let grants: String = grants.lines().filter(|line| !line.contains("{queue}")).collect::<Vec<_>>().join("\n");
        site.worker.batch_execute(&grants).await.unwrap();
        let client = site.db.client().await;
        client.batch_execute(&format!("set role \"{name}\"")).await.unwrap();
        Self { name, client }
    }

    async fn drop(self, site: &Site) {
        site.worker.batch_execute(&format!("drop owned by \"{0}\"; drop role \"{0}\"", self.name)).await.unwrap();
    }
}

async fn denied(client: &Client, sql: &str) {
    let error = client.batch_execute(sql).await.expect_err(sql);
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some(NO_RIGHT), "{sql}: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_takes_from_its_queues_and_ends_what_it_was_handed() {
    let Some(site) = Site::create().await else { return };
    let role = Role::create(&site, &["default"]).await;
    site.jobs.send_all([job(), job(), job().queue("other")]).await;
    let mine = read(&take(&role.client, "1").await.unwrap()[0]);
    let theirs = site.take("1").await.iter().map(read).collect::<Vec<_>>().remove(0);
    denied(&role.client, "select * from take('other', 'w')").await;
    let guessed = super::Taken { token: mine.token, ..theirs };
    refused(&role.client, "done", guessed, "", LATE).await;
    accepted(&role.client, "progress", mine, ", 1").await;
    accepted(&role.client, "done", mine, "").await;
    for table in
        ["job", "external_job", "timer_job", "report_key", "worker", "worker_queue", "result", "node", "jobs", "rule"]
    {
        denied(&role.client, &format!("select count(*) from {table}")).await;
        if table != "jobs" {
            denied(&role.client, &format!("delete from {table}")).await;
        }
    }
    denied(&role.client, "insert into worker_queue values (current_user::regrole, '*')").await;
    for internal in [
        "token_of('x', gen_random_uuid(), 1)",
        "may_take('other')",
        "note_worker('w', 'q', null)",
        "retry_delay(null, 1)",
        "end_taken('x', '{}', '{}', 'release', null, null, null, true)",
        "refuse_late('x', '{}', '{}', '{}', true, true)",
        "check_tokens('x', '{}', '{}')",
    ] {
        denied(&role.client, &format!("select {internal}")).await;
    }
    assert_eq!(site.jobs.count(JobState::External).await, 1);
    role.drop(&site).await;
}

/// All queues, members of a role, and a role without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whose_queues_count() {
    let Some(site) = Site::create().await else { return };
    let (all, none) = (Role::create(&site, &["*"]).await, Role::create(&site, &[]).await);
    take(&all.client, "1").await.unwrap();
    all.client.query("select * from take('any', 'w')", &[]).await.unwrap();
    denied(&none.client, "select * from take('default', 'w')").await;
    site.worker.batch_execute(&format!("grant \"{}\" to \"{}\"", all.name, none.name)).await.unwrap();
    take(&none.client, "1").await.unwrap();
    // A role that is dropped takes its queues with it, also for a new one of that name.
    let gone = Role::create(&site, &["default"]).await;
    let name = gone.name.clone();
    gone.drop(&site).await;
    site.worker.batch_execute(&format!("create role \"{name}\"")).await.unwrap();
    let again = Role::granted(&site, name).await;
    denied(&again.client, "select * from take('default', 'w')").await;
    again.drop(&site).await;
    take(&none.client, "1").await.unwrap();
    let message = site.db.client().await;
    message.batch_execute(&format!("set role \"{}\"", none.name)).await.unwrap();
    site.worker.batch_execute(&format!("revoke \"{}\" from \"{}\"", all.name, none.name)).await.unwrap();
    let (state, told) = take(&message, "1").await.unwrap_err();
    assert!(state == NO_RIGHT && told.contains("jobwright grants worker") && told.contains(&none.name), "{told}");
    all.drop(&site).await;
    none.drop(&site).await;
}

/// A caller's search path, temporary tables and operators run nothing with the rights of the owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_search_path_changes_nothing() {
    let Some(site) = Site::create().await else { return };
    let role = Role::create(&site, &["default"]).await;
    site.jobs.send_all([job(), job()]).await;
    role.client.batch_execute("create temp table job (id uuid); create temp table external_job (id uuid); set search_path = pg_temp, pg_catalog").await.unwrap();
    let schema = site.db.schema();
    let rows = role.client.query(&format!("select * from {schema}.take('default', 'w', 2)"), &[]).await.unwrap();
    assert_eq!(rows.len(), 2);
    let taken = read(&rows[0]);
    let done = format!("select {schema}.done($1, $2)");
    assert!(role.client.query_one(&done, &taken.names()).await.unwrap().get::<_, bool>(0));
    role.drop(&site).await;
}
