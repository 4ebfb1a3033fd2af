//! The programs in other languages: found, built, run.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::interop::broker::Broker;
use crate::support::amqp_url;

/// Longer than any of them takes: a virtual machine has to start on a busy computer.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Language {
    Java,
    Python,
}

impl Language {
    /// Returns the other language, for cases with both.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Java => Self::Python,
            Self::Python => Self::Java,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Python => "python",
        }
    }
}

/// One language, with its own queues.
pub(crate) struct Stage {
    pub(crate) language: Language,
    pub(crate) broker: Broker,
}

/// The result of a program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<String>,
    pub(crate) errors: String,
}

impl Ended {
    /// Asserts that it succeeded, and returns its output lines.
    #[track_caller]
    pub(crate) fn lines(self) -> Vec<String> {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.lines
    }
}

impl Stage {
    /// Prepares the language. `None`: this run has to do without servers, or without other languages.
    pub(crate) async fn set(language: Language) -> Option<Self> {
        if is_set("JOBWRIGHT_TEST_NO_FOREIGN") {
            return None;
        }
        let url = amqp_url()?;
        let stage = Self { language, broker: Broker::connect(url).await };
        // Reports what is missing before anything else runs.
        stage.language.command("producer");
        Some(stage)
    }

    /// Runs `producer` or `worker` to its end.
    pub(crate) async fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        self.run_in(self.language, program, arguments).await
    }

    /// Runs it in the given language.
    pub(crate) async fn run_in(&self, language: Language, program: &str, arguments: &[&str]) -> Ended {
        end(self.command(language, program, arguments)).await
    }

    /// Runs it without a broker URL.
    pub(crate) async fn run_without_url(&self, program: &str, arguments: &[&str]) -> Ended {
        let mut command = self.command(self.language, program, arguments);
        command.env_remove("AMQP_URL");
        end(command).await
    }

    /// Starts a program, which ends with this value at the latest.
    pub(crate) fn start(&self, language: Language, program: &str, arguments: &[&str]) -> Started {
        let mut command = self.command(language, program, arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Started { child, lines }
    }

    fn command(&self, language: Language, program: &str, arguments: &[&str]) -> Command {
        let mut command = language.command(program);
        command.args(arguments).env("AMQP_URL", &self.broker.url).env("JOBWRIGHT_BROKER_PREFIX", &self.broker.prefix);
        command
    }
}

/// A running program.
pub(crate) struct Started {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    /// Returns the next line that it writes.
    pub(crate) async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("the program says nothing");
        line.unwrap().expect("the program has ended")
    }

    /// Stops the process, as on a machine that is paused: its connection stays open.
    pub(crate) async fn pause(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().await.unwrap().success());
    }

    /// Kills it, as a crash would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

impl Language {
    pub(crate) fn command(self, program: &str) -> Command {
        match self {
            Self::Java => {
                let jars = class_path();
                let classes = compiled(&jars);
                let mut command = Command::new("java");
                let class = program[..1].to_ascii_uppercase() + &program[1..];
                command.arg("-Dfile.encoding=UTF-8").arg("-cp").arg(format!("{}:{jars}", classes.display())).arg(class);
                command
            }
            Self::Python => {
                let mut command = Command::new(python());
                command.arg(examples("python").join(format!("{program}.py"))).env("PYTHONIOENCODING", "utf-8");
                command
            }
        }
    }
}

async fn end(mut command: Command) -> Ended {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("the program does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended {
        code: output.status.code(),
        lines: text(output.stdout).lines().map(str::to_owned).collect(),
        errors: text(output.stderr),
    }
}

pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

fn examples(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(language)
}

/// Leaving them out has to be requested: a test that skips itself looks like one that passed.
pub(crate) fn missing(what: &str, package: &str) -> ! {
    panic!(
        "{what} is missing: install Debian's {package}, or run `cargo xtask test`, which does it where it may, or ask to do \
         without with JOBWRIGHT_TEST_NO_FOREIGN=1"
    )
}

fn class_path() -> String {
    let usual = "/usr/share/java/amqp-client.jar:/usr/share/java/slf4j-api.jar";
    let path = std::env::var("JOBWRIGHT_TEST_JAVA_CLASSPATH").unwrap_or_else(|_| usual.to_owned());
    if path.split(':').any(|jar| !Path::new(jar).exists()) {
        missing("RabbitMQ's Java client", "librabbitmq-client-java");
    }
    path
}

/// Returns a Python that has the modules which the programs need.
pub(crate) fn python() -> PathBuf {
    let path =
        std::env::var_os("JOBWRIGHT_TEST_PYTHON").map_or_else(|| PathBuf::from("/usr/bin/python3"), PathBuf::from);
    let found =
        std::process::Command::new(&path).args(["-c", "import pika, jwcrypto, psycopg"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        missing(
            "Python's AMQP client (pika), its JOSE library (jwcrypto), or its driver of PostgreSQL (psycopg 3)",
            "python3-pika, python3-jwcrypto, python3-psycopg",
        );
    }
    path
}

/// Returns the folder with the classes, built once for each state of the sources, by whichever test comes first.
fn compiled(jars: &str) -> PathBuf {
    let mut sources: Vec<_> = fs::read_dir(examples("java")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "java"));
    sources.sort();
    let mut hash = DefaultHasher::new();
    for source in &sources {
        fs::read(source).unwrap().hash(&mut hash);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let classes = folder.join(format!("java-{:016x}", hash.finish()));
    let complete = classes.join("complete");
    if !complete.exists() {
        let built = std::process::Command::new("javac")
            .args(["-Xlint:all", "-Werror", "-encoding", "UTF-8", "-cp", jars, "-d"])
            .arg(&classes)
            .args(&sources)
            .output();
        let built = built.unwrap_or_else(|_| missing("a Java compiler (javac)", "default-jdk-headless"));
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::write(complete, "").unwrap();
    }
    classes
}
