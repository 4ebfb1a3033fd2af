//! Roles with the rights that `jobwright grants` gives, and no others: each can do its work with them alone.

use std::process::{Command, Output, Stdio};

use jobwright::internal::engine::testing::postgres_statement;

use crate::common::{Done, Sandbox, as_owner, until, uuid};

/// The roles of one test. They belong to the whole server, so they have unique names, and are dropped with the test.
pub(crate) struct Roles {
    pub(crate) sandbox: Sandbox,
    names: [(&'static str, String); 4],
}

impl Roles {
    /// Creates the roles in a database that grants nothing to everybody, and gives each what its purpose needs.
    pub(crate) fn create() -> Option<Self> {
        let sandbox = Sandbox::postgres()?;
        let names =
            ["sender", "executor", "operator", "monitor"].map(|role| (role, format!("jobwright_{role}_{}", uuid())));
        let roles = Self { sandbox, names };
        roles.sandbox.run(&["migrate"]).success();
        let schema = roles.sandbox.schema().unwrap();
        // As `alter default privileges … revoke execute on functions from public` would have left it.
        as_owner(&format!("revoke execute on all functions in schema {schema} from public")).unwrap();
        for (role, name) in &roles.names {
            as_owner(&format!("create role \"{name}\" login password 'secret'")).unwrap();
            let extras: &[&str] = match *role {
                "sender" => &["--with", "unique"],
                "executor" => &["--with", "external", "--with", "retention", "--with", "schedules"],
                _ => &[],
            };
            let arguments = [&["grants", *role, name.as_str(), "--apply"][..], extras].concat();
            roles.sandbox.run(&arguments).success();
        }
        Some(roles)
    }

    pub(crate) fn name(&self, role: &str) -> &str {
        &self.names.iter().find(|(known, _)| *known == role).unwrap().1
    }

    pub(crate) fn command(&self, role: &str, arguments: &[&str]) -> Command {
        let name = self.name(role);
        let mut command = self.sandbox.command(arguments);
        command.env("DATABASE_URL", url_of(name));
        command
    }

    /// Runs a command as a role. Asserts that it succeeds, and that no right was silently missing.
    fn run(&self, role: &str, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(role, arguments).output().unwrap();
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(status.success() && !err.contains("permission denied"), "{role}: {arguments:?}\n{out}\n{err}");
        out
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        for (_, name) in &self.names {
            // Best effort: a leftover role can do nothing, and its schema goes with the sandbox.
            let _ = as_owner(&format!("drop owned by \"{name}\"; drop role \"{name}\""));
        }
    }
}

/// Returns the URL of a role whose password is `secret`.
fn url_of(name: &str) -> String {
    let url = std::env::var("DATABASE_URL").unwrap();
    let host = url.rsplit_once('@').map_or_else(|| url.split_once("://").unwrap().1, |(_, host)| host);
    format!("postgres://{name}:secret@{host}")
}

/// At providers of databases no customer is a superuser, and few programs should be.
#[test]
fn an_ordinary_role_migrates_and_owns_the_schema() {
    let Some(sandbox) = Sandbox::postgres() else { return };
    let (role, schema) = (format!("jobwright_owner_{}", uuid()), sandbox.schema().unwrap());
    let setup = format!(
        "create role {role} login password 'secret'; drop schema {schema} cascade; create schema {schema} authorization {role}"
    );
    as_owner(&setup).unwrap();
    let as_role = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("DATABASE_URL", url_of(&role));
        Done::from(command.output().unwrap())
    };
    as_role(&["migrate"]).success();
    as_role(&["migrate", "--status"]).success();
    let works = format!(
        "set role {role};
         set search_path = {schema};
         do $$
         declare
             job record;
         begin
             if not cancel(send('kind', '1', due_at => now() + interval '1 hour')) or not cancel(send('kind', '2')) then
                 raise exception 'a job was not cancelled';
             end if;
             perform send('kind', '3');
             select * into strict job from take('default', 'worker');
             if not done(job.id, job.token) then
                 raise exception 'a job was not ended';
             end if;
         end
         $$"
    );
    as_owner(&works).unwrap();
    as_owner(&format!("drop owned by {role} cascade; drop role {role}")).unwrap();
}

#[test]
fn roles_do_their_work_with_what_they_are_granted() {
    let Some(roles) = Roles::create() else { return };
    let sandbox = &roles.sandbox;
    sandbox.configure(
        "[handlers.ends]\ncommand = [\"true\"]\n[handlers.lasts]\ncommand = [\"sleep\", \"600\"]\n[handlers.fails]\ncommand = [\"false\"]\n[history]\nkeep = \"all\"\n",
    );

    // The owner limits a queue, so that jobs are admitted too.
    sandbox.run(&["queues", "limit", "default", "--running", "3", "--rate", "1000/1s", "--depth", "1000"]).success();
    for arguments in [
        &["send", "ends"][..],
        &["send", "ends", "--delay", "1s"],
        &["send", "ends", "--id", "01890a5d-ac96-774b-bcce-b302099a8057"],
        &["send", "ends", "--group", "h"],
        &["send", "ends", "--unique", "once"],
        &["send", "fails", "--max-attempts", "1"],
        &["send", "kept"],
        &["send", "later", "--delay", "1h"],
    ] {
        roles.run("sender", arguments);
    }

    let sender = format!("set role \"{}\";", roles.name("sender"));
    let schema = sandbox.schema().unwrap();
    as_owner(&format!("{sender} select {schema}.send('ends', '1', exclusive_group => 'g') from generate_series(1, 3)"))
        .unwrap();
    as_owner(&format!("{sender} select {schema}.send('ends', '1', due_at => now() + interval '1 second')")).unwrap();
    let given = "id => '01890a5d-ac96-774b-bcce-b302099a8058', unique_key => 'given', unique_hold => 'waiting'";
    as_owner(&format!("{sender} select {schema}.send('ends', '1', {given}) from generate_series(1, 2)")).unwrap();
    // The second and the third replace the one before, which waits or is not due yet.
    for due in ["due_at => now() + interval '1 hour'", "due_at => now()", "due_at => now()"] {
        let replaces = format!("unique_key => 'replaced', unique_conflict => 'replace', {due}");
        as_owner(&format!("{sender} select {schema}.send('ends', '1', {replaces})")).unwrap();
    }
    assert_eq!(sandbox.list(&["--kind", "ends"]).len(), 5 + 3 + 1 + 1 + 1, "one for each that is unique");

    let log = sandbox.file("worker.log");
    let mut worker = roles
        .command("executor", &["worker"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    until("the worker", || {
        assert!(!said().contains("permission denied"), "{}", said());
        let left = sandbox.list(&[]);
        left.len() == 3 && left.iter().all(|job| job["kind"] != "ends")
    });

    let operate = |arguments: &[&str]| roles.run("operator", arguments);
    // Running jobs are cancelled: the operator's command moves their permits to the terminating handlers, and the executor frees them.
    for _ in 0..2 {
        roles.run("sender", &["send", "lasts", "--group", "l"]);
    }
    for _ in 0..2 {
        until("one of the group runs", || sandbox.list(&["--kind", "lasts", "--state", "running"]).len() == 1);
        operate(&["jobs", "cancel", "--kind", "lasts", "--state", "running"]);
    }
    for looks in ["operator", "monitor"] {
        roles.run(looks, &["status"]);
        roles.run(looks, &["jobs", "list"]);
        roles.run(looks, &["jobs", "history"]);
        roles.run(looks, &["queues", "list"]);
        roles.run(looks, &["schedules", "list"]);
        roles.run(looks, &["audit", "list"]);
    }
    operate(&["jobs", "suspend", "--kind", "kept"]);
    operate(&["jobs", "change", "--kind", "kept", "--to-queue", "other", "--priority", "3"]);
    operate(&["jobs", "resume", "--kind", "kept"]);
    operate(&["jobs", "change", "--kind", "kept", "--to-queue", "third", "--delay", "2h"]);
    operate(&["jobs", "run", "--kind", "later"]);
    operate(&["jobs", "cancel", "--kind", "later"]);
    operate(&["jobs", "retry", "--state", "dead"]);
    operate(&["queues", "pause", "mail"]);
    operate(&["queues", "limit", "default", "--running", "5"]);
    operate(&["rules", "put", "tenant", "*", "--running", "2"]);
    operate(&["rules", "delete", "tenant", "*"]);
    roles.run("executor", &["schedules", "list"]);
    operate(&["schedules", "put", "never", "R/2090-01-01T00:00:00Z/P1D", "ends"]);
    operate(&["schedules", "pause", "never"]);
    operate(&["schedules", "resume", "never"]);
    operate(&["schedules", "delete", "never"]);
    operate(&["queues", "list"]);
    let nodes: serde_json::Value = serde_json::from_str(&operate(&["nodes", "list", "--output", "json"])).unwrap();
    operate(&["nodes", "evict", &nodes[0]["id"].to_string()]);
    operate(&["jobs", "delete", "--kind", "kept"]);
    assert!(operate(&["audit", "list"]).contains("evict"));
    // Old rows that executors prune, with the statements that they use.
    let (forgets, schema) = (roles.name("executor"), sandbox.schema().unwrap());
    for name in ["prune_audit", "prune_dead_letters"] {
        let statement =
            postgres_statement(name, schema).replace("$1", "3600000000").replace("$2", "10").replace("$3", "0");
        as_owner(&format!("set role \"{forgets}\"; {statement}")).unwrap();
    }

    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(!said().contains("permission denied"), "{}", said());
}

/// Nor can an operator write an entry for another time. The number of affected jobs can be updated, because an action may take several transactions.
#[test]
fn an_operator_can_not_change_what_the_audit_says() {
    let Some(roles) = Roles::create() else { return };
    let audit = format!("{}.audit", roles.sandbox.schema().unwrap());
    roles.run("operator", &["queues", "pause", "mail"]);
    let operator = |sql: &str| as_owner(&format!("set role \"{}\"; {sql}", roles.name("operator")));
    let told = |sql: String| {
        let why = operator(&sql).unwrap_err();
        assert!(why.contains("permission denied for table audit"), "{sql}: {why}");
    };
    for forged in ["who = 'bob'", "action = 'other'", "what = '{}'", "at = now() - interval '1 year'"] {
        told(format!("update {audit} set {forged}"));
    }
    told(format!(
        "insert into {audit} (at, who, action, what) values (now() - interval '1 year', 'bob', 'rule', '{{}}')"
    ));
    told(format!("delete from {audit}"));
    told(format!("truncate {audit}"));
    operator(&format!("update {audit} set counts = '{{\"waiting\": 1}}'")).unwrap();
    assert!(roles.run("operator", &["audit", "list"]).contains("mail"));
}

/// A sender learns which ids are taken, and when they were sent.
#[test]
fn a_sender_can_not_read_what_others_send() {
    let Some(roles) = Roles::create() else { return };
    let schema = roles.sandbox.schema().unwrap();
    roles.run("sender", &["send", "kind", "{\"secret\": 7}"]);
    let sender = |sql: &str| as_owner(&format!("set role \"{}\"; {sql}", roles.name("sender")));
    sender(&format!("select id, seq, created_at from {schema}.job")).unwrap();
    let tables = ["job", "timer_job", "suspended_job", "external_job", "dead_letter_job"];
    for column in ["payload", "body", "headers", "errors", "options"] {
        for table in tables {
            let why = sender(&format!("select {column} from {schema}.{table}")).unwrap_err();
            assert!(why.contains(&format!("permission denied for table {table}")), "{column} of {table}: {why}");
        }
    }
    for table in ["result", "history", "progress", "schedule", "audit", "submission"] {
        let why = sender(&format!("select from {schema}.{table}")).unwrap_err();
        assert!(why.contains(&format!("permission denied for table {table}")), "{table}: {why}");
    }
    let monitor = format!("set role \"{}\";", roles.name("monitor"));
    let why =
        as_owner(&format!("{monitor} select {schema}.remove_replaced('x', '01890a5d-ac96-774b-bcce-b302099a8057')"));
    assert!(why.unwrap_err().contains("permission denied for function remove_replaced"));
    // Nor change or take back sent jobs.
    for sql in ["delete from SCHEMA.job", "update SCHEMA.job set kind = 'other'", "delete from SCHEMA.timer_job"] {
        let why = sender(&sql.replace("SCHEMA", schema)).unwrap_err();
        assert!(why.contains("permission denied"), "{sql}: {why}");
    }
}

/// Otherwise a role that may only read could insert jobs with any payload, and so run any handler, by a trigger on its own temporary table.
#[test]
fn a_reader_can_not_use_the_functions_of_triggers() {
    let Some(roles) = Roles::create() else { return };
    let reader = roles.name("sender");
    // A database like any other: what is for everybody there has not been taken away, as it has from the roles.
    let Some(ordinary) = Sandbox::postgres() else { return };
    ordinary.run(&["migrate"]).success();
    let (schema, ordinary) = (roles.sandbox.schema().unwrap(), ordinary.schema().unwrap());
    for schema in [&schema, &ordinary] {
        as_owner(&format!(
            "grant usage on schema {schema} to \"{reader}\"; revoke all on all tables in schema {schema} from \"{reader}\";
             grant select on all tables in schema {schema} to \"{reader}\""
        ))
        .unwrap();
    }
    let attack = |schema: &str, function: &str, table: &str, event: &str| {
        as_owner(&format!(
            "set role \"{reader}\"; create temporary table mine (like {schema}.{table});
             create trigger t {event} on mine for each row execute function {schema}.{function}();
             insert into mine select * from {schema}.{table}; delete from mine"
        ))
    };
    let functions = [
        ("block_job", "job", "before insert"),
        ("release_permits", "job", "after delete"),
        ("release_unique", "job", "after delete"),
        ("transfer_permits", "terminating_handler", "before insert"),
        ("end_handler", "terminating_handler", "after delete"),
    ];
    for (function, table, event) in functions {
        for schema in [&schema, &ordinary] {
            let why = attack(schema, function, table, event).unwrap_err();
            assert!(why.contains("permission denied for function"), "{function} of {schema}: {why}");
        }
    }
    // Where more was granted than needed, they still work on no table but their own.
    as_owner(&format!("grant execute on all functions in schema {schema} to \"{reader}\"")).unwrap();
    roles.sandbox.run(&["send", "kind"]).success();
    for (function, table, event) in functions.into_iter().filter(|(_, table, _)| *table == "job") {
        let why = attack(schema, function, table, event).unwrap_err();
        assert!(why.contains("is for the tables of"), "{function}: {why}");
    }
}

/// A function that runs with its owner's rights does for its caller what the caller may not do. So none is for everybody: whoever adds one has to say
/// who needs it. A reader with `decide_ids` could lock any id, and stop all submissions behind one.
#[test]
fn functions_with_their_owners_rights_are_granted_one_by_one() {
    // What is for everybody in a database like any other. Those of the roles below take that away.
    let Some(sandbox) = Sandbox::postgres() else { return };
    sandbox.run(&["migrate"]).success();
    let schema = sandbox.schema().unwrap();
    let stranger = format!("jobwright_stranger_{}", uuid());
    as_owner(&format!("create role \"{stranger}\"; grant usage on schema {schema} to \"{stranger}\"")).unwrap();
    let asked = as_owner(&format!(
        "do $$ declare found text; known integer; begin
             select string_agg(p.oid::regprocedure::text, ', ') filter (where has_function_privilege('{stranger}', p.oid, 'execute')),
                    count(*)
             into found, known
             from pg_proc p where p.pronamespace = '{schema}'::regnamespace and p.prosecdef;
             if found is not null then raise exception 'everybody may execute %', found; end if;
             if known < 6 then raise exception 'only % such functions were found', known; end if;
         end $$"
    ));
    let dropped = as_owner(&format!("drop owned by \"{stranger}\"; drop role \"{stranger}\""));
    asked.unwrap();
    dropped.unwrap();
    // Those that need it have it, by the document.
    let Some(roles) = Roles::create() else { return };
    let schema = roles.sandbox.schema().unwrap();
    for (_, name) in &roles.names[..2] {
        let decide = format!("select * from {schema}.decide_ids(array[gen_random_uuid()], array['k'], array['q'])");
        as_owner(&format!("set role \"{name}\"; {decide}")).unwrap();
    }
}

/// `pg_locks` shows everybody the key of the lock that a claim takes on its node.
#[test]
fn a_stranger_keeps_no_dead_node() {
    let Some(roles) = Roles::create() else { return };
    let schema = roles.sandbox.schema().unwrap();
    let (stranger, executor) = (format!("jobwright_stranger_{}", uuid()), &roles.names[1].1);
    as_owner(&format!(
        "create role \"{stranger}\" login password 'secret';
         insert into {schema}.node (id, name, host, pid, lease, expires_at, dead_at) values (7, 'n', 'h', 1, '1 s', now(), now())"
    ))
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lock = |role: &str, kind: &str| {
        let url = url_of(role);
        let lock = format!("select pg_advisory_lock{kind}(hashtext('\"{schema}\".node'), 7)");
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&lock).await.unwrap();
            client
        })
    };
    let idle = |is_idle: bool| {
        as_owner(&format!(
            "do $$ begin if {schema}.node_is_idle(7) <> {is_idle} then raise exception 'not {is_idle}'; end if; end $$"
        ))
    };
    idle(true).unwrap();
    let theirs = [lock(&stranger, "_shared"), lock(&stranger, "_shared")];
    idle(true).unwrap();
    let claim = lock(executor, "_shared");
    idle(false).unwrap();
    drop(claim);
    until("the claim to end", || idle(true).is_ok());
    drop(theirs);
    let alone = lock(&stranger, "");
    idle(true).unwrap();
    drop(alone);
    until("the stranger to leave", || as_owner(&format!("drop role \"{stranger}\"")).is_ok());
}

/// A role that can read the key may report as any external worker, on jobs that it sees in the database.
#[test]
fn the_key_of_reports_is_for_executors_alone() {
    let Some(roles) = Roles::create() else { return };
    let schema = roles.sandbox.schema().unwrap();
    let look = |role: &str| {
        let name = roles.name(role);
        let sees = as_owner(&format!("set role \"{name}\"; select id, version from {schema}.external_job limit 0"));
        (as_owner(&format!("set role \"{name}\"; select key from {schema}.report_key")), sees)
    };
    assert!(look("executor").0.is_ok());
    for role in ["sender", "operator", "monitor"] {
        let (key, _) = look(role);
        let why = key.expect_err("it has the key");
        assert!(why.contains("permission denied for table report_key"), "{role}: {why}");
    }
    assert!(look("operator").1.is_ok(), "it sees what the token is made over");
    let keys = "select 1 / (count(*) = 1 and min(octet_length(key)) = 32)::int";
    as_owner(&format!("{keys} from {schema}.report_key")).unwrap();

    // As after an upgrade: the missing grant is reported before anything fails.
    roles.sandbox.configure("[queues.mail]\nexternal = true\n");
    let executor = roles.name("executor");
    as_owner(&format!("revoke all on {schema}.report_key from \"{executor}\"")).unwrap();
    let said = |done: Output| String::from_utf8(done.stdout).unwrap();
    let doctor = said(roles.command("executor", &["doctor"]).output().unwrap());
    assert!(doctor.contains("select on report_key"), "{doctor}");
    as_owner(&format!("grant select on {schema}.report_key to \"{executor}\"")).unwrap();
    let doctor = said(roles.command("executor", &["doctor"]).output().unwrap());
    assert!(!doctor.contains("report_key"), "{doctor}");
}
