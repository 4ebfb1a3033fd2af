//! A night on call: the settings of a role, the names of a database and the transactions of others go wrong one after the other, while jobs come in. Each time,
//! the log tells it once, a command names it with its remedy, the remedy is played, and all goes on. In the end each job has started exactly once.
//!
//! Other events have tests of their own: a paused queue, a rule, a misspelled kind or queue (`why`), a lock, dead nodes, timers that stand still, claims that
//! are refused (`doctor_faults`), old transactions and dead rows (`vacuum`), a broker that takes no messages or is away (`faults_alarm`, `faults_rabbitmq`),
//! two primaries (`servers`), a copy of the database (`installations`), a database that is silent (`silent_database`), dead letters, retries and a kill
//! (`examples/ops/night.sh`).

use lapin::BasicProperties;
use std::collections::BTreeMap;

use crate::common::server::Server;
use crate::common::{Done, Worker, until};
use crate::doctor::{advice, doctor, found};
use crate::private_pg::PrivatePg;

/// The role that the worker has. Only it needs a password.
const HBA: &str =
    "host all executor 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n";
/// Each start of a job is a line. One sort of them ends when there is a file.
const HANDLERS: &str = r#"
    [handlers.mail]
    command = ["sh", "-c", "echo $JOBWRIGHT_JOB_ID >> starts"]
    [handlers.slow]
    command = ["sh", "-c", "echo $JOBWRIGHT_JOB_ID >> starts; while [ ! -e go ]; do sleep 0.05; done"]
"#;

struct Night {
    server: Server,
    sent: Vec<String>,
    worker: Option<Worker>,
}

impl Night {
    /// `None`: there is no PostgreSQL to be tested with.
    fn begin() -> Option<Self> {
        let start = || PrivatePg::start_with(&["max_prepared_transactions = 2"], &[("pg_hba.conf", HBA)]);
        let server = Server::with_database("bank", start)?;
        server.run("create role executor login password 'right'");
        server.sandbox.configure(HANDLERS);
        let grants = server.sandbox.run(&["grants", "executor", "executor"]).success().stdout;
        server.run_in(&server.session(&server.url_of("bank")), &grants);
        Some(Self { server, sent: Vec::new(), worker: None })
    }

    /// Ends all sessions of the worker's role, as a restart of the server or of a pooler does.
    fn end_sessions(&self) {
        self.server.run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'executor'");
    }

    fn doctor_of_executor(&self) -> Done {
        self.server.run_as("executor:right", "bank", &["doctor", "--as", "executor", "--output", "json"])
    }

    fn start_worker(&mut self, args: &[&str]) {
        let args = [&["worker"], args].concat();
        self.worker = Some(Worker::start_in(&mut self.server.command_as("executor:right", "bank", &args)));
    }

    /// Sets how long a lease is: long enough for the outcomes of the jobs that end meanwhile.
    fn lease(&self, lease: &str) {
        let config = format!("{HANDLERS}[executor]\nlease = \"{lease}\"\npoll_interval = \"100ms\"\n");
        std::fs::write(self.server.sandbox.file("jobwright.toml"), config).unwrap();
    }

    fn said(&self) -> String {
        self.worker.as_ref().unwrap().said()
    }

    fn send(&mut self) {
        self.send_kind("mail");
    }

    fn send_kind(&mut self, kind: &str) {
        let id = self.server.sandbox.send(&[kind]);
        self.sent.push(id);
    }

    fn starts(&self) -> BTreeMap<String, usize> {
        let lines = std::fs::read_to_string(self.server.sandbox.file("starts")).unwrap_or_default();
        lines.lines().fold(BTreeMap::new(), |mut starts, id| {
            *starts.entry(id.to_owned()).or_default() += 1;
            starts
        })
    }

    /// Sends a job, and waits until it is done with all before.
    fn work(&mut self) {
        self.send();
        until("all jobs to be done", || self.server.sandbox.list(&[]).is_empty());
        let starts = self.starts();
        for id in &self.sent {
            assert_eq!(starts.get(id), Some(&1), "{id} of {starts:?}");
        }
    }

    /// Makes a fault, waits until the log names it, leaves it for a while in which jobs come in, ends it, and waits until the worker has done all.
    /// Returns what the log said meanwhile.
    fn while_it_lasts(&mut self, fault: &[&str], told: &str, look: impl Fn(&Self), remedy: &[&str]) -> String {
        let before = self.said().len();
        for sql in fault {
            self.server.run(sql);
        }
        self.end_sessions();
        until(told, || self.said()[before..].contains(told));
        look(self);
        for sql in remedy {
            self.server.run(sql);
        }
        let told = self.said()[before..].to_owned();
        if told.contains("wait until it is back") {
            until("its end to be told", || self.said()[before..].contains("is back"));
        }
        self.work();
        self.said()[before..].to_owned()
    }
}

/// Asserts that an outage is told in a few lines, however many tasks meet it.
#[track_caller]
fn is_told_once(said: &str, cause: &str) {
    let lines: Vec<_> = said.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    let about = lines.iter().filter(|line| line.contains(cause)).count();
    assert!((1..=2).contains(&about), "{about} lines about {cause:?}:\n{said}");
    assert!(lines.len() <= 6, "{} lines:\n{said}", lines.len());
}

#[test]
fn settings_of_a_role_and_the_name_of_its_database() {
    let Some(mut night) = Night::begin() else { return };
    // A short lease adds lines of its own: on a busy machine its renewals are late.
    night.lease("30s");
    night.start_worker(&[]);
    night.work();

    let refused = "password authentication failed";
    let look = |night: &Night| {
        let done = night.doctor_of_executor();
        assert!(found(&done, "database")[0].1.contains(refused), "{done:?}");
        assert!(advice(&done, "database").contains("the password"), "{done:?}");
    };
    let said = night.while_it_lasts(
        &["alter role executor password 'changed'"],
        refused,
        look,
        &["alter role executor password 'right'"],
    );
    is_told_once(&said, refused);

    let missing = "database \"bank\" does not exist";
    let look = |night: &Night| {
        let done = night.doctor_of_executor();
        let told = found(&done, "database").remove(0).1;
        assert!(told.contains("does not exist") && told.contains("create the database, or correct the URL"), "{told}");
    };
    let renamed = [
        "alter database bank allow_connections false",
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'bank'",
        "alter database bank rename to elsewhere",
        "alter database elsewhere allow_connections true",
    ];
    let said = night.while_it_lasts(&renamed, missing, look, &["alter database elsewhere rename to bank"]);
    is_told_once(&said, missing);

    let full = "too many connections for role";
    let look = |night: &Night| {
        let done = night.doctor_of_executor();
        assert!(found(&done, "database")[0].1.contains(full), "{done:?}");
    };
    let limit = "alter role executor connection limit";
    let said = night.while_it_lasts(&[&format!("{limit} 0")], full, look, &[&format!("{limit} -1")]);
    is_told_once(&said, full);

    let read_only = "read-only";
    let look = |night: &Night| {
        let done = night.doctor_of_executor();
        let (state, told) = found(&done, "database writes").remove(0);
        assert!(state == "fail" && told.contains("`default_transaction_read_only` is on"), "{told}");
        assert!(advice(&done, "database writes").contains("alter role … set default_transaction_read_only = off"));
    };
    let setting = "alter role executor set default_transaction_read_only =";
    let said = night.while_it_lasts(
        &[&format!("{setting} on")],
        read_only,
        look,
        &[
            &format!("{setting} off"),
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'executor'",
        ],
    );
    is_told_once(&said, read_only);

    // The engine sets its own limits.
    night.server.run("alter role executor set statement_timeout = '20ms'");
    night.server.run("alter role executor set lock_timeout = '1ms'");
    night.end_sessions();
    night.work();
}

#[test]
fn locks_and_maintenance_of_others() {
    let Some(mut night) = Night::begin() else { return };
    night.start_worker(&[]);
    night.work();

    // A transaction manager has died, and its transaction keeps a table from being written to.
    let other = night.server.session(&night.server.url_of("bank"));
    let prepare = "begin; lock table jobwright.job in share mode; prepare transaction 'transfer-7'";
    night.server.run_in(&other, prepare);
    // What is sent meanwhile waits for it, too.
    let sending = night.server.sandbox.command(&["send", "mail"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("the doctor to name the prepared transaction", || {
        found(&doctor(&night.server.sandbox), "locks")[0].0 == "warn"
    });
    let done = doctor(&night.server.sandbox);
    assert!(found(&done, "locks")[0].1.contains("for a prepared transaction"), "{done:?}");
    let told = advice(&done, "locks");
    assert!(told.contains("select * from pg_prepared_xacts") && told.contains("rollback prepared"), "{told}");
    night.server.run_in(&other, "rollback prepared 'transfer-7'");
    let sent = Done::from(sending.wait_with_output().unwrap()).success();
    night.sent.push(sent.stdout.trim().to_owned());
    night.work();

    // A standby that commits wait for is away.
    for sql in ["alter system set synchronous_standby_names = 'away'", "select pg_reload_conf()"] {
        night.server.run(sql);
    }
    let sending = night.server.sandbox.command(&["send", "mail"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("the doctor to name the commits", || found(&doctor(&night.server.sandbox), "commits")[0].0 == "warn");
    let done = doctor(&night.server.sandbox);
    assert!(found(&done, "commits")[0].1.contains("away"), "{done:?}");
    let told = advice(&done, "commits");
    for sql in told.split('`').skip(1).step_by(2) {
        night.server.run(sql);
    }
    let sent = Done::from(sending.wait_with_output().unwrap()).success();
    night.sent.push(sent.stdout.trim().to_owned());
    until("no commit to wait", || found(&doctor(&night.server.sandbox), "commits")[0].0 == "ok");
    night.work();

    // Maintenance that takes the table for itself.
    for sql in ["vacuum full jobwright.job", "cluster jobwright.job using job_id", "reindex table jobwright.job"] {
        night.send();
        night.server.run_in(&other, sql);
        night.work();
    }

    // The server is restarted, and crashes.
    let before = night.said().len();
    night.server.postgres.stop();
    until("the outage to be told", || night.said()[before..].contains("is down"));
    night.server.postgres.start_again();
    until("its end to be told", || night.said()[before..].contains("is back"));
    night.server.postgres.crash_and_restart();
    night.work();
}

/// Jobs end, and others come in from the broker, while the database lets nobody in. That is no fault of theirs: no job becomes a dead letter or runs again,
/// and no submission is rejected.
#[test]
fn jobs_and_submissions_while_the_database_refuses_everybody() {
    let Some(mut night) = Night::begin() else { return };
    night.server.sandbox = night.server.sandbox.with_rabbit().unwrap();
    night.lease("1m");
    night.server.sandbox.run(&["broker", "apply"]).success();
    night.start_worker(&["-v"]);
    let faults = [
        ("alter role executor password 'changed'", "alter role executor password 'right'"),
        ("alter database bank allow_connections false", "alter database bank allow_connections true"),
        ("revoke connect on database bank from public, executor", "grant connect on database bank to public, executor"),
        ("alter role executor connection limit 0", "alter role executor connection limit -1"),
    ];
    for (fault, remedy) in faults {
        let _ = std::fs::remove_file(night.server.sandbox.file("go"));
        for _ in 0..5 {
            night.send_kind("slow");
        }
        let count = night.sent.len();
        until("the jobs to start", || night.starts().len() == count);
        let before = night.said().len();
        night.server.run(fault);
        night.end_sessions();
        std::fs::write(night.server.sandbox.file("go"), "").unwrap();
        let ids: Vec<_> = (0..3).map(|_| jobwright::JobId::new().to_string()).collect();
        let submission = |id: &String| {
            (BasicProperties::default().with_message_id(id.as_str().into()).with_type("mail".into()), b"1".to_vec())
        };
        night.server.sandbox.rabbit().submit(ids.iter().map(submission).collect::<Vec<_>>());
        let tried = |what: &str| night.said()[before..].contains(what);
        until("the outcomes to be tried", || tried("refuses outcomes") || tried("outcomes could not be recorded"));
        until("the submissions to be tried", || {
            tried("all messages from the broker") || tried("not accept messages from the broker")
        });
        night.server.run(remedy);
        night.sent.extend(ids);
        night.work();
        assert!(night.server.sandbox.list(&["--state", "dead"]).is_empty(), "{fault}");
        let rejected = night.server.sandbox.run(&["broker", "rejected", "list"]).success().stdout;
        assert!(!rejected.contains("not-stored"), "{fault}: {rejected}");
    }
}

/// The same for longer than the lease: the node gives up its lease, and knows what has become of its jobs.
#[test]
fn outcomes_outlast_a_lease_of_refusals() {
    let Some(mut night) = Night::begin() else { return };
    night.lease("15s");
    night.start_worker(&["-v"]);
    for _ in 0..5 {
        night.send_kind("slow");
    }
    until("the jobs to start", || night.starts().len() == 5);
    night.server.run("alter role executor password 'changed'");
    night.end_sessions();
    std::fs::write(night.server.sandbox.file("go"), "").unwrap();
    until("all of them to end", || night.said().matches("the attempt ended").count() == 5);
    until("the end of the lease", || night.said().contains("the lease could not be renewed in time"));
    night.server.run("alter role executor password 'right'");
    // Each has started once.
    night.work();
    assert!(night.server.sandbox.list(&["--state", "dead"]).is_empty());
}
