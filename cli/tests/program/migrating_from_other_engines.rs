//! The SQL of docs/migrate/README.md that moves the jobs of another engine, run exactly as documented.

use crate::common::Sandbox;
use serde_json::json;

const DOCUMENT: &str = include_str!("../../../docs/migrate/README.md");

/// The columns of Flowable's and Activiti's table that the SQL reads, with their types there, and some that it does not read.
const THEIRS: &str = "
create table act_ru_timer_job (
    id_ varchar(64) primary key, rev_ integer, type_ varchar(255) not null, lock_exp_time_ timestamp, lock_owner_ varchar(255),
    exclusive_ boolean, execution_id_ varchar(64), process_instance_id_ varchar(64), proc_def_id_ varchar(64), retries_ integer,
    duedate_ timestamp, repeat_ varchar(255), handler_type_ varchar(255), handler_cfg_ varchar(4000), tenant_id_ varchar(255) default ''
);
insert into act_ru_timer_job (id_, type_, exclusive_, execution_id_, process_instance_id_, retries_, duedate_, handler_type_, handler_cfg_, tenant_id_)
values ('1', 'timer', true, 'e1', 'p1', 3, '2030-01-01 12:00:00', 'trigger-timer', '{\"activityId\":\"wait\"}', 'acme'),
       ('2', 'timer', false, 'e2', 'p1', 2, '2030-01-02 12:00:00', 'trigger-timer', null, ''),
       ('3', 'timer', true, 'e3', 'p3', 0, '2030-01-03 12:00:00', 'trigger-timer', null, '');
set timezone = 'Asia/Tokyo';";

#[test]
fn timers_of_another_engine_arrive_with_all_they_need() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let schema = sandbox.schema().unwrap().to_owned();
    let sql = DOCUMENT.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let sql = sql.replace("jobwright.", &format!("{schema}."));
    assert!(sql.contains("act_ru_timer_job"), "{sql}");
    let url = std::env::var("DATABASE_URL").unwrap();
    let left = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("set search_path = {schema}; {THEIRS} {sql}")).await.unwrap();
        client.query_one("select string_agg(id_, ',') from act_ru_timer_job", &[]).await.unwrap().get::<_, String>(0)
    });
    assert_eq!(left, "3", "what has no retries left is to be looked at first");
    let jobs = sandbox.list(&["--state", "timer"]);
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let job = |execution: &str| {
        let shown = jobs.iter().map(|job| sandbox.show(job["id"].as_str().unwrap()));
        shown.into_iter().find(|job| job["payload"]["json"]["execution"] == execution).unwrap()
    };
    let first = job("e1");
    assert_eq!((&first["due_at"], &first["max_attempts"]), (&json!("2030-01-01T12:00:00Z"), &json!(3)), "{first}");
    assert_eq!(first["payload"]["json"]["configuration"], "{\"activityId\":\"wait\"}");
    assert_eq!((&first["options"]["group"], &first["options"]["tenant"]), (&json!("p1"), &json!("acme")), "{first}");
    let second = job("e2");
    assert!(second["options"]["group"].is_null() && second["max_attempts"] == 2, "{second}");
}
