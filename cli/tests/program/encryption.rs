//! Payloads that are encrypted at rest: `[seal]`.

use crate::common::{Done, Sandbox};

const SECRET: &str = "4111-1111-1111-1111";
const KEYS: &str = r#"
    [seal_keys.2026-11]
    secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    [seal_keys.2026-12]
    file = "next.key"
"#;
const HANDLERS: &str = r#"
    [handlers.pay]
    command = ["sh", "-c", "cat; env"]
    [handlers.fail]
    command = ["sh", "-c", "cat >&2; exit 1"]
"#;

/// Returns all content of the embedded database's files, including its log.
fn stored(sandbox: &Sandbox) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(sandbox.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            text += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
        }
    }
    text
}

#[test]
fn sealed_jobs_are_read_only_with_their_keys() {
    let sandbox = Sandbox::sqlite();
    std::fs::write(sandbox.file("next.key"), "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    sandbox.configure(&format!("[seal]\nkey = \"2026-11\"\ncompress = true\n{KEYS}{HANDLERS}"));
    let payload = format!("{{\"card\":\"{SECRET}\"}}");
    sandbox.run(&["send", "pay", &payload]).success();
    let failing = sandbox.send(&["fail", &payload, "--max-attempts", "1"]);
    assert!(!stored(&sandbox).contains(SECRET));
    let shown = sandbox.show(&failing);
    assert_eq!(shown["payload"]["json"]["card"], SECRET, "{shown}");

    // The key is changed while jobs wait.
    sandbox.configure(&format!("[seal]\nkey = \"2026-12\"\n{KEYS}{HANDLERS}"));
    let mut worker = sandbox.command(&["worker", "--drain"]);
    worker.env("JOBWRIGHT_SEAL_KEYS_2026_11_SECRET", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let stdout = Done::from(worker.output().unwrap()).success().stdout;
    assert!(stdout.contains(SECRET), "its program sees it in plain: {stdout}");
    assert!(!stdout.contains("SEAL_KEYS"), "and no key: {stdout}");
    let dead = sandbox.list(&["--state", "dead"]);
    assert!(dead[0]["last_error"].as_str().unwrap().contains(SECRET), "{dead:?}");
    assert!(!stored(&sandbox).contains(SECRET), "nor is it in what went wrong");

    // Without a key one sees that there is content, but not which.
    sandbox.configure("");
    let shown = sandbox.show(&failing);
    assert_eq!(shown["payload"]["content_type"], "application/jose", "{shown}");
    assert!(!shown.to_string().contains(SECRET), "{shown}");
}

#[test]
fn unusable_keys_are_reported_and_never_shown() {
    let sandbox = Sandbox::sqlite();
    for (text, says) in [
        (KEYS.to_owned(), "`[seal]` has no `key`"),
        (
            format!("[seal]\nkey = \"other\"\n{}", &KEYS[..KEYS.find("[seal_keys.2026-12]").unwrap()]),
            "there are 2026-11",
        ),
        (format!("[seal]\nkey = \"2026-11\"\n{KEYS}"), "`[seal_keys.2026-12]` names a file that can't be read"),
        ("[seal]\nkey = \"a\"\n[seal_keys.a]\nsecret = \"c2VjcmV0\"".to_owned(), "base64 of 32 bytes"),
        ("[seal]\nkey = \"a\"\n[seal_keys.a]".to_owned(), "neither `secret` nor `file`"),
    ] {
        sandbox.configure(&text);
        let refused = sandbox.run(&["status"]).code(2);
        let refused = refused.says(says);
        assert!(!refused.stderr.contains("c2Vj") && !refused.stderr.contains("AAEC"), "{refused:?}");
    }
}

/// Opening a pipe blocks until another process writes.
#[test]
fn a_key_file_that_keeps_one_waiting_is_refused() {
    let sandbox = Sandbox::sqlite();
    let pipe = sandbox.file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // With this, it would get a key and accept it.
    std::thread::spawn(move || std::fs::write(pipe, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    sandbox.configure("[seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"pipe\"\n");
    sandbox.run(&["status"]).code(2).says("no ordinary file");
}

#[test]
fn a_program_that_sends_needs_its_keys_in_files() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let program = concat!("program=", env!("CARGO_BIN_EXE_jobwright"));
    let sends =
        "[handlers.sends]\ncommand = [\"sh\", \"-c\", \"$JOBWRIGHT_HEADER_PROGRAM send child\"]\npass_urls = true\n";
    let sandbox = Sandbox::sqlite();
    sandbox.configure(sends);
    std::fs::write(sandbox.file("a.key"), key).unwrap();
    let run = |variable: &str, value: &str| {
        let with_key = |args: &[&str]| {
            let mut command = sandbox.command(args);
            command.env("JOBWRIGHT_SEAL_KEY", "a").env("JOBWRIGHT_SEAL_PLAIN_ERRORS", "true").env(variable, value);
            Done::from(command.output().unwrap()).success();
        };
        with_key(&["send", "sends", "--header", program, "--max-attempts", "1"]);
        with_key(&["worker", "--drain"]);
    };
    run("JOBWRIGHT_SEAL_KEYS_A_SECRET", key);
    let dead = sandbox.list(&["--state", "dead"]);
    assert_eq!((dead.len(), sandbox.list(&["--kind", "child"]).len()), (1, 0), "{dead:?}");
    assert!(dead[0].to_string().contains("its worker keeps keys to itself"), "{dead:?}");
    run("JOBWRIGHT_SEAL_KEYS_A_FILE", "a.key");
    assert_eq!((sandbox.list(&["--state", "dead"]).len(), sandbox.list(&["--kind", "child"]).len()), (1, 1));
}
