//! The service as its users run it, on a file of its own for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use jobwright::testing::{TestDatabase, assert_sent};
use jobwright::{BrokerConfig, ExecutorStats, JobId, MessageServices, Sqlite};
use jobwright_example_sqlite_rabbitmq::{
    CREDIT, Error, InvoiceOrder, PRINTER, Placed, connect, executor, is_invoiced, place, serve,
};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

type Shop = MessageServices<Sqlite>;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the URL of the broker, or `None` where the tests have to do without servers.
fn broker_url() -> Option<String> {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return None;
    }
    Some(std::env::var("AMQP_URL").expect("set AMQP_URL"))
}

/// Returns a configuration with a prefix of its own, so that tests leave other queues alone.
fn broker(url: &str) -> BrokerConfig {
    BrokerConfig::url(url).prefix(JobId::new().to_string())
}

/// The process that runs the jobs.
struct Server {
    stop: oneshot::Sender<()>,
    ends: JoinHandle<Result<ExecutorStats, Error>>,
}

impl Server {
    fn start(messages: &Shop) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, ends: tokio::spawn(serve(messages.clone(), async { drop(stopped.await) })) }
    }

    async fn stop(self) -> ExecutorStats {
        self.stop.send(()).unwrap();
        self.ends.await.unwrap().unwrap()
    }
}

/// Removes what a test has declared at the broker.
async fn remove(server: &Shop, client: &Shop) {
    server.broker().unwrap().close(Duration::from_secs(5)).await;
    client.broker().unwrap().remove(&["default".to_owned()], &[PRINTER.to_owned()]).await.unwrap();
}

/// Waits until the server has declared its queues and takes jobs from the broker, and lets the client know.
async fn until_delivered_to(client: &Shop) {
    let broker = client.broker().unwrap();
    let names = [broker.names().deliveries("default"), broker.names().external(PRINTER)];
    let started = Instant::now();
    loop {
        let queues = broker.queues(&names).await.unwrap();
        if queues[0].consumers.is_some_and(|consumers| consumers > 0) && queues[1].messages.is_some() {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{queues:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.prepare("default").await;
}

/// Waits until all is reported and sent.
async fn until_nothing_is_left(db: &TestDatabase<Sqlite>) {
    let started = Instant::now();
    loop {
        let queues = db.messages().admin().status().await.unwrap().queues;
        if queues.iter().all(|queue| queue.waiting + queue.running + queue.external + queue.timer == 0) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{queues:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_sent(&db.sent().await.unwrap()).never();
}

async fn until_over(shop: &Shop, job: JobId) {
    assert!(shop.wait_for_end(job, PATIENCE).await.unwrap().is_over(), "{job} is not done");
}

/// A program in any language, which knows nothing of jobwright: it prints invoices, and listens.
struct Printer {
    _connection: Connection,
    channel: Channel,
    invoices: Consumer,
    news: Consumer,
    reply: String,
}

impl Printer {
    async fn start(url: &str, names: &Shop) -> Self {
        let names = names.broker().unwrap().names();
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let news = channel.queue_declare("".into(), QueueDeclareOptions::exclusive(), FieldTable::default()).await;
        let news = news.unwrap().name().clone();
        let key = names.event("order-invoiced");
        channel
            .queue_bind(
                news.clone(),
                names.events().into(),
                key.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        let consume = async |queue| {
            let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
            channel.basic_consume(queue, "".into(), options, none).await.unwrap()
        };
        let news = consume(news).await;
        let invoices = consume(names.external(PRINTER).into()).await;
        Self { reply: names.reply(), _connection: connection, invoices, news, channel }
    }

    /// Prints the next invoice, and reports it. Returns its text.
    async fn print(&mut self) -> String {
        let invoice = tokio::time::timeout(PATIENCE, self.invoices.next()).await.expect("no invoice").unwrap().unwrap();
        let given = invoice.properties.headers().as_ref().unwrap().inner();
        let mut headers = FieldTable::default();
        for name in ["jobId", "version", "reportToken"] {
            headers.insert(name.into(), given[name].clone());
        }
        headers.insert("status".into(), lapin::types::AMQPValue::LongString("done".into()));
        let (options, properties) = (
            BasicPublishOptions { mandatory: true, ..Default::default() },
            BasicProperties::default().with_headers(headers),
        );
        let report = self.channel.basic_publish("".into(), self.reply.as_str().into(), options, b"", properties).await;
        assert!(report.unwrap().await.unwrap().is_ack());
        invoice.ack(BasicAckOptions::default()).await.unwrap();
        String::from_utf8(invoice.data).unwrap()
    }

    /// Returns the next event.
    async fn hear(&mut self) -> String {
        let news = tokio::time::timeout(PATIENCE, self.news.next()).await.expect("no event").unwrap().unwrap();
        String::from_utf8(news.data).unwrap()
    }
}

/// Starts the server and a client, as two processes on one file, and waits until the broker delivers.
async fn shop(url: &str) -> (TestDatabase<Sqlite>, MessageServices<Sqlite>, MessageServices<Sqlite>, Server) {
    let db = TestDatabase::sqlite().await.unwrap();
    let broker = broker(url);
    let (server, client) = (connect(db.config(), &broker).await.unwrap(), connect(db.config(), &broker).await.unwrap());
    let running = Server::start(&server);
    until_delivered_to(&client).await;
    (db, server, client, running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_invoiced_over_the_broker() {
    let Some(url) = broker_url() else { return };
    let (db, server, client, running) = shop(&url).await;
    let mut printer = Printer::start(&url, &client).await;
    for _ in 0..2 {
        let Placed { order, job, went } = place(&client, "Ada", 1999).await.unwrap();
        assert_eq!((went.broker, went.table, went.executor), (1, 0, 0));
        until_over(&client, job).await;
        assert!(is_invoiced(&client, order).await.unwrap());
        let order = format!("{{\"order\":{order}}}");
        assert_eq!((printer.hear().await, printer.print().await), (order.clone(), order));
    }
    until_nothing_is_left(&db).await;
    let started = Instant::now();
    let stats = running.stop().await;
    assert!(started.elapsed() < Duration::from_secs(15), "the stop took {:?}", started.elapsed());
    assert_eq!((stats.delivered, stats.handed_out, stats.reported, stats.relayed), (2, 2, 2, 2));
    remove(&server, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_rolled_back_sends_nothing() {
    let Some(url) = broker_url() else { return };
    let (db, server, client, running) = shop(&url).await;
    let Err(refused) = place(&client, "Ada", CREDIT + 1).await else { panic!("she would owe too much") };
    assert_eq!(refused.to_string(), "Ada would owe 100001 cents");
    client.wake_ups_sent().await;
    assert_eq!(client.broker().unwrap().stats().confirmed, 0);
    assert_sent(&db.sent().await.unwrap()).never();
    assert!(is_invoiced(&client, 1).await.is_err(), "the order is stored");
    // The next one is the first.
    let placed = place(&client, "Ada", CREDIT).await.unwrap();
    assert_eq!(placed.order, 1);
    until_over(&client, placed.job).await;
    let stats = running.stop().await;
    assert_eq!((stats.delivered, client.broker().unwrap().stats().confirmed), (1, 1));
    remove(&server, &client).await;
}

/// Needs no server: nothing listens at the address of the broker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_go_on_without_a_broker() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let no_answer = broker(&format!("amqp://guest:guest@{nobody}/%2f"));
    for broker in [no_answer, BrokerConfig::default()] {
        let db = TestDatabase::sqlite().await.unwrap();
        let (server, client) =
            (connect(db.config(), &broker).await.unwrap(), connect(db.config(), &broker).await.unwrap());
        assert!(client.broker().is_none_or(|broker| !broker.is_up()));
        let running = Server::start(&server);
        let placed = place(&client, "Ada", 1999).await.unwrap();
        assert_eq!(placed.went.table, 1);
        until_over(&client, placed.job).await;
        assert!(is_invoiced(&client, placed.order).await.unwrap());
        // These wait for the broker.
        let sent = db.sent().await.unwrap();
        assert_sent(&sent).kind("print-invoice").queue(PRINTER).once();
        assert_sent(&sent).kind("order-invoiced").once();
        assert_eq!(running.stop().await.delivered, 0);
    }
}

/// A way to the broker that can be cut.
struct Wire(JoinHandle<()>);

impl Wire {
    fn lay(listener: TcpListener, broker: &str) -> Self {
        let rest = broker.rsplit_once('@').map_or(broker, |(_, rest)| rest);
        let server = rest.split('/').next().unwrap().to_owned();
        Self(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let server = server.clone();
                connections.spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        }))
    }

    async fn cut(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_go_on_while_the_broker_is_away() {
    let Some(url) = broker_url() else { return };
    let db = TestDatabase::sqlite().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let wire = Wire::lay(listener, &url);
    let (user, rest) = url.rsplit_once('@').unwrap();
    let broker = broker(&format!("{user}@{address}/{}", rest.split_once('/').unwrap().1));
    let (server, client) = (connect(db.config(), &broker).await.unwrap(), connect(db.config(), &broker).await.unwrap());
    let running = Server::start(&server);
    until_delivered_to(&client).await;
    let before = place(&client, "Ada", 1).await.unwrap();
    assert_eq!(before.went.broker, 1);
    until_over(&client, before.job).await;

    wire.cut().await;
    let mut mode = client.broker().unwrap().changes();
    tokio::time::timeout(PATIENCE, mode.wait_for(|mode| !mode.is_up())).await.unwrap().unwrap();
    let during = place(&client, "Ada", 1).await.unwrap();
    assert_eq!(during.went.table, 1);
    until_over(&client, during.job).await;
    assert!(is_invoiced(&client, during.order).await.unwrap());

    let _wire = Wire::lay(TcpListener::bind(address).await.unwrap(), &url);
    tokio::time::timeout(PATIENCE, mode.wait_for(jobwright::BrokerMode::is_up)).await.unwrap().unwrap();
    until_delivered_to(&client).await;
    let after = place(&client, "Ada", 1).await.unwrap();
    assert_eq!(after.went.broker, 1);
    until_over(&client, after.job).await;
    let mut printer = Printer::start(&url, &server).await;
    for _ in [before, during, after] {
        printer.print().await;
    }
    until_nothing_is_left(&db).await;
    running.stop().await;
    remove(&server, &client).await;
}

/// The kit runs the handlers without a broker.
#[tokio::test]
async fn an_invoice_is_printed_and_told() {
    let db = TestDatabase::sqlite().await.unwrap();
    let shop = connect(db.config(), &BrokerConfig::default()).await.unwrap();
    let placed = place(&shop, "Ada", 1999).await.unwrap();
    assert_sent(&db.sent().await.unwrap()).command(|invoice: &InvoiceOrder| invoice.order == placed.order).once();
    let mut runner = db.runner(executor).await.unwrap();
    assert!(runner.work_one().await.unwrap().unwrap().is_done());
    assert_sent(&db.sent().await.unwrap())
        .kind("print-invoice")
        .json_with(&InvoiceOrder { order: placed.order })
        .once();
    assert_sent(&db.sent().await.unwrap()).kind("order-invoiced").once();
}
