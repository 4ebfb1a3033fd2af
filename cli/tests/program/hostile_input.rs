//! The corpus of hostile messages through the command line: `jobwright send` stores each or says why not, and jobs sent behind it run.

#[allow(dead_code, reason = "shared with the tests of the library")]
#[path = "../../../tests/hostile_input/corpus.rs"]
mod corpus;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::process::Stdio;

use crate::common::{Done, Sandbox, on_both_stores};
use corpus::{Fate, Nasty, Say, corpus};

on_both_stores!(each_is_stored_or_refused_and_good_ones_behind_it_run);

/// Returns the arguments. `None`: there is no such option, or no program can be given such an argument.
fn arguments(nasty: &Nasty) -> Option<Vec<OsString>> {
    if nasty.levels > 0 {
        return None;
    }
    let mut all = vec![b"send".to_vec()];
    for (say, value) in &nasty.says {
        let option = match say {
            Say::Kind => continue,
            Say::Encoding | Say::User => return None,
            Say::Queue => "--queue",
            Say::Id => "--id",
            Say::Priority => "--priority",
            Say::Due => "--at",
            Say::Delay => "--delay",
            Say::Ttl => "--ttl",
            Say::Attempts => "--max-attempts",
            Say::Group => "--group",
            Say::Unique => "--unique",
            Say::Tenant => "--tenant",
            Say::LimitKey => "--limit-key",
            Say::ReplyTo => "--reply-to",
            Say::Correlation => "--correlation-id",
            Say::ContentType => "--content-type",
            Say::Header(name) => {
                all.push([b"--header=", name.as_bytes(), b"=", value.as_slice()].concat());
                continue;
            }
        };
        // A duration needs a unit.
        let unit: &[u8] = if *say == Say::Ttl { b"ms" } else { b"" };
        all.push([option.as_bytes(), b"=", value, unit].concat());
    }
    all.extend([b"--".to_vec(), nasty.kind().to_vec(), b"-".to_vec()]);
    let fits = all.iter().all(|text| !text.contains(&0) && text.len() < 128 * 1024);
    fits.then(|| all.into_iter().map(OsString::from_vec).collect())
}

fn send(sandbox: &Sandbox, nasty: &Nasty) -> Option<Done> {
    let mut command = sandbox.command(&[]);
    command.args(arguments(nasty)?).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may stop before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(&nasty.body);
    Some(Done::from(child.wait_with_output().unwrap()))
}

fn each_is_stored_or_refused_and_good_ones_behind_it_run(sandbox: &Sandbox) {
    // The same program for all: otherwise each entry would start a process.
    sandbox.configure("[handlers.good]\ncommand = [\"true\"]\n");
    let (mut stored, mut good, mut wrong, mut said) = (BTreeSet::new(), BTreeSet::new(), Vec::new(), 0);
    for (number, nasty) in corpus().iter().enumerate() {
        let Some(done) = send(sandbox, nasty) else { continue };
        said += 1;
        // It ends neither by a signal nor by an internal error: the input is wrong (2), or the database refuses it (1).
        let code = done.code.unwrap_or_else(|| panic!("{}: {done:?}", nasty.name));
        assert!(code <= 2, "{}: {done:?}", nasty.name);
        let plain = |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || hides(c)));
        assert!(plain(&done.stderr) && plain(&done.stdout), "{}: {done:?}", nasty.name);
        assert!(code == 0 || !done.stderr.trim().is_empty(), "{}: {done:?}", nasty.name);
        let fits = match nasty.fate {
            Fate::Stored => code == 0,
            Fate::Refused => code != 0,
            Fate::Either => true,
        };
        if !fits {
            wrong.push(format!("{}: {done:?}", nasty.name));
        }
        if code == 0 {
            assert!(stored.insert(done.stdout.trim().to_owned()), "{}: {done:?}", nasty.name);
        }
        if number.is_multiple_of(10) {
            good.insert(sandbox.send(&["good", "1"]));
        }
    }
    assert!(said > 120, "{said} of {}", corpus().len());
    assert!(wrong.is_empty(), "{wrong:#?}");

    let there: BTreeSet<String> = sandbox.list(&[]).iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(there, stored.union(&good).cloned().collect(), "what was stored is there, and nothing else");
    sandbox.run(&["worker", "--drain"]);
    let left: BTreeSet<String> = sandbox.list(&[]).iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert!(left.is_disjoint(&good), "good ones that did not run: {:?}", left.intersection(&good));
    assert!(left.is_subset(&stored));
}

/// Whether a character reverses or hides its neighbours in a terminal.
fn hides(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
