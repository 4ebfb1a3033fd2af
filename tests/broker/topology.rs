use jobwright::Broker;
use jobwright::internal::broker_testing as testing;
use jobwright::internal::{TopologyItem, TopologyState};

use crate::broker::{TestSite, deliveries, up};

fn queues() -> Vec<String> {
    vec!["q".to_owned()]
}

fn all(items: &[TopologyItem], state: &TopologyState) -> bool {
    !items.is_empty() && items.iter().all(|item| item.state == *state)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_declares_missing_items_and_check_reports_their_state() {
    let Some(place) = TestSite::shared() else { return };
    let broker = place.broker().await;
    let plan = Broker::plan(&place.config(), &queues(), &queues());
    assert!(all(&plan, &TopologyState::Planned));
    assert!(all(&broker.check(&queues(), &queues()).await.unwrap(), &TopologyState::Missing));
    assert!(all(&broker.apply(&queues(), &queues()).await.unwrap(), &TopologyState::Created));
    assert!(all(&broker.apply(&queues(), &queues()).await.unwrap(), &TopologyState::Present));
    assert!(all(&broker.check(&queues(), &queues()).await.unwrap(), &TopologyState::Present));

    let other = up(&place.config().depth(7)).await;
    let items = other.check(&queues(), &[]).await.unwrap();
    let differing: Vec<_> = items.iter().filter(|item| matches!(item.state, TopologyState::Differs(_))).collect();
    assert_eq!(differing.len(), 1, "{items:?}");
    assert!(differing[0].name.ends_with(".q.q"), "{differing:?}");
    assert!(differing[0].state.to_string().contains("x-max-length"), "{differing:?}");
    assert!(broker.mode().is_up());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_queues_are_declared_too() {
    let Some(place) = TestSite::shared() else { return };
    let config = place.config().queue_type(jobwright::QueueType::Quorum);
    let broker = up(&config).await;
    testing::ensure(&broker, &deliveries()).await.unwrap();
    let queue = broker.names().deliveries("q");
    assert_eq!(crate::broker::waiting(&broker, &queue).await, Some(0));
    assert!(all(&broker.check(&queues(), &[]).await.unwrap()[3..6], &TopologyState::Present));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_arrive_whatever_their_key() {
    let Some(place) = TestSite::shared() else { return };
    let broker = place.broker().await;
    testing::ensure(&broker, &deliveries()).await.unwrap();
    let mut message = crate::broker::message("any.key", "poison");
    message.exchange = broker.names().dead();
    assert_eq!(testing::publish(&broker, vec![message]).await, [testing::Published::Acked]);
    let mut dead = testing::subscribe(&broker, &broker.names().dead(), 1);
    assert_eq!(crate::broker::receive(&mut dead, 1).await[0].body, b"poison");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_queue_is_named_with_its_remedy() {
    let Some(place) = TestSite::shared() else { return };
    let broker = up(&place.config().declare(false)).await;
    let error = testing::ensure(&broker, &deliveries()).await.unwrap_err();
    assert_eq!(error.code(), "JW-BROKER");
    assert!(error.to_string().contains("jobwright broker apply"), "{error}");
    // Retried, and found once it exists.
    testing::ensure(&*place.broker().await, &deliveries()).await.unwrap();
    testing::ensure(&broker, &deliveries()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_makes_us_look_again() {
    let Some(place) = TestSite::shared() else { return };
    let broker = place.broker().await;
    testing::ensure(&broker, &deliveries()).await.unwrap();
    let queue = broker.names().deliveries("q");
    place.delete(&queue).await;
    assert_eq!(testing::publish(&broker, crate::broker::messages(&queue, 1)).await, [testing::Published::Returned]);
    testing::ensure(&broker, &deliveries()).await.unwrap();
    assert_eq!(testing::publish(&broker, crate::broker::messages(&queue, 1)).await, [testing::Published::Acked]);
}
