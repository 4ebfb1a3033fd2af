//! Shared by the tests of the binary: a sandbox with a database, in which the binary runs.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test file uses a part of it")]

pub(crate) mod http_server;
pub(crate) mod open_transaction;
pub(crate) mod rabbit;
pub(crate) mod server;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rabbit::Rabbit;
use serde_json::Value;
use tempfile::TempDir;

/// Nothing in these tests should take longer.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the binary, without environment variables that could change its behaviour.
pub(crate) fn jobwright() -> Command {
    without_settings(Command::new(env!("CARGO_BIN_EXE_jobwright")))
}

/// Removes these variables from the environment of a command that runs the binary.
pub(crate) fn without_settings(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("JOBWRIGHT_") || text.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command.env_remove("DATABASE_URL").env_remove("AMQP_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// A working directory and a database.
pub(crate) struct Sandbox {
    directory: TempDir,
    url: String,
    schema: Option<String>,
    rabbit: Option<Rabbit>,
}

impl Sandbox {
    /// Creates a sandbox with an embedded database.
    pub(crate) fn sqlite() -> Self {
        let sandbox = Self::without_file();
        sandbox.run(&["migrate"]).success();
        sandbox
    }

    /// The same before the database exists.
    pub(crate) fn without_file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, url: "sqlite:jobs.db".to_owned(), schema: None, rabbit: None }
    }

    /// Creates a sandbox with a schema on the server; `None`: this run is without servers.
    pub(crate) fn postgres() -> Option<Self> {
        if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
            return None;
        }
        let url = std::env::var("DATABASE_URL")
            .expect("set DATABASE_URL, or run `cargo xtask test`, or JOBWRIGHT_TEST_EMBEDDED_ONLY=1");
        let schema = format!("cli_{}", uuid());
        let sandbox = Self { directory: tempfile::tempdir().unwrap(), url, schema: Some(schema), rabbit: None };
        sandbox.run(&["migrate"]).success();
        Some(sandbox)
    }

    /// Creates a sandbox with a database of a server that ends with the test.
    pub(crate) fn on_server(url: &str) -> Self {
        let sandbox = Self { directory: tempfile::tempdir().unwrap(), url: url.to_owned(), schema: None, rabbit: None };
        sandbox.run(&["migrate"]).success();
        sandbox
    }

    /// Adds a broker, with a separate prefix there; `None`: this run is without servers.
    pub(crate) fn with_rabbit(mut self) -> Option<Self> {
        self.rabbit = Some(Rabbit::shared()?);
        Some(self)
    }

    /// Adds the broker of this URL, which ends with the test.
    pub(crate) fn with_broker(mut self, url: &str) -> Self {
        self.rabbit = Some(Rabbit::at(url));
        self
    }

    pub(crate) fn rabbit(&self) -> &Rabbit {
        self.rabbit.as_ref().unwrap()
    }

    /// Returns its schema, if it is on a server.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes `jobwright.toml`, with a lease and a poll interval that do not slow a test down.
    pub(crate) fn configure(&self, text: &str) {
        let quick = "[executor]\nlease = \"1s\"\npoll_interval = \"100ms\"\n";
        std::fs::write(self.file("jobwright.toml"), format!("{quick}{text}")).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = jobwright();
        command.args(args).current_dir(self.path()).env("DATABASE_URL", &self.url);
        if let Some(schema) = &self.schema {
            command.env("JOBWRIGHT_DATABASE_SCHEMA", schema);
        }
        if let Some(rabbit) = &self.rabbit {
            command.env("AMQP_URL", &rabbit.url).env("JOBWRIGHT_BROKER_PREFIX", &rabbit.prefix);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::from(self.command(args).output().unwrap())
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Done {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The program may stop before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Done::from(child.wait_with_output().unwrap())
    }

    /// Returns the listing as JSON.
    pub(crate) fn list(&self, args: &[&str]) -> Vec<Value> {
        let all: &[&str] = if args.contains(&"--limit") { &[] } else { &["--limit", "10000"] };
        let args = [&["jobs", "list", "--output", "json"], all, args].concat();
        serde_json::from_str(&self.run(&args).success().stdout).unwrap()
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.run(&["jobs", "show", id, "--output", "json"]).success().stdout).unwrap()
    }

    /// Asserts that there is no such job any more.
    pub(crate) fn gone(&self, id: &str) {
        self.run(&["jobs", "show", id]).code(1);
    }

    /// Sends one job and returns its id.
    pub(crate) fn send(&self, args: &[&str]) -> String {
        let done = self.run(&[&["send"], args].concat()).success();
        done.stdout.trim().to_owned()
    }

    /// Opens its database as a program that uses the library.
    pub(crate) async fn messages(&self) -> jobwright::MessageServices<jobwright::AnyStore> {
        let url = self.url.replace("sqlite:", &format!("sqlite:{}/", self.path().display()));
        let mut database = jobwright::DatabaseConfig::url(url);
        if let Some(schema) = &self.schema {
            database.schema.clone_from(schema);
        }
        let config = jobwright::Config::new(database);
        jobwright::MessageServices::connect(&config).await.unwrap()
    }

    /// Starts a worker and reads its output.
    pub(crate) fn worker(&self, args: &[&str]) -> Worker {
        Worker::start_in(&mut self.command(&[&["worker"], args].concat()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let Some(schema) = self.schema.take() else { return };
        if let Err(error) = as_owner(&format!("drop schema if exists \"{schema}\" cascade")) {
            eprintln!("the schema {schema} is left behind: {error}");
        }
    }
}

/// Runs SQL on the server, as the role that owns the schemas of the tests.
pub(crate) fn as_owner(sql: &str) -> Result<(), String> {
    let url = std::env::var("DATABASE_URL").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.map_err(|error| format!("{error:?}"))?;
        tokio::spawn(connection);
        client.batch_execute(sql).await.map_err(|error| format!("{error:?}\n{sql}"))
    })
}

pub(crate) fn uuid() -> String {
    jobwright::JobId::new().as_uuid().simple().to_string()
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let done = Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!done.stderr.contains("panicked"), "{done:?}");
        done
    }
}

impl Done {
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that its output contains this.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{self:?} does not print {text:?}");
        self
    }

    /// Asserts that its error contains this.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{self:?} does not say {text:?}");
        self
    }
}

/// A running worker. Dropping it kills it.
pub(crate) struct Worker {
    pub(crate) child: Child,
    said: Arc<Mutex<String>>,
    /// Reads what it says, until it has closed stderr.
    reader: std::thread::JoinHandle<()>,
}

impl Worker {
    /// Starts a worker with this command, and reads its output.
    pub(crate) fn start_in(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (mut stderr, heard) = (child.stderr.take().unwrap(), said.clone());
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut chunk) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..n]));
            }
        });
        Self { child, said, reader }
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends `TERM`, `INT` …
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for its end, and until all that it said is read. Returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        until("the worker to end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        // A program that it has left behind may keep its stderr open.
        let begun = Instant::now();
        while !self.reader.is_finished() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        code.and_then(|status| status.code())
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the worker said:\n{}", self.said());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until the answer is yes.
#[track_caller]
pub(crate) fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ask() {
        assert!(begun.elapsed() < DEADLINE, "waited too long for {what}");
        // Many checks start the program, which costs the processors time that other tests need.
        std::thread::sleep((begun.elapsed() / 20).clamp(Duration::from_millis(10), Duration::from_millis(200)));
    }
}

/// Defines a test of each function for each store.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(&crate::common::Sandbox::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $name() { if let Some(sandbox) = crate::common::Sandbox::postgres() { super::$name(&sandbox); } })*
        }
    };
}
pub(crate) use on_both_stores;
