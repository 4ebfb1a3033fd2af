//! Benchmarks of the harness, against the servers.

use std::path::Path;
use std::time::Duration;

use crate::run::{self, Result};
use crate::services::{self, Urls};

/// All of them, in the order of their tables in docs/performance.md.
const ALL: [&str; 4] = ["core", "amqp", "engine", "peers"];

/// One benchmark takes up to half an hour by default, and longer with more runs.
const DEADLINE: Duration = Duration::from_secs(6 * 3600);

/// Starts a server of its own unless `DATABASE_URL` names one, because it restarts it. It has its own options, so it is not one of [`ALL`].
const FLEET: &str = "fleet";

/// Runs benchmarks. `args` are those of the harness; with options alone, or `all` and options, all benchmarks run one after the other. `--dir DIR`
/// then keeps the values of each there.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if args.first().is_some_and(|name| name == FLEET) {
        return harness(args, &[]);
    }
    let urls = services::up()?;
    match args {
        [name, ..] if name != "all" && !name.starts_with("--") => one(&urls, args),
        args => all(&urls, args.iter().filter(|arg| arg.as_str() != "all").cloned().collect()),
    }
}

fn all(urls: &Urls, mut options: Vec<String>) -> Result<()> {
    let mut dir = None;
    if let Some(place) = options.iter().position(|option| option == "--dir") {
        let named = options.drain(place..(place + 2).min(options.len())).nth(1);
        dir = Some(named.ok_or("--dir needs a directory")?);
    }
    for name in ALL {
        let mut args = vec![name.to_owned()];
        args.extend(options.iter().cloned());
        if let Some(dir) = &dir {
            std::fs::create_dir_all(dir).map_err(|error| format!("--dir: {dir} can't be made: {error}"))?;
            let file = Path::new(dir).join(name).with_extension("json");
            args.extend(["--json".to_owned(), file.display().to_string()]);
        }
        one(urls, &args)?;
    }
    Ok(())
}

fn one(urls: &Urls, args: &[String]) -> Result<()> {
    harness(args, &urls.variables())
}

fn harness(args: &[String], variables: &[(&str, &str)]) -> Result<()> {
    let mut command = run::cargo(["run", "--release", "--package", "jobwright-bench", "--"]);
    run::run(command.args(args).envs(variables.iter().copied()), DEADLINE)
}
