//! Asynchronous continuations, as in jBPM 3: a token moves through a graph. Where a node or an action is marked asynchronous, the
//! transaction ends and a job message carries on.
//!
//! The token's row moves in the transaction of the job that moves it. So a node that fails is retried with the token still where it was,
//! and no step is ever applied twice.
//!
//! ```text
//!  start ──▶ pack ──▶ ⧗ charge ──▶ ⧗ ship ──▶ end            ⧗ asynchronous node: a transaction of its own
//!                                    └ ⧗ notify               ⧗ asynchronous action: beside the token
//! ```
//!
//! ```sh
//! cargo run --example async_continuation          # DATABASE_URL=postgres://… for PostgreSQL
//! ```

#[path = "support/sql.rs"]
mod sql;
mod support;

use std::time::Duration;

use jobwright::{
    AnyStore, AnyTransaction, Command, CommandExecutor, Config, JobContext, JobError, KindOptions, MessageServices,
    NewJob, Outcome, RetryPolicy,
};
use serde::{Deserialize, Serialize};
use sql::{SqlError, Value::Number, Value::Text, execute, texts};
use support::Result;

/// A node of the graph.
struct Node {
    name: &'static str,
    /// Whether entering it ends the transaction.
    is_async: bool,
    /// What happens when a token enters it.
    on_enter: Option<Action>,
    /// Where a token goes from here; `None`: the process ends.
    next: Option<&'static str>,
}

struct Action {
    name: &'static str,
    is_async: bool,
}

const ORDER: [Node; 5] = [
    Node { name: "start", is_async: false, on_enter: None, next: Some("pack") },
    Node { name: "pack", is_async: false, on_enter: None, next: Some("charge") },
    Node { name: "charge", is_async: true, on_enter: None, next: Some("ship") },
    Node { name: "ship", is_async: true, on_enter: Some(Action { name: "notify", is_async: true }), next: Some("end") },
    Node { name: "end", is_async: false, on_enter: None, next: None },
];

fn node(name: &str) -> Result<&'static Node, JobError> {
    // No further attempt will find a node that is not in the graph.
    ORDER.iter().find(|node| node.name == name).ok_or_else(|| JobError::fatal(format!("there is no node {name:?}")))
}

/// One move of a token within one transaction: how far it came, and the jobs that continue from there.
#[derive(Default)]
struct Move {
    path: Vec<String>,
    jobs: Vec<NewJob>,
}

impl Move {
    /// Moves the token from node to node until it has to wait.
    async fn leave(&mut self, tx: &mut AnyTransaction, token: i64, from: &Node) -> Result<(), JobError> {
        let mut from = from;
        while let Some(next) = from.next {
            let to = node(next)?;
            self.enter(tx, token, to).await?;
            if to.is_async {
                self.path.push(format!("wait before {}", to.name));
                self.jobs.push(ExecuteNodeJob { token, node: to.name.to_owned() }.job());
                return Ok(());
            }
            self.execute(tx, token, to).await?;
            from = to;
        }
        Ok(())
    }

    async fn enter(&mut self, tx: &mut AnyTransaction, token: i64, to: &Node) -> Result<(), JobError> {
        execute(tx, "update token set node = $1 where id = $2", &[Text(to.name), Number(token)]).await?;
        match &to.on_enter {
            Some(action) if action.is_async => {
                self.jobs.push(ExecuteActionJob { token, action: action.name.to_owned() }.job());
            }
            Some(action) => record(tx, token, action.name).await?,
            None => {}
        }
        Ok(())
    }

    /// The behaviour of a node. In this example every node records that it ran.
    async fn execute(&mut self, tx: &mut AnyTransaction, token: i64, node: &Node) -> Result<(), SqlError> {
        self.path.push(node.name.to_owned());
        record(tx, token, node.name).await
    }
}

/// A duplicate would violate the primary key.
async fn record(tx: &mut AnyTransaction, token: i64, step: &str) -> Result<(), SqlError> {
    execute(tx, "insert into step (token, name) values ($1, $2)", &[Number(token), Text(step)]).await.map(drop)
}

/// Continues where a token waits before an asynchronous node.
#[derive(Serialize, Deserialize)]
struct ExecuteNodeJob {
    token: i64,
    node: String,
}

impl Command<AnyStore> for ExecuteNodeJob {
    const KIND: &'static str = "execute-node";
    type State = ();

    fn options() -> KindOptions {
        KindOptions::default().max_attempts(3).retry(RetryPolicy::Fixed(Duration::from_millis(100)))
    }

    async fn execute(self, cx: &mut JobContext<'_, (), AnyStore>) -> Result<Outcome, JobError> {
        let attempt = cx.job().attempt;
        let here = node(&self.node)?;
        let tx = cx.transaction().await?;
        // Locks the token where the database can: two jobs must not move it at the same time.
        let lock = if matches!(tx, AnyTransaction::Postgres(_)) { "for update" } else { "" };
        let at = texts(tx, &format!("select node from token where id = $1 {lock}"), &[Number(self.token)]).await?;
        if at != [here.name] {
            return Ok(Outcome::Cancel(format!("the token is no longer at {}", here.name)));
        }
        let mut moved = Move::default();
        moved.execute(tx, self.token, here).await?;
        if here.name == "charge" && attempt == 1 {
            println!("execute-node charge, attempt 1: the bank does not answer → roll back");
            return Err(JobError::new("the bank does not answer"));
        }
        moved.leave(tx, self.token, here).await?;
        println!("execute-node {}, attempt {attempt}: {} → commit", here.name, moved.path.join(", "));
        for job in moved.jobs {
            cx.send(job)?;
        }
        Ok(Outcome::Done)
    }
}

/// Executes an action for which the token did not wait.
#[derive(Serialize, Deserialize)]
struct ExecuteActionJob {
    token: i64,
    action: String,
}

impl Command<AnyStore> for ExecuteActionJob {
    const KIND: &'static str = "execute-action";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), AnyStore>) -> Result<Outcome, JobError> {
        record(cx.transaction().await?, self.token, &self.action).await?;
        println!("execute-action {}, attempt {}: {0} → commit", self.action, cx.job().attempt);
        Ok(Outcome::Done)
    }
}

#[tokio::main]
async fn main() -> Result {
    support::with_scratch_database("continuation", tour).await
}

async fn tour(config: Config) -> Result {
    const TOKEN: i64 = 1;
    let messages = MessageServices::connect(&config).await?;
    messages.migrate().await?;
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    execute(tx, "create table token (id bigint primary key, node text not null)", &[]).await?;
    execute(tx, "create table step (token bigint, name text, primary key (token, name))", &[]).await?;
    cx.commit().await?;

    // The caller starts a process; its transaction ends where the first asynchronous node begins.
    let mut cx = messages.begin();
    let tx = cx.transaction().await?;
    execute(tx, "insert into token (id, node) values ($1, 'start')", &[Number(TOKEN)]).await?;
    let mut moved = Move::default();
    moved.execute(tx, TOKEN, &ORDER[0]).await?;
    moved.leave(tx, TOKEN, &ORDER[0]).await.map_err(|error| error.to_string())?;
    println!("the caller: {} → commit", moved.path.join(", "));
    for job in moved.jobs {
        cx.send(job)?;
    }
    cx.commit().await?;
    assert_eq!(steps(&messages).await?, ["pack", "start"]);

    let executor = CommandExecutor::builder(messages.clone())
        .command::<ExecuteNodeJob>()
        .command::<ExecuteActionJob>()
        .start()
        .await?;
    support::until_idle(&messages).await?;
    let stats = executor.shutdown(Duration::from_secs(5)).await?;

    let steps = steps(&messages).await?;
    println!("\nthe token made each step once: {steps:?}; failed attempts: {}", stats.failed);
    assert_eq!(steps, ["charge", "end", "notify", "pack", "ship", "start"]);
    assert_eq!((stats.done, stats.failed), (3, 1));
    Ok(())
}

async fn steps(messages: &MessageServices<AnyStore>) -> Result<Vec<String>> {
    let mut cx = messages.begin();
    let steps = texts(cx.transaction().await?, "select name from step order by name", &[]).await?;
    cx.rollback().await?;
    Ok(steps)
}
