//! Part 1: one node of a process, executed synchronously and asynchronously. It is jBPM's own example of what jobs are for.

use std::sync::{Arc, Mutex, PoisonError};

use jobwright::{AnyTransaction, NewJob, Outcome};
use serde_json::json;

use super::stage::{Stage, execute, until};
use crate::failure::Failure;
use crate::output::line;

const KIND: &str = "execute-node";
pub(super) const QUEUE: &str = "process";

/// The writes of one transaction, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// Prints what was written, and clears it.
    fn tell(&self, title: &str) -> Result<(), Failure> {
        line(format!("    {title}"))?;
        for text in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            line(format!("      - {text}"))?;
        }
        Ok(())
    }
}

/// The tables of the process, for handlers too.
#[derive(Clone)]
struct Process {
    token: String,
    ledger: String,
    journal: Journal,
}

impl Process {
    /// Moves a token from one node to the next.
    async fn step(&self, transaction: &mut AnyTransaction, id: &str, from: &str, to: &str) -> Result<(), Failure> {
        let sql = format!("update {} set node = $1 where id = $2 and node = $3", self.token);
        let rows = execute(transaction, &sql, [to.to_owned(), id.to_owned(), from.to_owned()]).await?;
        if rows != 1 {
            return Err(Failure::Failed(format!("the token {id} was not at node {from}")));
        }
        self.journal.note(format!("token: {from} -> {to}"));
        Ok(())
    }

    /// The work of node b.
    async fn work(&self, transaction: &mut AnyTransaction, id: &str) -> Result<(), Failure> {
        let sql = format!("insert into {} (job, part, attempt, worker) values ($1, $2, $3, $4)", self.ledger);
        let values = [id, "process", "1", "b"].map(str::to_owned);
        execute(transaction, &sql, values).await?;
        self.journal.note("the work of node b: one row");
        Ok(())
    }
}

pub(super) async fn run(stage: &Stage) -> Result<(), Failure> {
    line("1. A process a (wait) -> b -> c (wait). A signal arrives at a.")?;
    let process = Process { token: stage.table("token"), ledger: stage.table("ledger"), journal: Journal::default() };
    synchronous(stage, &process).await?;
    asynchronous(stage, &process).await
}

async fn put_token(stage: &Stage, process: &Process, id: &str) -> Result<(), Failure> {
    let sql = format!("insert into {} (id, node) values ($1, $2)", process.token);
    stage.commit_one(&sql, [id.to_owned(), "a".to_owned()]).await?;
    line(format!("    token {id:?} is at {}", stage.token(id).await?))
}

/// The signalling caller waits for the work of b, and fails with it.
async fn synchronous(stage: &Stage, process: &Process) -> Result<(), Failure> {
    let id = "synchronous";
    line("\n  b is synchronous: one transaction, that of the caller.")?;
    put_token(stage, process, id).await?;
    let mut context = stage.messages.begin();
    let transaction = context.transaction().await?;
    process.step(transaction, id, "a", "b").await?;
    process.work(transaction, id).await?;
    process.step(transaction, id, "b", "c").await?;
    context.commit().await?;
    process.journal.tell("transaction 1 (the caller's) wrote and committed:")?;
    line(format!("    token {id:?} is at {}", stage.token(id).await?))
}

/// The signalling caller only sends a job, in its own transaction.
async fn asynchronous(stage: &Stage, process: &Process) -> Result<(), Failure> {
    let id = "asynchronous";
    line("\n  b is asynchronous: two transactions.")?;
    put_token(stage, process, id).await?;
    let mut context = stage.messages.begin();
    process.step(context.transaction().await?, id, "a", "b").await?;
    let job = context.send(NewJob::json(KIND, &json!({ "token": id, "node": "b" })).queue(QUEUE))?;
    context.commit().await?;
    process.journal.note(format!("job {KIND:?}: one row"));
    process.journal.tell("transaction 1 (the caller's) wrote and committed:")?;
    let waiting = stage.queue(QUEUE).await?.waiting;
    line(format!("    token {id:?} is at {}, jobs waiting: {waiting}; the caller is done", stage.token(id).await?))?;

    let handler = process.clone();
    let executor = stage
        .executor()
        .queue(QUEUE, 1)
        .handle_with(KIND, move |cx| {
            let process = handler.clone();
            Box::pin(async move {
                let transaction = cx.transaction().await?;
                process.work(transaction, id).await?;
                process.step(transaction, id, "b", "c").await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await?;
    until("the job of node b", async || Ok(stage.messages.admin().show(job).await?.is_none())).await?;
    executor.shutdown(std::time::Duration::from_secs(5)).await?;
    process.journal.note("the job is done: its row removed");
    process.journal.tell("transaction 2 (the executor's) wrote and committed:")?;
    let waiting = stage.queue(QUEUE).await?.waiting;
    line(format!("    token {id:?} is at {}, jobs waiting: {waiting}\n", stage.token(id).await?))
}
