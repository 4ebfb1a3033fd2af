use jobwright::internal::engine::testing;
use jobwright::internal::wire_testing;
use jobwright::{NewJob, Payload};
use lapin::types::AMQPValue;

use crate::interop::broker::Broker;
use crate::support::amqp_url;

/// All headers that a job may have exceed one AMQP frame: it arrives all the same, and so do the next ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_job_arrives() {
    let Some(url) = amqp_url() else { return };
    let broker = Broker::connect(url).await;
    let work = broker.names.external("printing");
    broker.declare(&work).await;
    let new = NewJob::new("print", Payload::bytes("text/plain", vec![b'x'; 1024 * 1024])).queue("printing");
    let new = (0..64).fold(new, |new, n| new.header(format!("{n:0100}"), "ä".repeat(2048)));
    let job = testing::job(testing::message(new).unwrap(), 1, 1, 1, "2026-11-21T12:00:00Z".parse().unwrap());
    broker.publish(wire_testing::external(&broker.names, &job)).await;
    broker.publish(wire_testing::external(&broker.names, &job)).await;
    let [(properties, body), _] = &broker.take(&work, 2).await[..] else { panic!() };
    assert_eq!(body.len(), 1024 * 1024);
    let headers = properties.headers().as_ref().unwrap().inner();
    let Some(AMQPValue::LongLongInt(left_out)) = headers.get("headersLeftOut") else { panic!("none left out") };
    let kept = headers.keys().filter(|name| name.as_str().len() == 100).count();
    assert_eq!(kept + usize::try_from(*left_out).unwrap(), 64);
    assert!(kept > 15, "{kept}");
    broker.clear().await;
}
