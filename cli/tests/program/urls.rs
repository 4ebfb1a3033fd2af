//! Handlers whose server can't be reached, of several servers, and the connections to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::http_server::{HttpServer, Manner, free_address};
use crate::common::{Sandbox, Worker, on_both_stores, until};
use crate::doctor::{advice, doctor, found};

on_both_stores!(
    a_server_that_is_down_costs_no_attempt,
    jobs_go_to_the_urls_that_can_be_reached,
    a_request_that_was_read_costs_an_attempt,
);

/// The lines of its log that say that a kind or a URL can't be reached, and that it can again.
const LOST: &str = "can't run jobs of this kind";
const BACK: &str = "can run jobs of this kind again";

fn times(worker: &Worker, text: &str) -> usize {
    worker.said().lines().filter(|line| line.contains(text)).count()
}

/// Sends so many jobs that have one attempt.
fn send(sandbox: &Sandbox, kind: &str, jobs: usize) {
    let lines: String = (0..jobs).map(|n| n.to_string() + "\n").collect();
    sandbox.run_with(&["send", kind, "--lines", "--max-attempts", "1"], lines.as_bytes()).success();
}

fn until_all_are_gone(sandbox: &Sandbox) {
    until("all jobs to be over", || sandbox.list(&["--state", "waiting,running,timer"]).is_empty());
    assert_eq!(sandbox.list(&[]), Vec::<Value>::new());
}

/// The kinds that the only node leaves alone, with the reasons.
fn left_alone(sandbox: &Sandbox) -> Value {
    let nodes: Value =
        serde_json::from_str(&sandbox.run(&["nodes", "list", "--output", "json"]).success().stdout).unwrap();
    nodes[0]["left_alone"].clone()
}

fn stop(worker: &mut Worker) {
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}

fn a_server_that_is_down_costs_no_attempt(sandbox: &Sandbox) {
    let address = free_address();
    sandbox.configure(&format!(
        "[handlers.t]\nurl = \"http://u:hunter2@{address}/x?token=hunter2\"\nretry = \"fixed(10ms)\"\n"
    ));
    send(sandbox, "t", 20);
    let mut worker = sandbox.worker(&[]);
    until("the node to leave the kind alone", || left_alone(sandbox)["t"].is_string());
    until("the jobs to be given back", || {
        let jobs = sandbox.list(&["--state", "waiting"]);
        jobs.len() == 20 && jobs.iter().all(|job| job["attempt"] == 0)
    });

    let reason = left_alone(sandbox)["t"].as_str().unwrap().to_owned();
    let begin = format!("http://{address} can't be reached since 20");
    assert!(reason.starts_with(&begin) && reason.contains("refused"), "{reason}");
    let id = sandbox.list(&[])[0]["id"].as_str().unwrap().to_owned();
    let (checked, begin) = (doctor(sandbox), begin.as_str());
    let (state, text) = found(&checked, "kinds left alone").remove(0);
    assert!(state == "warn" && text.contains(begin) && text.contains("refused"), "{text}");
    assert!(advice(&checked, "kinds left alone").contains("tries again by itself"));
    for args in [&["nodes", "list"][..], &["status"], &["why"], &["why", &id]] {
        let told = sandbox.run(args).success().prints(begin).prints("refused");
        assert!(!told.stdout.contains("hunter2") && !checked.stdout.contains("hunter2"), "{told:?}");
    }

    let server = HttpServer::start_at(address, Manner::Answer(200));
    until_all_are_gone(sandbox);
    assert_eq!(server.header("jobwright-attempt"), ["1"; 20]);
    until("the node to say so", || left_alone(sandbox) == json!({}));
    assert_eq!(found(&doctor(sandbox), "kinds left alone")[0].0, "ok");
    stop(&mut worker);
    let said = worker.said();
    assert_eq!((times(&worker, LOST), times(&worker, BACK)), (1, 1), "{said}");
    assert!(!said.contains("the attempt failed") && !said.contains("hunter2"), "{said}");
}

fn jobs_go_to_the_urls_that_can_be_reached(sandbox: &Sandbox) {
    let (one, other) = (free_address(), HttpServer::start(Manner::Answer(200)));
    sandbox.configure(&format!("[handlers.t]\nurl = [\"http://{one}/a\", \"http://{}/b\"]\n", other.address));
    send(sandbox, "t", 40);
    let mut worker = sandbox.worker(&[]);
    until_all_are_gone(sandbox);
    assert_eq!(other.requests(), 40);

    let one = HttpServer::start_at(one, Manner::Answer(200));
    until("the worker to say that it is back", || times(&worker, "this URL can be reached again") == 1);
    send(sandbox, "t", 40);
    until_all_are_gone(sandbox);
    let shares = (one.requests(), other.requests() - 40);
    assert_eq!(shares.0 + shares.1, 40);
    assert!(shares.0 >= 10 && shares.1 >= 10, "requests go round: {shares:?}");
    assert_eq!((times(&worker, "this URL can't be reached"), times(&worker, LOST)), (1, 0), "{}", worker.said());

    let addresses = [one.address, other.address];
    drop((one, other));
    send(sandbox, "t", 5);
    until("the node to leave the kind alone", || left_alone(sandbox)["t"].is_string());
    let reason = left_alone(sandbox)["t"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("none of its 2 URLs can be reached: "), "{reason}");
    assert!(addresses.iter().all(|address| reason.contains(&format!("http://{address} can't"))), "{reason}");
    let one = HttpServer::start_at(addresses[0], Manner::Answer(200));
    until_all_are_gone(sandbox);
    assert_eq!(one.header("jobwright-attempt"), ["1"; 5]);
    until("the worker to say so", || times(&worker, BACK) == 1);
    stop(&mut worker);
    assert_eq!(times(&worker, LOST), 1, "{}", worker.said());
}

/// What became of it is not known: it may have been done.
fn a_request_that_was_read_costs_an_attempt(sandbox: &Sandbox) {
    let server = HttpServer::start(Manner::Hang);
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{}/\"\nretry = \"fixed(10ms)\"\n", server.address));
    let id = sandbox.send(&["t", "--max-attempts", "2"]);
    let mut worker = sandbox.worker(&[]);
    until("a dead letter", || sandbox.list(&["--state", "dead"]).len() == 1);
    let job = sandbox.show(&id);
    assert_eq!((&job["attempt"], server.requests()), (&json!(2), 2), "{job}");
    assert!(job["last_error"].as_str().unwrap().contains("lost after the request was sent"), "{job}");
    stop(&mut worker);
    assert_eq!(times(&worker, LOST), 0, "{}", worker.said());
}

/// A listener whose queue is full: it answers no attempt to connect.
fn full_listener() -> (tokio::net::TcpListener, Vec<TcpStream>, SocketAddr, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = free_address();
    let listener = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(address).unwrap();
        socket.listen(1).unwrap()
    });
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
        assert!(queued.len() < 10, "its queue takes all");
    }
    (listener, queued, address, runtime)
}

#[test]
fn nothing_that_happens_before_the_request_costs_an_attempt() {
    let sandbox = Sandbox::sqlite();
    let (_listener, _queued, full, _runtime) = full_listener();
    let closes = HttpServer::start(Manner::Close);
    sandbox.configure(&format!(
        r#"
        [handlers]
        unanswered = {{ url = "http://{full}/", timeout = "2s" }}
        unknown = {{ url = "http://no-such-host.invalid/", timeout = "20s" }}
        no-tls = {{ url = "https://{}/" }}
        "#,
        closes.address
    ));
    let kinds = ["unanswered", "unknown", "no-tls"];
    let ids = kinds.map(|kind| sandbox.send(&[kind, "--max-attempts", "1"]));
    let mut worker = sandbox.worker(&[]);
    until("the node to leave them alone", || kinds.iter().all(|kind| left_alone(&sandbox)[*kind].is_string()));
    assert!(left_alone(&sandbox)["unanswered"].as_str().unwrap().contains("no connection in time"));
    until("the jobs to be given back", || {
        ids.iter().all(|id| {
            let job = sandbox.show(id);
            job["state"] == "waiting" && job["attempt"] == 0
        })
    });
    stop(&mut worker);
    assert_eq!(times(&worker, LOST), 3, "{}", worker.said());
}

/// As many as can be in use at the same time: without that, some are closed after each round of requests.
#[test]
fn a_connection_for_each_slot_is_kept() {
    let sandbox = Sandbox::sqlite();
    let server = HttpServer::start(Manner::Answer(200));
    sandbox.configure(&format!(
        "[queues.default]\nconcurrency = 12\n[handlers.t]\nurl = \"http://{}/\"\n",
        server.address
    ));
    send(&sandbox, "t", 700);
    sandbox.run(&["worker", "--drain"]).success();
    println!("{} requests over {} connections", server.requests(), server.connections());
    assert_eq!(server.requests(), 700);
    assert!(server.connections() <= 12, "{} connections for 12 slots", server.connections());
}

/// Servers close idle connections. The next request must not find that out.
#[test]
fn a_kept_connection_that_the_server_has_closed_costs_no_attempt() {
    let sandbox = Sandbox::sqlite();
    let server = HttpServer::start(Manner::Answer(200));
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{}/\"\n", server.address));
    let mut worker = sandbox.worker(&[]);
    for round in 1..=3 {
        send(&sandbox, "t", 1);
        until_all_are_gone(&sandbox);
        assert_eq!((server.requests(), server.connections()), (round, round));
        server.close_connections();
    }
    stop(&mut worker);
    assert_eq!(times(&worker, LOST), 0, "{}", worker.said());
}

/// The thread of a request may still wait for a connection when its job is over, or runs elsewhere.
#[test]
fn a_request_that_was_given_up_is_not_sent_later() {
    let sandbox = Sandbox::sqlite();
    let (listener, queued, full, _runtime) = full_listener();
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{full}/\"\n"));
    let id = sandbox.send(&["t"]);
    let mut worker = Worker::start_in(sandbox.command(&["worker"]).env("JOBWRIGHT_EXECUTOR_CANCEL_GRACE", "0s"));
    until("the job to run", || sandbox.list(&["--state", "running"]).len() == 1);
    sandbox.run(&["jobs", "cancel", &id]).success();
    until("the handler to be dropped", || times(&worker, "the job was cancelled while it ran") == 1);

    // Now there is room.
    let listener = listener.into_std().unwrap();
    let mine: Vec<_> = queued.iter().map(|stream| stream.local_addr().unwrap()).collect();
    let mut theirs = None;
    until("the connection of the request", || {
        theirs = listener.accept().ok().filter(|(_, peer)| !mine.contains(peer));
        theirs.is_some()
    });
    let (mut stream, _) = theirs.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
    stop(&mut worker);
}

/// Passes connections on, or refuses to.
fn proxy(refuses: bool) -> SocketAddr {
    let listener = TcpListener::bind(free_address()).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |mut client: TcpStream| {
        let mut reader = BufReader::new(client.try_clone()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head)?;
        }
        if refuses {
            return client.write_all(b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n");
        }
        let mut server = TcpStream::connect(head.split(' ').nth(1).unwrap())?;
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        std::io::copy(&mut server, &mut client).map(drop)
    };
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // What fails here fails in the worker too.
            std::thread::spawn(move || serve(client?));
        }
    });
    address
}

/// What is said to a proxy is not a part of the request.
#[test]
fn a_proxy_that_refuses_costs_no_attempt() {
    let sandbox = Sandbox::sqlite();
    let server = HttpServer::start(Manner::Answer(200));
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{}/\"\n", server.address));
    let id = sandbox.send(&["t", "--max-attempts", "1"]);
    let work = |proxy: SocketAddr| {
        Worker::start_in(sandbox.command(&["worker"]).env("HTTP_PROXY", format!("http://u:hunter2@{proxy}")))
    };
    let mut worker = work(proxy(true));
    until("the node to leave the kind alone", || left_alone(&sandbox)["t"].is_string());
    let reason = left_alone(&sandbox)["t"].as_str().unwrap().to_owned();
    assert!(reason.contains("through the proxy") && reason.contains("503") && !reason.contains("hunter2"), "{reason}");
    stop(&mut worker);
    let job = sandbox.show(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("waiting"), &json!(0)), "{job}");

    let mut worker = work(proxy(false));
    until_all_are_gone(&sandbox);
    assert_eq!(server.header("jobwright-attempt"), ["1"]);
    stop(&mut worker);
}

/// Draining ends although the server stays away, and says what is left and why.
#[test]
fn draining_says_that_the_server_is_away() {
    let sandbox = Sandbox::sqlite();
    let address = free_address();
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://{address}/\"\n"));
    send(&sandbox, "t", 3);
    let done = sandbox.run(&["worker", "--drain"]);
    assert_ne!(done.code, Some(0), "{done:?}");
    done.says("3 left").says(&format!("http://{address} can't be reached since 20"));
    // Nothing else has taken the address meanwhile.
    drop(TcpListener::bind(address).unwrap());
}
