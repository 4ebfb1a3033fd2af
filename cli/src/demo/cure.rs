//! Part 5: the last dead letter and its cure, by the commands of an operator.

use std::process::Stdio;
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Page};
use tempfile::TempDir;
use tokio::process::Command;

use super::stage::{Stage, until};
use super::{flood, orders};
use crate::failure::Failure;
use crate::output::line;

/// Runs this program as an operator does, on the database of the tour.
struct Operator<'a> {
    stage: &'a Stage,
    /// Where no configuration file is.
    directory: TempDir,
}

impl<'a> Operator<'a> {
    fn new(stage: &'a Stage) -> Result<Self, Failure> {
        let failed = |error| Failure::Failed(format!("a temporary directory could not be made: {error}"));
        let directory = tempfile::Builder::new().prefix("jobwright-demo-").tempdir().map_err(failed)?;
        Ok(Self { stage, directory })
    }

    /// Prints a command and runs it. It writes to the stdout and stderr of the tour.
    async fn types(&self, words: &[&str]) -> Result<(), Failure> {
        let typed = words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() });
        let typed = typed.collect::<Vec<_>>().join(" ");
        line(format!("$ jobwright {typed}"))?;
        let failed = |error| Failure::Failed(format!("`jobwright {typed}` could not be run: {error}"));
        let database = &self.stage.config.database;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("JOBWRIGHT_") {
                command.env_remove(name);
            }
        }
        let ended = command
            .args(words)
            // A URL may contain a password, and arguments are visible to all users.
            .env("DATABASE_URL", database.url.expose())
            .env("JOBWRIGHT_DATABASE_SCHEMA", &database.schema)
            .env_remove("AMQP_URL")
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .map_err(failed)?;
        if !ended.success() {
            return Err(Failure::Failed(format!("`jobwright {typed}` failed: {ended}")));
        }
        line("")
    }
}

/// Runs this part, and checks that each of these orders has its invoice in the end.
pub(super) async fn run(stage: &Stage, all: u64) -> Result<(), Failure> {
    line("5. The last dead letter, and its cure. An operator asks why jobs died, and looks at the last one:\n")?;
    let operator = Operator::new(stage)?;
    let admin = stage.messages.admin();
    let dead = JobFilter::state(JobState::Dead);
    let letters = admin.list(&dead, &Page::new(10_000)).await?;
    let Some(last) = letters.last().map(|job| job.id) else {
        return Err(Failure::Failed("there is no dead letter: this is a bug, please report it".to_owned()));
    };
    let id = last.to_string();
    operator.types(&["jobs", "errors"]).await?;
    operator.types(&["jobs", "show", &id]).await?;

    line("The cause is in the data, and is removed there:\n")?;
    let written = format!("update {} set address = '3 Main Street' where address = ''", stage.table("orders"));
    let rows = stage.commit_one(&written, []).await?;
    line(format!("sql> {written};\n{rows} rows\n"))?;

    line("A worker runs the job again, and then the others that died of the same cause:\n")?;
    let executor = orders::handler(stage, stage.executor().queue(flood::QUEUE, 16)).start().await?;
    operator.types(&["jobs", "retry", &id]).await?;
    until("the last dead letter to be done", async || Ok(admin.show(last).await?.is_none())).await?;
    operator.types(&["jobs", "retry", "--state", "dead", "--error", orders::NO_ADDRESS]).await?;
    until("the other dead letters to be done", async || {
        let queue = stage.queue(flood::QUEUE).await?;
        Ok(queue.waiting + queue.running + queue.timer == 0)
    })
    .await?;
    executor.shutdown(Duration::from_secs(5)).await?;
    operator.types(&["jobs", "list", "--state", "dead"]).await?;

    let invoiced = stage.number("select count(*) from {orders} where invoices = 1").await?;
    let others = stage.number("select count(*) from {orders} where invoices <> 1").await?;
    let dead = admin.list(&dead, &Page::new(10_000)).await?.len();
    if (invoiced, others, dead) != (all, 0, 0) {
        return Err(Failure::Failed(format!(
            "{invoiced} of {all} orders have one invoice, {others} have none or several, {dead} dead letters are left: this is a bug, \
             please report it"
        )));
    }
    line(format!("{all} orders, each with one invoice, and no dead letter is left.\n"))
}
