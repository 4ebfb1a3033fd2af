//! A database that takes connections and says nothing: what a stopped process or a pulled cable looks like.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::Place;

/// The first line of stderr, and how long it took.
fn first_word(args: &[&str], url: &str) -> (String, Duration, Option<i32>) {
    let place = Place::sqlite();
    let mut command = place.command(&[&["--database-url", url], args].concat());
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let took = began.elapsed();
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    (line, took, child.wait().unwrap().code())
}

#[test]
fn a_database_that_does_not_answer_is_said_while_it_is_waited_for() {
    // The kernel takes connections in its stead.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap().to_string();
    let url = format!("postgres://user:hunter2@{place}/app");
    for args in [&["status"][..], &["jobs", "list"], &["--quiet", "status", "--output", "json"]] {
        let (line, took, code) = first_word(args, &url);
        assert!(line.contains("does not answer") && line.contains(&place), "{args:?}: {line}");
        assert!(!line.contains("hunter2"), "{line}");
        // It is said within a second; the rest is for a busy machine. The deadline for connecting is 5 s.
        assert!(took < Duration::from_millis(2500), "{args:?} said nothing for {took:?}");
        assert_eq!(code, Some(3));
    }
}
