//! Several servers behind one URL.

use crate::common::Sandbox;
use crate::private_pg::PrivatePg;
use serde_json::Value;

/// An old primary that came back, or a wrong URL: both servers accept writes.
#[test]
fn the_doctor_finds_two_servers_that_take_writes_behind_one_url() {
    if Sandbox::postgres().is_none() {
        return;
    }
    let (sandbox, one) = (Sandbox::sqlite(), PrivatePg::start());
    let check = |url: &str| {
        let done = sandbox.run(&["--database-url", url, "doctor", "--output", "json"]);
        let all: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
        let find = |check: &str| all.iter().find(|finding| finding["check"] == check).cloned();
        (find("database servers").unwrap_or_else(|| panic!("{done:?}")), find("nodes"))
    };
    sandbox.run(&["--database-url", &one.url(), "migrate"]).success();
    let both = |other: &PrivatePg| format!("postgres://postgres@{},{}/postgres", one.address(), other.address());

    let standby = PrivatePg::standby_of(&one);
    assert_eq!(check(&both(&standby)).0["state"], "ok");
    // The same server under two names is one.
    assert_eq!(check(&both(&one)).0["state"], "ok");

    standby.promote();
    let (found, _) = check(&both(&standby));
    assert_eq!(found["state"], "fail", "{found}");
    let text = found["found"].as_str().unwrap();
    assert!(text.contains(&one.address()) && text.contains(&standby.address()), "{found}");

    let other = PrivatePg::start();
    assert_eq!(check(&both(&other)).0["state"], "fail");

    // A user of the wrong server must not be told to start a worker.
    sandbox.run(&["--database-url", &one.url(), "send", "note", "1"]).success();
    let nodes = check(&one.url()).1.unwrap();
    assert!(nodes["do"].as_str().unwrap().contains("another server"), "{nodes}");
}
