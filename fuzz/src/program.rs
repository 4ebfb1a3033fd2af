//! Input from operators: files, variables, command lines.

use jobwright_cli::testing;

/// Longer than anything that may be shown because it looks like a mistyped duration.
const SECRET: &str = "hunter2hunter2hunter2hunter2hunter2hunter2hunter2";

/// Checks a configuration file, followed by a NUL and pairs of variables and values. Whatever is wrong, the error is readable and contains no value
/// that may be secret.
pub(crate) fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    // Inserts a secret where there is a URL.
    let file = file.replace("SECRET", SECRET);
    let mut variables = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        variables.push((format!("JOBWRIGHT_{name}"), value.replace("SECRET", SECRET)));
    }
    if let Err(why) = testing::settings(&file, &variables) {
        assert!(!why.is_empty());
        let named = file.lines().any(|line| line.contains(SECRET) && (line.contains('[') || !line.contains('=')));
        let key = |line: &str| line.split('=').next().is_some_and(|key| key.contains(SECRET));
        let in_a_name = named || file.lines().any(key) || variables.iter().any(|(name, _)| name.contains(SECRET));
        assert!(in_a_name || !why.contains(SECRET), "{why}");
    }
}

pub(crate) fn config_seeds() -> Vec<Vec<u8>> {
    [
        "[database]\nurl = \"postgres://u:SECRET@h/db\"\nschema = \"s\"\nmax_connections = 8\npgbouncer = true\ncall_timeout = \"30s\"",
        "[broker]\nurl = \"amqp://u:SECRET@h/%2f\"\nqueue_type = \"classic\"\nreply_to = [\"answers.*\"]\nsubmit_bytes = 1",
        "[executor]\nlease = \"30s\"\nquarantine_after = 3\n[queues.q]\nexternal = true\nlease = \"5m\"\ndepth = 7\nretry = \"fixed(30s)\"",
        "[handlers.k]\ncommand = [\"sh\", \"-c\", \"true\"]\ntimeout = \"1m\"\nstop_grace = \"5s\"\nlater = \"1m\"\n[handlers.u]\nurl = \"https://u:SECRET@h/p\"",
        "[seal]\nkey = \"a\"\n[seal_keys.a]\nsecret = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"",
        "[history]\naudit = \"SECRET\"",
        "[seal]\nkey = \"SECRET\"",
        "[seal]\nkey = \"SECRET\"\n[seal_keys.a]\nsecret = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"",
        "[seal]\nkey = \"a\"\n[seal_keys.a]\nfile = \"SECRET\"",
        "[history]\nkeep = \"all\"\naudit = \"forever\"\n[submit.rules.app]\nkinds = [\"a*\"]\nqueues = [\"q\"]\ntenants = [\"t\"]",
        "\0DATABASE_URL\0postgres://u:SECRET@h/db\0EXECUTOR_LEASE\0PT30S\0QUEUES_A_CONCURRENCY\x003",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Checks the words of a command line, one on each line: the filters of `jobs`, and the arguments of `send`.
pub(crate) fn filters(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let words: Vec<String> = std::iter::once("jobwright").chain(text.lines()).map(str::to_owned).collect();
    if let Err(why) = testing::words(&words) {
        assert!(!why.is_empty());
    }
}

pub(crate) fn filter_seeds() -> Vec<Vec<u8>> {
    [
        "jobs\nlist\n--state\ndead\n--kind\nk\n--queue\nq\n--tenant\nt\n--limit\n5\n--after\n7",
        "jobs\nretry\n--error\nx\n--sent-until\n2026-01-01T00:00:00Z\n--dry-run\n--spread\n1h",
        "jobs\nchange\n--all\n--priority\n-7\n--at\n2026-01-01T00:00:00Z\n--to-queue\nq",
        "jobs\nhistory\n01a21065-61a1-7032-a35b-98b9deb92f2d\n--outcome\ndone,dead",
        "send\nkind\n{}\n--queue\nq\n--delay\nPT5M\n--header\na=b\n--group\ng\n--ttl\n1h\n--unique\nk",
        "schedules\nput\nname\n30 9 * * *\nkind\n--zone\nEurope/Berlin\n--until\n2027-01-01T00:00:00Z\n--times\n3",
        "rules\nput\nkind\nk\n--running\n3\n--rate\n5/1s",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
