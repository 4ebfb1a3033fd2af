//! Which broker users may submit what, on a private broker.

use std::collections::BTreeMap;
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::RejectedQueue;
use jobwright::{CommandExecutor, JobId, SubmitRule};
use lapin::BasicProperties;

use crate::delivery::amqp_client::{Client, headers};
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::{TestDb, amqp_url, eventually};

fn submission(id: JobId, user: Option<&str>, kind: &str, more: &[(&str, &str)]) -> BasicProperties {
    let properties = BasicProperties::default().with_message_id(id.to_string().as_str().into()).with_type(kind.into());
    let properties = properties.with_headers(headers(more.iter().copied()));
    match user {
        Some(user) => properties.with_user_id(user.into()),
        None => properties,
    }
}

/// The client, the user id, the kind, the headers, and the reason of the refusal.
type Case<'a> = (&'a Client, Option<&'a str>, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submitters_are_identified_and_held_to_their_rules() {
    if amqp_url().is_none() {
        return;
    }
    let server = PrivateRabbit::start();
    for user in ["shop", "stranger"] {
        server.add_user(user, "geheim", "/", Some(["", ".*", ""]));
    }
    let Some(site) = Site::<Pg<false>>::on(server.url()).await else { return };
    let rule = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let shop = SubmitRule::default()
        .kinds(rule(&["invoice-*"]))
        .queues(rule(&["billing"]))
        .tenants(rule(&["acme"]))
        .unique_keys(rule(&["shop-*"]))
        .max_delay(Duration::from_secs(24 * 3600));
    let rules = BTreeMap::from([("shop".to_owned(), shop), ("guest".to_owned(), SubmitRule::default())]);
    let messages = site.messages_with(&site.broker().submit_rules(rules)).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor =
        CommandExecutor::builder(messages.clone()).config(patient()).without_handlers().start().await.unwrap();
    let submit = site.names().submit();
    let reader = site.client().await;
    let shop = Client::connect(&server.url_as("shop", "geheim", "%2f")).await;
    let stranger = Client::connect(&server.url_as("stranger", "geheim", "%2f")).await;

    // No producer may set the header of that name.
    let good = JobId::new();
    let entries = [
        ("queue", "billing"),
        ("tenant", "acme"),
        ("sentBy", "guest"),
        ("uniqueKey", "shop-1"),
        ("jobPriority", "5"),
        ("delay", "0s"),
    ];
    assert!(shop.publish("", &submit, submission(good, Some("shop"), "invoice-send", &entries), b"1").await);
    site.db.counts(JobState::Waiting, 1).await;
    let kept = site.db.jobs().detail(good).await;
    assert_eq!(kept.headers.get("sentBy").map(String::as_str), Some("shop"));

    let (queue, tenant) = (("queue", "billing"), ("tenant", "acme"));
    let cases: [Case<'_>; 12] = [
        (&shop, Some("shop"), "pay", &[queue, tenant], "`kinds` does not allow \"pay\""),
        (&shop, Some("shop"), "invoice-send", &[tenant], "`queues` does not allow \"default\""),
        (&shop, Some("shop"), "invoice-send", &[queue, ("tenant", "ajax")], "`tenants` does not allow \"ajax\""),
        (&shop, Some("shop"), "invoice-send", &[queue], "the job has none"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("groupId", "account-42")], "no `groups`"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("limitKey", "printer")], "no `limit_keys`"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("uniqueKey", "total")], "`unique_keys` does not allow"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("jobPriority", "6")], "`max_priority` is 5"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("delay", "25h")], "`max_delay` is 86400s"),
        (&shop, Some("shop"), "invoice-send", &[queue, tenant, ("dueAt", "2099-01-01T00:00:00Z")], "`max_delay`"),
        (&stranger, Some("stranger"), "invoice-send", &[queue, tenant], "does not list it"),
        (&stranger, None, "invoice-send", &[queue, tenant, ("sentBy", "shop")], "set user_id"),
    ];
    for (client, user, kind, entries, why) in cases {
        assert!(client.publish("", &submit, submission(JobId::new(), user, kind, entries), b"1").await);
        let refused = reader.take(&site.names().rejected()).await;
        assert_eq!(refused.header("jobwright-reason").as_deref(), Some("not-allowed"));
        let text = refused.header("jobwright-error").unwrap();
        assert!(text.contains(why), "{text:?} does not say {why:?}");
    }
    assert_eq!(site.db.jobs().all().await.len(), 1);

    // An operator may submit it again, as the operator.
    assert!(stranger.publish("", &submit, submission(JobId::new(), None, "pay", &[]), b"1").await);
    eventually(PATIENCE, async || reader.waiting(&site.names().rejected()).await == 1).await;
    let mut aside = messages.broker().unwrap().rejected(RejectedQueue::Submissions).await.unwrap().unwrap();
    let taken = aside.next().await.unwrap().unwrap();
    assert_eq!(aside.put_back(vec![taken]).await.unwrap(), 1);
    aside.close().await.unwrap();
    site.db.counts(JobState::Waiting, 2).await;
    let again = site.db.jobs().all().await.into_iter().find(|job| job.id != good).unwrap();
    let again = site.db.jobs().detail(again.id).await;
    assert_eq!(again.headers.get("sentBy").map(String::as_str), Some("guest"));
    executor.shutdown(Duration::ZERO).await.unwrap();
}
