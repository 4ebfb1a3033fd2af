//! The programs of docs/sql-workers.md: extracted, adapted to a test, started, and sent signals.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::by_sql::Site;
use crate::interop::programs::{is_set, missing, python};
use crate::support::unique;

/// A program of the document.
pub(super) struct Language {
    /// The heading of its section, and the language of its block.
    pub(super) heading: &'static str,
    pub(super) block: &'static str,
    /// The ending of its file.
    ending: &'static str,
    /// The line with which a transaction begins, and the text that notes a start before it. `SQL` is a statement up to the job's id.
    begins: &'static str,
    notes: &'static str,
    /// A part of the error of a job that has no address.
    pub(super) complaint: &'static str,
    /// Its status after it was asked to stop.
    pub(super) stopped: i32,
    /// The thread that is started when it is asked to stop; without one, the program is interrupted before it does anything else.
    stopper: Option<&'static str>,
    /// Whether `JOBWRIGHT_TEST_NO_FOREIGN` leaves it out.
    foreign: bool,
    command: fn() -> Command,
    /// The program that runs it, and Debian's package of that.
    runner: &'static str,
    package: &'static str,
}

pub(super) const PYTHON: Language = Language {
    heading: "## Python",
    block: "python",
    ending: "py",
    begins: "        with connection.transaction():\n",
    notes: "        connection.execute(\"SQL%s\", [job])\n",
    complaint: "KeyError: 'to'",
    stopped: 0,
    stopper: None,
    foreign: false,
    command: || Command::new(python()),
    runner: "Python",
    package: "python3",
};

pub(super) const JAVA: Language = Language {
    heading: "## Java",
    block: "java",
    ending: "java",
    begins: "            work(connection, payload);\n",
    notes: "            execute(connection, \"SQL?\", job);\n            connection.commit();\n",
    complaint: "violates not-null constraint",
    // 128 and the number of the signal: the virtual machine ends so after it has run its hooks.
    stopped: 143,
    stopper: Some("Thread-0"),
    foreign: true,
    command: || {
        let path = std::env::var("JOBWRIGHT_TEST_JAVA_CLASSPATH").unwrap_or_default();
        let driver = path.split(':').find(|jar| jar.contains("postgresql")).unwrap_or("/usr/share/java/postgresql.jar");
        if !Path::new(driver).exists() {
            missing("PostgreSQL's JDBC driver", "libpostgresql-jdbc-java");
        }
        let mut command = Command::new("java");
        command.args(["-cp", driver]);
        command
    },
    runner: "Java",
    package: "default-jdk-headless",
};

pub(super) const NODE: Language = Language {
    heading: "## Node",
    block: "js",
    ending: "js",
    begins: "    await connection.query(\"begin\");\n",
    notes: "    await connection.query(\"SQL$1\", [id]);\n",
    complaint: "violates not-null constraint",
    stopped: 0,
    stopper: None,
    foreign: true,
    command: || {
        let path = std::env::var("JOBWRIGHT_TEST_NODE_PATH").unwrap_or_else(|_| "/usr/share/nodejs".to_owned());
        let mut command = Command::new("node");
        let found = command.args(["-e", "require('pg')"]).env("NODE_PATH", &path).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            missing("Node, or its driver of PostgreSQL (pg)", "nodejs, node-pg");
        }
        let mut command = Command::new("node");
        command.env("NODE_PATH", path);
        command
    },
    runner: "Node",
    package: "nodejs",
};

pub(super) const PSQL: Language = Language {
    heading: "## psql",
    block: "sh",
    ending: "sh",
    begins: "    begin;\n",
    notes: "    SQL(select t.id from taken t);\n",
    complaint: "violates not-null constraint",
    stopped: 0,
    stopper: None,
    foreign: false,
    command: || Command::new("sh"),
    runner: "psql",
    package: "postgresql-client",
};

/// The statement that notes a start, up to the job's id. It is not a part of the work's transaction.
const NOTE: &str = "insert into ledger (job, lease_until) select id, lease_until from external_job where id = ";

impl Language {
    /// Returns whether this run leaves the language out.
    pub(super) fn is_left_out(&self) -> bool {
        self.foreign && is_set("JOBWRIGHT_TEST_NO_FOREIGN")
    }

    /// Returns its program as the document has it.
    fn text(&self) -> String {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sql-workers.md");
        let document = fs::read_to_string(document).unwrap();
        let (_, section) = document.split_once(&format!("\n{}\n", self.heading)).expect(self.heading);
        let section = section.split("\n## ").next().unwrap();
        // A command that starts it may come before it.
        let begin = format!("\n```{}\n", self.block);
        let blocks = section.split(&begin).skip(1).map(|rest| rest.split_once("```").unwrap().0);
        blocks.max_by_key(|block| block.len()).expect(self.block).to_owned()
    }

    /// Returns its program for the schema of a test, with a lease of a second, and a note of each start.
    pub(super) fn program(&'static self, site: &Site) -> Program {
        let schema = site.db.schema();
        let text = self.text();
        for part in ["jobwright.", "1 minute", self.begins] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let text = text
            .replace("jobwright.", &format!("{schema}."))
            .replace("jobwright_wake", &format!("{schema}_wake"))
            .replace("1 minute", "1 second")
            .replace(self.begins, &(self.notes.replace("SQL", NOTE) + self.begins));
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{schema}.{}", self.ending));
        fs::write(&source, text).unwrap();
        Program { language: self, source, url: site.db.session_url() }
    }
}

/// A program that was adapted to a test.
pub(super) struct Program {
    language: &'static Language,
    source: PathBuf,
    url: String,
}

impl Program {
    pub(super) fn start(&self) -> Running {
        let said = self.source.with_file_name(format!("{}.txt", unique("said_")));
        let out = fs::File::create(&said).unwrap();
        let mut command = (self.language.command)();
        command.arg(&self.source).env("DATABASE_URL", &self.url).envs(other_forms(&self.url));
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        // A group of its own: the shell starts psql, and a machine that stops takes both.
        let child = command.process_group(0).spawn();
        let child = child.unwrap_or_else(|_| missing(self.language.runner, self.language.package));
        Running { child, said }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.source);
    }
}

/// Returns the variables that name the database to JDBC and to psql.
fn other_forms(url: &str) -> Vec<(&'static str, String)> {
    let config: Config = url.parse().unwrap();
    let Host::Tcp(host) = &config.get_hosts()[0] else { panic!("JDBC needs TCP") };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or("postgres");
    let database = config.get_dbname().unwrap_or(user);
    let options = config.get_options().unwrap_or_default();
    let password = config.get_password().map(|password| String::from_utf8(password.to_vec()).unwrap());
    let [in_database, by_user, with_options] = [database, user, options].map(escaped);
    let mut jdbc = format!("jdbc:postgresql://{host}:{port}/{in_database}?user={by_user}&options={with_options}");
    let mut forms = vec![
        ("PGHOST", host.clone()),
        ("PGPORT", port),
        ("PGUSER", user.to_owned()),
        ("PGDATABASE", database.to_owned()),
        ("PGOPTIONS", options.to_owned()),
    ];
    if let Some(password) = password {
        jdbc.push_str("&password=");
        jdbc.push_str(&escaped(&password));
        forms.push(("PGPASSWORD", password));
    }
    forms.push(("JDBC_URL", jdbc));
    forms
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A running program, which ends with this value.
pub(super) struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    /// Sends a signal, named as `kill` names it, to the program and to those that it started.
    pub(super) fn signal(&self, name: &str) {
        let group = format!("-{}", self.child.id());
        let status = Command::new("kill").args([&format!("-{name}"), "--", &group]).status().unwrap();
        assert!(status.success(), "kill -{name}");
    }

    /// Returns whether the program has noticed that it is asked to stop.
    pub(super) fn has_noticed(&self, language: &Language) -> bool {
        let Some(stopper) = language.stopper else { return true };
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads
            .flatten()
            .any(|thread| fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == stopper))
    }

    /// Returns its status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the program said:\n{}", self.said());
        }
        let _ = fs::remove_file(&self.said);
    }
}
