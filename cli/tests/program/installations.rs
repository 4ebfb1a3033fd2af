//! A restored or cloned database, with the settings of the original: it takes nothing from it.

use std::process::{Command, Stdio};

use lapin::BasicProperties;
use serde_json::Value;

use crate::common::{Done, Sandbox, Worker, as_owner, until, uuid};

/// A database of a test on the shared server. It is dropped with the test.
struct Database {
    name: String,
    url: String,
}

impl Database {
    fn create(like: &str) -> Self {
        let name = format!("jobwright_{}", &uuid()[16..]);
        as_owner(&format!("create database {name} {like}")).unwrap();
        let url = std::env::var("DATABASE_URL").unwrap();
        let (server, _) = url.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{name}"), name }
    }

    /// Copies a database that nobody is connected to.
    fn clone_of(original: &Self) -> Self {
        let mut copy = None;
        // The last session of a program that has ended may still be there.
        until("the original to be left alone", || {
            copy = std::panic::catch_unwind(|| Self::create(&format!("template {}", original.name))).ok();
            copy.is_some()
        });
        copy.unwrap()
    }

    /// Restores a dump of a database in use.
    fn restored_from(original: &Self) -> Self {
        let copy = Self::create("");
        let mut dump = Command::new("pg_dump").args(["-Fc", &original.url]).stdout(Stdio::piped()).spawn().unwrap();
        let restored = Command::new("pg_restore")
            .args(["--exit-on-error", "-d", &copy.url])
            .stdin(dump.stdout.take().unwrap())
            .status()
            .unwrap();
        assert!(restored.success() && dump.wait().unwrap().success());
        copy
    }

    /// Runs a query that returns one number.
    fn number(&self, sql: &str) -> i64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.query_one(sql, &[]).await.unwrap().get(0)
        })
    }

    fn change(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = as_owner(&format!("drop database if exists {} with (force)", self.name)) {
            eprintln!("the database {} is left behind: {error}", self.name);
        }
    }
}

impl Sandbox {
    /// Returns a command on another database, with all other settings.
    fn at(&self, database: &Database, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("DATABASE_URL", &database.url);
        command
    }

    fn run_at(&self, database: &Database, args: &[&str]) -> Done {
        Done::from(self.at(database, args).output().unwrap())
    }

    /// Returns a command of another role.
    fn as_role(&self, role: &str, database: &Database, args: &[&str]) -> Command {
        let (scheme, rest) = database.url.split_once("://").unwrap();
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        let mut command = self.command(args);
        command.env("DATABASE_URL", format!("{scheme}://{role}:secret@{host}"));
        command
    }

    /// Starts a worker that runs.
    fn worker_at(&self, database: &Database) -> Worker {
        let worker = Worker::start_in(&mut self.at(database, &["worker"]));
        until("the worker", || worker.said().contains("ready"));
        worker
    }

    /// Starts a worker that has to be refused, and returns the reason.
    fn refused_at(&self, database: &Database) -> String {
        let mut worker = Worker::start_in(&mut self.at(database, &["worker"]));
        assert_eq!(worker.ended(), Some(2), "{}", worker.said());
        until("its last words", || worker.said().contains("JW-INSTALLATION"));
        worker.said()
    }

    /// Returns what the doctor finds, by the check.
    fn doctor_at(&self, database: &Database, check: &str) -> (String, String) {
        let done = self.run_at(database, &["doctor", "--output", "json"]);
        let findings: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
        let finding = findings.iter().find(|finding| finding["check"] == check);
        let finding = finding.unwrap_or_else(|| panic!("no check {check} in {findings:?}"));
        (finding["state"].as_str().unwrap().to_owned(), finding["found"].as_str().unwrap().to_owned())
    }

    /// Returns the id of the installation that a database belongs to.
    fn id_at(&self, database: &Database) -> String {
        self.doctor_at(database, "installation").1[..8].to_owned()
    }

    /// Submits jobs as a program without a database does.
    fn submit(&self, count: usize) {
        let submissions = (0..count).map(|_| {
            let properties =
                BasicProperties::default().with_message_id(uuid().as_str().into()).with_type("ends".into());
            (properties, b"1".to_vec())
        });
        self.rabbit().submit(submissions);
    }

    /// Returns how many submissions a database has taken.
    fn taken(&self, database: &Database) -> i64 {
        database.number(&format!("select count(*) from {}.submission", self.schema().unwrap()))
    }
}

/// Creates an installation with a database and a broker.
fn installation() -> Option<(Sandbox, Database)> {
    let sandbox = Sandbox::postgres()?.with_rabbit()?;
    sandbox.configure("[handlers.ends]\ncommand = [\"true\"]\n");
    let original = Database::create("");
    sandbox.run_at(&original, &["migrate"]).success();
    Some((sandbox, original))
}

#[test]
fn a_copy_takes_nothing_from_the_original() {
    let Some((sandbox, original)) = installation() else { return };
    let cloned = Database::clone_of(&original);
    let worker = sandbox.worker_at(&original);
    let restored = Database::restored_from(&original);
    let id = sandbox.id_at(&original);
    for copy in [&cloned, &restored] {
        let said = sandbox.refused_at(copy);
        for part in [&original.name, &copy.name, &id, "`jobwright adopt`", "`jobwright adopt --moved`"] {
            assert!(said.contains(part), "{part} is missing in: {said}");
        }
        let (state, found) = sandbox.doctor_at(copy, "installation");
        assert!(state == "fail" && found.contains("no worker starts here"), "{found}");
        sandbox.run_at(copy, &["broker", "claim"]).code(2).says("JW-INSTALLATION").says("`jobwright adopt`");
    }
    // Programs that start the copies again and again change nothing.
    let copies: Vec<_> = [&cloned, &restored]
        .into_iter()
        .cycle()
        .take(4)
        .map(|copy| Worker::start_in(&mut sandbox.at(copy, &["worker"])))
        .collect();
    sandbox.submit(100);
    until("100 submissions", || sandbox.taken(&original) + sandbox.taken(&cloned) + sandbox.taken(&restored) == 100);
    assert_eq!((sandbox.taken(&original), sandbox.taken(&cloned), sandbox.taken(&restored)), (100, 0, 0));
    drop(copies);

    // The first says that it is a copy, and is refused at the broker.
    let adopted = sandbox.run_at(&cloned, &["adopt", "--as", "ann"]).success().stdout;
    let own = sandbox.id_at(&cloned);
    assert!(own != id && adopted.contains(&own) && adopted.contains(&id), "{adopted}");
    let keys = |database: &Database| {
        database
            .number(&format!("select hashtext(encode(key, 'hex'))::int8 from {}.report_key", sandbox.schema().unwrap()))
    };
    assert!(keys(&original) == keys(&restored) && keys(&original) != keys(&cloned));
    let said = sandbox.refused_at(&cloned);
    for part in [&id, &own, "broker.prefix", "broker claim --take-over"] {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    let (state, found) = sandbox.doctor_at(&cloned, "broker installation");
    assert!(state == "fail" && found.contains(&id), "{found}");
    sandbox.run_at(&cloned, &["broker", "claim"]).code(2).says("JW-INSTALLATION");

    // With a prefix of its own, or without a broker, it works.
    sandbox.run_at(&cloned, &["send", "ends"]).success();
    let prefix = format!("{}y", sandbox.rabbit().prefix);
    let apart = sandbox.at(&cloned, &["worker", "--drain"]).env("JOBWRIGHT_BROKER_PREFIX", &prefix).output().unwrap();
    Done::from(apart).success().says("done=1 ");
    sandbox.rabbit().forget(&prefix);
    assert!(worker.said().contains("ready") && !worker.said().contains("is down"), "{}", worker.said());

    let claimed = |database: &Database, take_over: &[&str]| {
        let args = [&["broker", "claim", "--output", "json"], take_over].concat();
        let done = sandbox.run_at(database, &args).success();
        let document: Value = serde_json::from_str(&done.stdout).unwrap();
        (document["before"].clone(), document["other"].clone(), done.stderr)
    };
    let (before, other, _) = claimed(&original, &[]);
    assert!(before == "own" && other.is_null(), "{before} {other}");
    let (before, other, said) = claimed(&cloned, &["--take-over"]);
    assert!(before == "other" && other.as_str().is_some_and(|other| other.starts_with(&id)), "{before} {other}");
    assert!(said.contains("that are connected"), "{said}");
}

/// A database that takes the place of the original keeps its id, and the queues at the broker with it.
#[test]
fn a_database_that_moved_goes_on() {
    let Some((sandbox, original)) = installation() else { return };
    let id = sandbox.id_at(&original);
    let mut worker = sandbox.worker_at(&original);
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0));
    let moved = Database::restored_from(&original);
    sandbox.refused_at(&moved);
    let said = sandbox.run_at(&moved, &["adopt", "--moved"]).success().stdout;
    assert!(said.contains(&id) && said.contains(&moved.name), "{said}");
    let _worker = sandbox.worker_at(&moved);
    sandbox.submit(5);
    until("5 submissions", || sandbox.taken(&moved) == 5);
    assert_eq!(sandbox.id_at(&moved), id);
    let audit = sandbox.run_at(&moved, &["audit", "list", "--action", "adopt"]).success().stdout;
    assert!(audit.contains("adopt"), "{audit}");

    // Nothing is to be adopted twice by mistake.
    sandbox.run_at(&moved, &["adopt"]).code(1).says("nothing to adopt");
    sandbox.run_at(&moved, &["adopt", "--moved"]).code(1).says("nothing to adopt");
    sandbox.run_at(&moved, &["adopt", "--force"]).success();
    assert_ne!(sandbox.id_at(&moved), id);
}

/// A new name is no new place. Rows that are missing are no id.
#[test]
fn a_renamed_database_is_the_same_and_an_emptied_one_asks() {
    let Some((sandbox, mut original)) = installation() else { return };
    let id = sandbox.id_at(&original);
    let renamed = format!("{}_r", original.name);
    until("the sessions to end", || as_owner(&format!("alter database {} rename to {renamed}", original.name)).is_ok());
    original.url = original.url.replace(&original.name, &renamed);
    original.name = renamed;
    sandbox.run_at(&original, &["worker", "--drain"]).success();
    assert_eq!(sandbox.id_at(&original), id);
    original.change(&format!("delete from {}.installation", sandbox.schema().unwrap()));
    assert!(sandbox.refused_at(&original).contains("has no row"));
    sandbox.run_at(&original, &["adopt", "--moved"]).code(2).says("no id");
    sandbox.run_at(&original, &["adopt"]).success();
}

/// Where the identifier of the server may not be read, number and name of the database count.
#[test]
fn a_role_that_does_not_know_the_server_is_refused_in_a_copy_too() {
    let Some((sandbox, original)) = installation() else { return };
    let schema = sandbox.schema().unwrap().to_owned();
    let role = format!("jobwright_executor_{}", uuid());
    as_owner(&format!("create role {role} login password 'secret'")).unwrap();
    sandbox.run_at(&original, &["grants", "executor", &role, "--apply"]).success();
    // As where whoever migrated could not read it either.
    original.change(&format!(
        "revoke execute on function pg_catalog.pg_control_system() from public; update {schema}.installation set server = null"
    ));
    let copy = Database::clone_of(&original);
    let as_role = |database: &Database, args: &[&str]| sandbox.as_role(&role, database, args);
    let doctor = Done::from(as_role(&original, &["doctor", "--as", "executor"]).output().unwrap()).stdout;
    for part in ["identifier could not be read", "on another server would pass"] {
        assert!(doctor.contains(part), "{doctor}");
    }
    let worker = Worker::start_in(&mut as_role(&original, &["worker"]));
    until("the worker", || worker.said().contains("ready"));
    let mut refused = Worker::start_in(&mut as_role(&copy, &["worker"]));
    assert_eq!(refused.ended(), Some(2), "{}", refused.said());
    drop((worker, refused));
    drop((original, copy));
    as_owner(&format!("drop role {role}")).unwrap();
}

/// It is refused by its name, which the owner of the schema records again.
#[test]
fn a_renamed_database_whose_server_may_not_be_known_is_recorded_again() {
    let Some((sandbox, mut original)) = installation() else { return };
    let role = format!("jobwright_executor_{}", uuid());
    as_owner(&format!("create role {role} login password 'secret'")).unwrap();
    sandbox.run_at(&original, &["grants", "executor", &role, "--apply"]).success();
    original.change("revoke execute on function pg_catalog.pg_control_system() from public");
    let id = sandbox.id_at(&original);
    let renamed = format!("{}_r", original.name);
    until("the sessions to end", || as_owner(&format!("alter database {} rename to {renamed}", original.name)).is_ok());
    original.url = original.url.replace(&original.name, &renamed);
    original.name = renamed;
    let as_role = |args: &[&str]| Done::from(sandbox.as_role(&role, &original, args).output().unwrap());
    let worker = || Worker::start_in(&mut sandbox.as_role(&role, &original, &["worker"]));
    let mut refused = worker();
    assert_eq!(refused.ended(), Some(2), "{}", refused.said());
    until("its last words", || refused.said().contains("`jobwright adopt --moved`"));
    // Nor does it give up the identifier because it can't read it.
    as_role(&["adopt", "--moved"]).code(1).says("can't read the identifier of the server");
    as_role(&["adopt", "--moved", "--force"]).code(1).says("run `jobwright adopt` as the owner of the schema");

    sandbox.run_at(&original, &["adopt"]).code(1).says("nothing to adopt");
    sandbox.run_at(&original, &["adopt", "--moved"]).success();
    let welcome = worker();
    until("the worker", || welcome.said().contains("ready"));
    drop((refused, welcome));
    assert_eq!(sandbox.id_at(&original), id);
    sandbox.run_at(&original, &["adopt", "--moved"]).code(1).says("nothing to adopt");
    as_role(&["adopt", "--moved"]).code(1).says("nothing to adopt");
    drop(original);
    as_owner(&format!("drop role {role}")).unwrap();
}

/// Its connections lead to another database, as after an upgrade of the server. It writes nothing there until it is told what this is.
#[test]
fn a_worker_that_runs_waits_until_the_database_is_recorded_again() {
    let Some((sandbox, original)) = installation() else { return };
    let schema = sandbox.schema().unwrap().to_owned();
    let worker = sandbox.worker_at(&original);
    // Its heartbeats find no row, and nothing else declares it dead.
    original.change(&format!(
        "update {schema}.installation set database_oid = 1;
         create function {schema}.skip() returns trigger language plpgsql as 'begin return null; end';
         create trigger skip before update of heartbeats on {schema}.node for each row execute function {schema}.skip()"
    ));
    until("the worker to ask", || worker.said().matches("could not register again").count() >= 2);
    assert!(worker.said().contains("JW-INSTALLATION") && worker.said().contains("adopt --moved"), "{}", worker.said());
    assert_eq!(original.number(&format!("select count(*) from {schema}.node where dead_at is null")), 1);

    original.change(&format!("drop function {schema}.skip() cascade"));
    sandbox.run_at(&original, &["adopt", "--moved"]).success();
    sandbox.run_at(&original, &["send", "ends"]).success();
    until("the job", || original.number(&format!("select count(*) from {schema}.job")) == 0);
}

/// Without the right to mark its queues, or with the order not to, a worker says so, and so does the doctor.
#[test]
fn a_worker_that_can_not_mark_its_queues_says_so_once() {
    let Some((sandbox, original)) = installation() else { return };
    sandbox.run_at(&original, &["broker", "apply"]).success();
    let start = || {
        let worker = Worker::start_in(sandbox.at(&original, &["worker"]).env("JOBWRIGHT_BROKER_DECLARE", "false"));
        until("the worker", || worker.said().contains("ready"));
        worker
    };
    let warning = "have no mark of an installation";
    assert_eq!(sandbox.doctor_at(&original, "broker installation").0, "ok");
    let worker = start();
    until("the warning", || worker.said().contains(warning));
    assert!(worker.said().contains("`jobwright broker claim`"), "{}", worker.said());
    let (state, found) = sandbox.doctor_at(&original, "broker installation");
    assert!(state == "warn" && found.contains("belong to no installation"), "{found}");
    assert_eq!(worker.said().matches(warning).count(), 1, "{}", worker.said());
    drop(worker);

    sandbox.run_at(&original, &["broker", "claim"]).success();
    let worker = start();
    let consumers = || sandbox.doctor_at(&original, "broker consumers").1;
    until("the worker to consume", || consumers().starts_with("1 consumer of"));
    assert!(!worker.said().contains(warning), "{}", worker.said());
}

/// Of the queues that only executors take from, more consumers than living nodes means that others take too.
#[test]
fn the_doctor_compares_consumers_with_nodes() {
    let Some((sandbox, original)) = installation() else { return };
    let _worker = sandbox.worker_at(&original);
    let consumers = || sandbox.doctor_at(&original, "broker consumers");
    until("the worker to consume", || consumers().1.starts_with("1 consumer of"));
    assert_eq!(consumers().0, "ok");
    assert_eq!(sandbox.doctor_at(&original, "broker installation").0, "ok");
    let submit = sandbox.rabbit().name("submit");
    let (state, found) = sandbox.rabbit().beside_a_consumer(&submit, consumers);
    assert!(state == "warn" && found.contains("2 consumers of") && found.contains("1 living node"), "{found}");
}

/// A copied file is the same installation until it is adopted.
#[test]
fn a_file_is_an_installation_too() {
    let sandbox = Sandbox::sqlite();
    let id =
        || sandbox.run(&["doctor"]).stdout.lines().find(|line| line.contains(" installation ")).unwrap().to_owned();
    let before = id();
    assert_eq!(before, id());
    sandbox.run(&["adopt"]).code(1).says("adopt --force");
    sandbox.run(&["adopt", "--force"]).success();
    assert_ne!(before, id());
}
