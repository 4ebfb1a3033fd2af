//! Texts that people and programs write.

use jiff::Timestamp;
use jobwright::internal::parse_duration;
use jobwright::{Schedule, Secret};

/// Checks a cron line, an interval or an ISO 8601 repetition, with the time zone behind a `|`.
pub(crate) fn schedule(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (text, zone) = text.split_once('|').unwrap_or((text, "UTC"));
    let Ok(schedule) = Schedule::in_zone(text, zone) else { return };
    let again = Schedule::in_zone(schedule.text(), schedule.zone()).expect("what was read is read again");
    assert_eq!(again, schedule);
    let mut at = Timestamp::UNIX_EPOCH;
    for _ in 0..4 {
        let Some(next) = schedule.next_after(at) else { return };
        assert!(next > at, "{next} is not after {at}");
        at = next;
    }
}

pub(crate) fn schedule_seeds() -> Vec<Vec<u8>> {
    seeds(&[
        "30 9 * * MON-FRI",
        "0 30 2 29 2 *|Europe/Berlin",
        "*/5 0-23/2 1,15,L * ?",
        "@daily",
        "@every 5m",
        "30s",
        "PT5M",
        "P1Y2M3W4DT5H6M7.5S",
        "R5/PT10S",
        "R3/2026-01-01T00:00:00Z/P1D",
        "R/2026-10-25T02:30:00+02:00/PT1H|America/New_York",
        "0 0 30 2 *",
    ])
}

pub(crate) fn duration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(why) = parse_duration(text) {
        assert!(!why.is_empty() && !why.chars().any(char::is_control), "{why:?}");
    }
}

pub(crate) fn duration_seeds() -> Vec<Vec<u8>> {
    seeds(&["5s", "1h30m", "250ms", "1.5h", "PT5M", "P1DT12H", "100 years", "0", "18446744073709551615s"])
}

/// Checks text in place of a URL, with a secret in it: no message about it may contain the secret.
pub(crate) fn url(input: &[u8]) {
    const SECRET: &str = "hunter2";
    let Ok(text) = std::str::from_utf8(input) else { return };
    // The part before the last `@` is meant as the password; the same text as a host or a database may be shown.
    // The path of a file is no secret.
    let Some((credentials, place)) = text.rsplit_once('@').filter(|_| !text.trim_start().starts_with("sqlite:")) else {
        let _ = Secret::new(text).redacted();
        return;
    };
    // Of several words, one is the password; in any other the text would rightly be shown as a host or a database.
    let last = credentials.rsplit(char::is_whitespace).next().unwrap_or_default();
    if !text.contains("://") && !last.starts_with("password=") {
        return;
    }
    let secret = Secret::new(format!("{}{SECRET}@{}", credentials.replace('2', "3"), place.replace('2', "3")));
    for shown in [secret.redacted(), format!("{secret}"), format!("{secret:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

pub(crate) fn url_seeds() -> Vec<Vec<u8>> {
    seeds(&[
        "postgres://user:@localhost:5432/db?sslmode=require",
        "postgres://u:p%40@h1:1,h2:2/db?target_session_attrs=read-write",
        "postgres://user:a/b?c#d@host/db",
        "amqp://guest:@[::1]:5672/%2f?heartbeat=5",
        "amqps://user:@broker/vhost",
        "host=localhost password=@ dbname=x",
        "sqlite:jobwright.db",
        "https://user:@example.com/hook?token=x",
    ])
}

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
