//! The last commits of a primary never reach its standby, which takes over.

use std::time::{Duration, Instant};

use jobwright::JobId;
use tokio_postgres::Client;

use crate::ha::accounting::{Account, back};
use crate::ha::load::Load;
use crate::ha::postgres::{Commits, pair, some};
use crate::ha::scenario::Stage;
use crate::support::environment::PATIENCE;
use crate::support::eventually;

/// Beside the load there are four jobs with known expectations. `early` ones were claimed before the lost tail and completed in it, so they have to
/// come back, run again, and end once. `late` ones were claimed in the tail: their first handlers, which still run, must not end them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts a cluster: cargo xtask ha"]
async fn lost_tail() {
    let title = "last commits lost, asynchronous";
    let stage = Stage::open(title);
    let (a, b) = pair(&stage, Commits::Asynchronous).await;
    let mut load = Load::start(&stage, &[&a, &b]).await;
    load.goes_on_for(some() / 2).await;

    // Each takes the only slot that an executor has for this queue, and the others wait behind them.
    let early = [load.send_limited("narrow").await, load.send_limited("narrow").await];
    for id in early {
        load.gates.begun(id, 1).await;
    }
    let late = [load.send_limited("narrow").await, load.send_limited("narrow").await];
    a.caught_up().await;
    let standby = b.client().await;
    for id in early {
        eventually(PATIENCE, async || owned(&standby, id).await == Some(true)).await;
    }
    for id in late {
        assert_eq!(owned(&standby, id).await, Some(false), "it was to wait");
    }

    a.freeze_senders().await;
    let primary = a.client().await;
    for id in early {
        load.gates.open(id, 1);
        eventually(PATIENCE, async || owned(&primary, id).await.is_none()).await;
    }
    for id in late {
        load.gates.begun(id, 1).await;
    }
    load.goes_on_for(some() / 2).await;
    let fault = Instant::now();
    a.kill();
    b.promote();
    for id in early {
        assert_eq!(owned(&standby, id).await, Some(true), "its end was to be lost");
        load.gates.open_from(id, 2);
    }
    // One first handler tries to end its job before another node claims it, the other one afterwards.
    load.gates.open(late[0], 1);
    stage.turn(&b, true);
    let back = back_without(&load, &b, fault, &[early, late].concat()).await;
    let way = stage.way(&[&b, &a]).await;
    load.join(&way, "executor that came later", 8).await;
    for id in early {
        load.gates.begun(id, 2).await;
    }
    let again = fault.elapsed();
    for id in late {
        load.gates.begun(id, 2).await;
    }
    load.gates.open(late[1], 1);
    load.goes_on_for(some()).await;
    for id in late {
        assert_eq!(owned(&standby, id).await, Some(true), "its first handler ended it");
        load.gates.open_from(id, 2);
    }
    let mut account = Account::settle(title, &mut load, &b, true).await;
    for id in [early, late].concat() {
        let lines = standby.query("select run from done where id = $1", &[id.as_uuid()]).await.unwrap();
        let runs: Vec<i32> = lines.iter().map(|row| row.get(0)).collect();
        assert!(runs.len() == 1 && runs[0] > 1, "of {id} these runs took effect: {runs:?}");
    }
    let refused = load.refused();
    load.stop_executors().await;
    account = account.with(back).telling(format!("begun again after {:.1} s", again.as_secs_f64()));
    account.telling(format!("refused {refused}")).close();
}

/// These jobs wait for the test, so they are not waited for.
async fn back_without(
    load: &Load,
    server: &crate::ha::cluster::Node,
    fault: Instant,
    gated: &[JobId],
) -> crate::ha::accounting::Back {
    let all = |load: &Load| load.book.lock().unwrap().sure.clone();
    let kept: Vec<_> = all(load).into_iter().filter(|sent| gated.contains(&sent.id)).collect();
    load.book.lock().unwrap().sure.retain(|sent| !gated.contains(&sent.id));
    let measured = tokio::time::timeout(Duration::from_secs(180), back(load, server, fault)).await.unwrap();
    load.book.lock().unwrap().sure.extend(kept);
    measured
}

/// Returns whether a node owns the job; `None`: it does not exist.
async fn owned(client: &Client, id: JobId) -> Option<bool> {
    let look = "select lock_owner is not null from jobwright.job where id = $1";
    client.query_opt(look, &[id.as_uuid()]).await.unwrap().map(|row| row.get(0))
}
