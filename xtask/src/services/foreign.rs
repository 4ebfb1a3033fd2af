//! Requirements of the programs in other languages that the tests run: examples/java, examples/python, and those of docs/sql-workers.md.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{npm, programs};
use crate::run::{self, Result};

/// Where Debian puts the Java client of RabbitMQ and its logging library, and the driver of PostgreSQL.
const JARS: [&str; 2] = ["/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar"];
const JDBC: &str = "/usr/share/java/postgresql.jar";

/// The modules that the programs in Python use.
const MODULES: &str = "pika, jwcrypto, psycopg";

/// Where Debian puts the packages of Node, and the version of the driver of PostgreSQL that comes from npm where Debian's is not installed: that one
/// needs Debian's Node too.
const NODE: &str = "/usr/share/nodejs";
const PG: &str = "8.23.1";

/// Returns the variables for those that are available: the tests read these first, and report themselves what is missing. A package that can't be
/// installed is reported and left out, since that is no reason to run no test at all.
pub(crate) fn variables() -> Vec<(&'static str, String)> {
    let java = programs::ensure("default-jdk-headless", "a Java compiler (javac)", || programs::on_path("javac"))
        .and_then(|_| programs::ensure("librabbitmq-client-java", "RabbitMQ's Java client", || jars(&JARS)))
        .and_then(|_| programs::ensure("libpostgresql-jdbc-java", "PostgreSQL's JDBC driver", || jars(&[JDBC])))
        .map(|_| ("JOBWRIGHT_TEST_JAVA_CLASSPATH", format!("{}:{JDBC}", JARS.join(":"))));
    let python = programs::ensure("python3-pika", "Python's AMQP client (pika)", || python("pika"))
        .and_then(|_| programs::ensure("python3-jwcrypto", "Python's JOSE library", || python("pika, jwcrypto")))
        .and_then(|_| programs::ensure("python3-psycopg", "Python's driver of PostgreSQL", || python(MODULES)))
        .map(|path| ("JOBWRIGHT_TEST_PYTHON", path.display().to_string()));
    let node = programs::ensure("nodejs", "Node", || programs::on_path("node"))
        .and_then(|_| node_packages())
        .map(|path| ("JOBWRIGHT_TEST_NODE_PATH", path.display().to_string()));
    [java, python, node]
        .into_iter()
        .filter_map(|found| found.inspect_err(|why| eprintln!("tests of foreign clients will fail: {why}")).ok())
        .collect()
}

fn jars(jars: &[&str]) -> Option<PathBuf> {
    jars.iter().all(|jar| Path::new(jar).is_file()).then(|| PathBuf::from(jars[0]))
}

/// Returns a folder of packages of Node in which there is `pg`.
fn node_packages() -> Result<PathBuf> {
    let debian = Path::new(NODE);
    if debian.join("pg").is_dir() {
        return Ok(debian.to_owned());
    }
    npm::packages(&format!("node-pg-{PG}"), &format!("pg@{PG}"), "pg")
}

/// Returns a Python that has these modules: the one on PATH may not be Debian's.
fn python(modules: &str) -> Option<PathBuf> {
    [programs::on_path("python3"), Some(PathBuf::from("/usr/bin/python3"))].into_iter().flatten().find(|python| {
        python.is_file()
            && run::capture(Command::new(python).args(["-c", &format!("import {modules}")]), Duration::from_secs(30))
                .is_ok()
    })
}
