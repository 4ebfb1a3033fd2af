//! When a node gives up its lease, and when it doubts what it owns. The runtime's own time is used here. It stands still while no task
//! waits.

use std::collections::VecDeque;

use crate::executor::lifecycle::heartbeat::*;

/// The result of a renewal.
enum Answer {
    /// Answered by this server, this many seconds after it was sent.
    From(Option<ServerIdentity>, u64),
    Refused,
    /// The node is dead.
    Dead,
}

/// Renewals with these results. Later ones get no answer.
struct Script(VecDeque<Answer>);

impl Renewal for Script {
    async fn renew(&mut self) -> Result<(bool, Option<ServerIdentity>)> {
        match self.0.pop_front() {
            Some(Answer::From(server, after)) => {
                tokio::time::sleep(Duration::from_secs(after)).await;
                Ok((true, server))
            }
            Some(Answer::Dead) => Ok((false, None)),
            Some(Answer::Refused) => Err(Error::new(ErrorKind::Unreachable, "the connection was lost")),
            None => std::future::pending().await,
        }
    }

    fn unanswered(&mut self) -> bool {
        true
    }
}

/// A node that stops ends its lease, and one of its renewals may come after that.
#[tokio::test(start_paused = true)]
async fn the_end_that_a_node_sets_itself_is_no_loss() {
    for leaving in [true, false] {
        let (_stop, stopped) = oneshot::channel();
        let lost = CancellationToken::new();
        let heartbeat = HeartbeatLoop {
            renewal: Script([Answer::Dead].into()),
            node: NodeId(1),
            lease: Duration::from_secs(30),
            last: Instant::now(),
            lost: lost.clone(),
            leaving: Arc::new(leaving.into()),
            hopeless: Arc::default(),
            doubts: Arc::default(),
            vitals: Arc::default(),
            server: None,
            proving: None,
            liveness: None,
        };
        heartbeat.run(stopped).await;
        assert_eq!(lost.is_cancelled(), !leaving);
    }
}

/// Runs a heartbeat. Returns after how long it gave up the lease, and whether it made the node doubt what it owns.
async fn beaten(lease: Duration, server: Option<ServerIdentity>, answers: Vec<Answer>) -> (Duration, bool) {
    let (_stop, stopped) = oneshot::channel();
    let (registered, doubts, lost) = (Instant::now(), Arc::<InFlight>::default(), CancellationToken::new());
    let heartbeat = HeartbeatLoop {
        renewal: Script(answers.into()),
        node: NodeId(1),
        lease,
        last: registered,
        lost: lost.clone(),
        leaving: Arc::default(),
        hopeless: Arc::default(),
        doubts: doubts.clone(),
        vitals: Arc::default(),
        server,
        proving: None,
        liveness: None,
    };
    heartbeat.run(stopped).await;
    assert!(lost.is_cancelled());
    (registered.elapsed(), doubts.is_suspicious())
}

fn server(history: &str, started: i64) -> ServerIdentity {
    let started = jiff::Timestamp::from_second(started).unwrap();
    ServerIdentity { history: history.to_owned(), started }
}

/// As exact as a try under way at the end allows.
fn near(real: Duration, wanted: Duration) -> bool {
    real >= wanted && real < wanted + Duration::from_millis(80)
}

#[tokio::test(start_paused = true)]
async fn a_node_stops_a_tenth_of_the_lease_and_at_most_a_second_before_its_end() {
    for (lease, margin) in [(2_000, 200), (5_000, 500), (30_000, 1_000)] {
        let (lost, _) = beaten(Duration::from_millis(lease), None, Vec::new()).await;
        assert!(near(lost, Duration::from_millis(lease - margin)), "{lost:?} of {lease} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_before_its_renewal_was_sent() {
    // Sent after 10 s; its answer takes 8, and no answers follow.
    let (lost, _) = beaten(Duration::from_secs(30), None, vec![Answer::From(None, 8)]).await;
    assert!(near(lost, Duration::from_secs(10 + 29)), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_is_looked_at_after_a_heartbeat_that_failed() {
    let lease = Duration::from_secs(30);
    let well = || Answer::From(Some(server("one", 1)), 0);
    let (_, doubts) = beaten(lease, Some(server("one", 1)), vec![well(), well()]).await;
    assert!(!doubts, "nothing happened");
    let (_, doubts) = beaten(lease, Some(server("one", 1)), vec![well(), Answer::Refused, well()]).await;
    assert!(doubts);
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_is_looked_at_after_the_server_was_started_anew() {
    let lease = Duration::from_secs(30);
    let (lost, doubts) = beaten(lease, Some(server("one", 1)), vec![Answer::From(Some(server("one", 2)), 0)]).await;
    assert!(doubts && near(lost, Duration::from_secs(10 + 29)), "the same node goes on: {lost:?}");
    let (lost, _) = beaten(lease, Some(server("one", 1)), vec![Answer::From(Some(server("another", 1)), 0)]).await;
    assert!(near(lost, Duration::from_secs(10)), "of another history it ends at once: {lost:?}");
}
