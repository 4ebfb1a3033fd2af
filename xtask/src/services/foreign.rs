//! Requirements of the programs in other languages: examples/java and examples/python, which the tests run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::programs;
use crate::run;

/// Where Debian puts the Java client and its logging library.
const JARS: [&str; 2] = ["/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar"];

/// The modules that the programs in Python use.
const MODULES: &str = "pika, jwcrypto, psycopg";

/// Returns the variables for those that are available: the tests read these first, and report themselves what is missing. A package that can't be
/// installed is reported and left out, since that is no reason to run no test at all.
pub(crate) fn variables() -> Vec<(&'static str, String)> {
    let java = programs::ensure("default-jdk-headless", "a Java compiler (javac)", || programs::on_path("javac"))
        .and_then(|_| programs::ensure("librabbitmq-client-java", "RabbitMQ's Java client", jar))
        .map(|_| ("JOBWRIGHT_TEST_JAVA_CLASSPATH", JARS.join(":")));
    let python = programs::ensure("python3-pika", "Python's AMQP client (pika)", || python("pika"))
        .and_then(|_| programs::ensure("python3-jwcrypto", "Python's JOSE library", || python("pika, jwcrypto")))
        .and_then(|_| programs::ensure("python3-psycopg", "Python's driver of PostgreSQL", || python(MODULES)))
        .map(|path| ("JOBWRIGHT_TEST_PYTHON", path.display().to_string()));
    [java, python]
        .into_iter()
        .filter_map(|found| found.inspect_err(|why| eprintln!("tests of foreign clients will fail: {why}")).ok())
        .collect()
}

fn jar() -> Option<PathBuf> {
    JARS.iter().all(|jar| Path::new(jar).is_file()).then(|| PathBuf::from(JARS[0]))
}

/// Returns a Python that has these modules: the one on PATH may not be Debian's.
fn python(modules: &str) -> Option<PathBuf> {
    [programs::on_path("python3"), Some(PathBuf::from("/usr/bin/python3"))].into_iter().flatten().find(|python| {
        python.is_file()
            && run::capture(Command::new(python).args(["-c", &format!("import {modules}")]), Duration::from_secs(30))
                .is_ok()
    })
}
