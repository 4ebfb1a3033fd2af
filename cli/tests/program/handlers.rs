//! Handlers of a worker: programs and URLs.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Sandbox, on_both_stores, until};
use serde_json::json;

on_both_stores!(
    programs_say_how_it_ended,
    programs_get_the_job,
    a_trace_goes_on_through_programs_and_urls,
    a_timeout_kills_all_that_was_started,
    output_comes_in_one_piece,
    urls_say_how_it_ended,
    a_server_that_asks_for_no_delay_burns_no_attempts,
    a_reply_of_any_type_reaches_its_queue,
);

/// Runs a worker until no job waits, runs or is a timer.
fn work(sandbox: &Sandbox) {
    let mut worker = sandbox.worker(&[]);
    until("all jobs to be over", || sandbox.list(&["--state", "waiting,running,timer"]).is_empty());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}

fn programs_say_how_it_ended(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers]
        ok = { command = ["true"] }
        later = { command = ["sh", "-c", "test -e asked || { touch asked; exit 75; }; test $JOBWRIGHT_ATTEMPT = 1"], later = "10ms" }
        never = { command = ["sh", "-c", "echo first >&2; echo the reason >&2; exit 65"] }
        fails = { command = ["sh", "-c", "seq 10000 >&2; exit 3"], retry = "fixed(10ms)" }
        killed = { command = ["sh", "-c", "kill -KILL $$"] }
        unknown = { command = ["sh", "-c", "no-such-program-anywhere"] }
        floods = { command = ["sh", "-c", "yes | head -c 3000000; sleep 100"] }
        deaf = { command = ["true"] }
        "#,
    );
    let ok = sandbox.send(&["ok"]);
    let later = sandbox.send(&["later", "--max-attempts", "1"]);
    let never = sandbox.send(&["never"]);
    let fails = sandbox.send(&["fails", "--max-attempts", "2"]);
    let once = |kind: &str| sandbox.send(&[kind, "--max-attempts", "1"]);
    let (killed, floods, unknown) = (once("killed"), once("floods"), once("unknown"));
    // More than a pipe holds, for a program that does not read.
    let big = json!("x".repeat(500_000)).to_string();
    let deaf = sandbox.run_with(&["send", "deaf", "-"], big.as_bytes()).success().stdout;
    work(sandbox);

    sandbox.gone(&ok);
    sandbox.gone(&later);
    sandbox.gone(deaf.trim());
    let died = |id: &str, text: &str, attempts: u64| {
        let job = sandbox.show(id);
        assert_eq!((&job["state"], &job["attempt"]), (&json!("dead"), &json!(attempts)), "{job}");
        let error = job["last_error"].as_str().unwrap().to_owned();
        assert!(error.contains(text), "{error:?} does not say {text:?}");
        job["errors"].as_array().unwrap().last().unwrap()["detail"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(died(&never, "exit code 65): the reason", 1), "first\nthe reason\n");
    let detail = died(&fails, "exit code 3: 10000", 2);
    assert!(detail.ends_with("9999\n10000\n") && detail.len() <= 4096, "{detail}");
    died(&killed, "killed by signal 9 (SIGKILL)", 1);
    // What a shell can't find is what the job asked for.
    died(&unknown, "exit code 127", 1);
    died(&floods, "more than 1048576 bytes", 1);
}

fn programs_get_the_job(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers.show]
        command = ["sh", "-c", "env | grep ^JOBWRIGHT_ | sort; cat"]
        [handlers.nested]
        command = ["sh", "-c", "$JOBWRIGHT_HEADER_PROGRAM send nested-child"]
        pass_urls = true
        "#,
    );
    let id =
        sandbox.send(&["show", "{\"a\":1}", "--priority", "7", "--header", "Tenant-Id=a b", "--max-attempts", "4"]);
    // A handler may call this same program: the variables about its job must not count as configuration.
    sandbox.send(&["nested", "--header", concat!("program=", env!("CARGO_BIN_EXE_jobwright"))]);
    let stdout = sandbox.run(&["worker", "--drain"]).success().stdout;
    for line in [
        &format!("JOBWRIGHT_JOB_ID={id}"),
        "JOBWRIGHT_KIND=show",
        "JOBWRIGHT_QUEUE=default",
        "JOBWRIGHT_ATTEMPT=1",
        "JOBWRIGHT_MAX_ATTEMPTS=4",
        "JOBWRIGHT_PRIORITY=7",
        "JOBWRIGHT_CONTENT_TYPE=application/json",
        "JOBWRIGHT_HEADER_TENANT_ID=a b",
    ] {
        assert!(stdout.lines().any(|found| found == line), "{stdout} has no {line}");
    }
    assert!(stdout.contains("JOBWRIGHT_CREATED_AT=20"), "{stdout}");
    assert!(stdout.replace(' ', "").contains("{\"a\":1}"), "{stdout}");
    assert_eq!(sandbox.list(&["--kind", "nested-child"]).len(), 1);
}

/// The trace goes from `send` to a program, and on to the jobs it sends and to a URL.
fn a_trace_goes_on_through_programs_and_urls(sandbox: &Sandbox) {
    let (port, requests) = serve();
    sandbox.configure(&format!(
        r#"
        [handlers.nested]
        command = ["sh", "-c", "echo $JOBWRIGHT_TRACEPARENT $JOBWRIGHT_TRACESTATE; $JOBWRIGHT_HEADER_PROGRAM send hook"]
        pass_urls = true
        [handlers.hook]
        url = "http://127.0.0.1:{port}/200"
        "#
    ));
    let program = concat!("program=", env!("CARGO_BIN_EXE_jobwright"));
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parent = format!("traceparent={trace}");
    sandbox.send(&["nested", "--header", program, "--header", &parent, "--header", "tracestate=vendor=1"]);
    let stdout = sandbox.run(&["worker", "--drain"]).success().stdout;
    let told = stdout.lines().find(|line| line.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-")).expect(&stdout);
    assert!(told.ends_with(" vendor=1") && !told.contains("00f067aa0ba902b7"), "a step of its own: {told}");
    let requests = requests.lock().unwrap();
    let (_, headers, _) = &requests[0];
    assert!(headers["traceparent"].starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{headers:?}");
    assert!(!told.contains(&headers["traceparent"]) && headers["traceparent"] != trace, "{headers:?}");
    assert_eq!(headers["tracestate"], "vendor=1");
}

fn a_timeout_kills_all_that_was_started(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [handlers.slow]
        command = ["sh", "-c", "sleep 300 & echo $! > grandchild; wait"]
        timeout = "300ms"
        "#,
    );
    let id = sandbox.send(&["slow", "--max-attempts", "1"]);
    work(sandbox);
    assert_eq!(sandbox.show(&id)["state"], "dead");
    assert!(sandbox.show(&id)["last_error"].as_str().unwrap().contains("300ms"));
    let pid = std::fs::read_to_string(sandbox.file("grandchild")).unwrap();
    until("the end of the grandchild", || {
        // A zombie counts as dead: the process that reaps orphans here may take its time.
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z"))
    });
}

fn output_comes_in_one_piece(sandbox: &Sandbox) {
    sandbox.configure(
        r#"
        [queues.default]
        concurrency = 8
        [handlers.lines]
        command = ["sh", "-c", "n=$(cat); for i in 1 2 3 4 5; do echo $n $i; done"]
        "#,
    );
    let numbers = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    sandbox.run_with(&["send", "--lines", "lines"], numbers.as_bytes()).success();
    let stdout = sandbox.run(&["worker", "--drain"]).success().stdout;
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 200);
    for job in lines.chunks(5) {
        let number = job[0].split(' ').next().unwrap();
        let expected: Vec<String> = (1..=5).map(|i| format!("{number} {i}")).collect();
        assert_eq!(job, expected);
    }
}

/// Requests that a server got: path, headers in lower case, and body.
type Requests = Arc<Mutex<Vec<(String, HashMap<String, String>, Vec<u8>)>>>;

/// A tiny HTTP server: `/503` answers 503 the first time and 200 after that.
fn serve() -> (u16, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests: Requests = Arc::default();
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut headers = HashMap::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                    headers.insert(name.to_ascii_lowercase(), value.to_owned());
                }
                let length = headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let before = {
                    let mut seen = seen.lock().unwrap();
                    seen.push((path.clone(), headers, body));
                    seen.iter().filter(|(other, ..)| *other == path).count() - 1
                };
                let status = path.trim_start_matches('/').split('-').next().unwrap_or_default().to_owned();
                let status =
                    if (status.starts_with('5') || ["408", "425", "429"].contains(&status.as_str())) && before > 0 {
                        "200".to_owned()
                    } else {
                        status
                    };
                let long = format!("Content-Type: text/{}\r\n", "x".repeat(300));
                let extra = match path.as_str() {
                    "/503-zero" => "Retry-After: 0\r\n",
                    "/200-no-name" => "Content-Type:\r\n",
                    "/200-long-name" => &long,
                    "/200-odd-name" => "Content-Type: text/\u{fc}\r\n",
                    "/200-nul" => "Content-Type: application/json\r\n",
                    "/200-gzip" => "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n",
                    "/200-html" => "Content-Type: text/html\r\n",
                    "/503-soon" => "Retry-After: 1\r\n",
                    "/503-later" => "Retry-After: 3600\r\n",
                    "/503-date" => "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                    "/302" => "Location: /200\r\n",
                    _ => "",
                };
                if path == "/200-slow" {
                    std::thread::sleep(Duration::from_secs(5));
                }
                let text = match path.as_str() {
                    "/200-nul" => r#"{"a":"\u0000"}"#.to_owned(),
                    _ => format!("the answer is {status}"),
                };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
                    text.len()
                );
            });
        }
    });
    (port, requests)
}

fn urls_say_how_it_ended(sandbox: &Sandbox) {
    let (port, requests) = serve();
    let handler = |path: &str| {
        format!(
            "[handlers.\"{path}\"]\nurl = \"http://127.0.0.1:{port}/{path}\"\ntimeout = \"2s\"\nretry = \"fixed(10ms)\"\n"
        )
    };
    let paths =
        ["408", "425", "429", "200", "204", "404", "302", "503-soon", "503-date", "503-later", "500", "200-slow"];
    sandbox.configure(&paths.map(handler).concat());
    let done: Vec<String> = ["200", "204", "503-soon", "503-date", "500", "408", "425", "429"]
        .iter()
        .map(|kind| sandbox.send(&[kind, "{\"a\":1}"]))
        .collect();
    let bytes = sandbox.send(&["200", "hello", "--content-type", "text/plain", "--queue", "default"]);
    let not_found = sandbox.send(&["404"]);
    let moved = sandbox.send(&["302"]);
    let slow = sandbox.send(&["200-slow", "--max-attempts", "1"]);
    work(sandbox);

    for id in done.iter().chain([&bytes]) {
        sandbox.gone(id);
    }
    let later = sandbox.send(&["503-later"]);
    sandbox.run(&["worker", "--drain"]).success();
    let later = sandbox.show(&later);
    let due: jiff::Timestamp = later["due_at"].as_str().unwrap().parse().unwrap();
    let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((3000..=3600).contains(&wait), "Retry-After was not honoured: {later}");
    for (id, text) in [(&not_found, "404"), (&moved, "redirects are not followed"), (&slow, "")] {
        let job = sandbox.show(id);
        assert_eq!((&job["state"], &job["attempt"]), (&json!("dead"), &json!(1)), "{job}");
        assert!(job["last_error"].as_str().unwrap().contains(text), "{job}");
    }
    assert_eq!(sandbox.show(&not_found)["errors"][0]["detail"], "the answer is 404");
    let requests = requests.lock().unwrap();
    let to = |path: &str| requests.iter().filter(|(asked, ..)| asked == path).collect::<Vec<_>>();
    assert_eq!(to("/503-soon").len(), 2);
    assert_eq!(to("/503-date").len(), 2);
    for path in ["/500", "/408", "/425", "/429"] {
        assert_eq!(to(path).len(), 2, "{path} is tried again");
    }
    let (_, headers, body) = to("/500")[1];
    assert_eq!(headers["jobwright-job-id"], done[4]);
    assert_eq!((headers["jobwright-kind"].as_str(), headers["jobwright-queue"].as_str()), ("500", "default"));
    assert_eq!((headers["jobwright-attempt"].as_str(), headers["content-type"].as_str()), ("2", "application/json"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(body).unwrap(), json!({ "a": 1 }));
    assert!(to("/200").iter().any(|(_, headers, body)| headers["content-type"] == "text/plain" && body == b"hello"));
}

/// Popular gateways do so, and would have their callers use up all attempts within a moment.
fn a_server_that_asks_for_no_delay_burns_no_attempts(sandbox: &Sandbox) {
    let (port, _) = serve();
    sandbox.configure(&format!("[handlers.t]\nurl = \"http://127.0.0.1:{port}/503-zero\"\nretry = \"fixed(1h)\"\n"));
    let id = sandbox.send(&["t"]);
    sandbox.run(&["worker", "--drain"]).success();
    let job = sandbox.show(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&json!("timer"), &json!(1)), "{job}");
    let due: jiff::Timestamp = job["due_at"].as_str().unwrap().parse().unwrap();
    let wait = due.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((3000..=3600).contains(&wait), "{job}");
}

/// The other side did the work. What it says of its answer must not make the job a dead letter.
fn a_reply_of_any_type_reaches_its_queue(sandbox: &Sandbox) {
    let (port, _) = serve();
    let answers = [
        ("200-no-name", "application/octet-stream"),
        ("200-long-name", "application/octet-stream"),
        ("200-odd-name", "application/octet-stream"),
        ("200-nul", "application/octet-stream"),
        ("200-gzip", "application/octet-stream"),
        ("200-html", "text/html"),
        ("200", "text/plain"),
    ];
    let handler =
        |(path, _): (&str, &str)| format!("{path} = {{ url = \"http://127.0.0.1:{port}/{path}\", reply = true }}\n");
    sandbox.configure(&format!("[handlers]\n{}", answers.map(handler).concat()));
    let mut known = Vec::new();
    for (path, content_type) in answers {
        let id = sandbox.send(&[path, "--reply-to", "someone", "--correlation-id", path]);
        sandbox.run(&["worker", "--drain"]).success();
        sandbox.gone(&id);
        let mut replies = sandbox.list(&["--queue", "jobwright.reply"]);
        replies.retain(|reply| !known.contains(&reply["id"]));
        assert_eq!(replies.len(), 1, "{path}: {replies:?}");
        let reply = sandbox.show(replies[0]["id"].as_str().unwrap());
        assert_eq!(reply["payload"]["content_type"], content_type, "{path}: {reply}");
        known.push(replies[0]["id"].clone());
    }
}
