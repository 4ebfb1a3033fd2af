//! Real input, real programs, real crashes: the checksums of many files, while the worker is killed twice.

use std::process::Command;

use crate::common::{Sandbox, on_both_stores, until};

const FILES: usize = 400;

on_both_stores!(faults_two_kills_change_nothing);

/// Handlers run at least once, so each writes a separate file, named by the job: a second run replaces it with the same content.
fn faults_two_kills_change_nothing(sandbox: &Sandbox) {
    let directory = sandbox.file("in");
    let out = sandbox.file("out");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    for n in 0..FILES {
        let name = if n % 3 == 0 { format!("a file with spaces {n}") } else { format!("ö'\"${n}") };
        std::fs::write(directory.join(name), "x".repeat(n)).unwrap();
    }
    sandbox.configure(
        r#"
        [handlers.checksum]
        command = ["sh", "-c", """
            t=out/$JOBWRIGHT_JOB_ID.$JOBWRIGHT_ATTEMPT.tmp
            sha256sum "$(cat)" > $t && mv $t out/$JOBWRIGHT_JOB_ID
        """]
        "#,
    );

    let found = Command::new("find").args(["in", "-type", "f"]).current_dir(sandbox.path()).output().unwrap().stdout;
    let sent = sandbox.run_with(&["send", "--lines", "checksum"], &found).success();
    assert!(sent.stderr.contains(&format!("sent {FILES} jobs in ")), "{sent:?}");

    let finished = || {
        let names = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_none()).collect::<Vec<_>>()
    };
    for enough in [FILES / 5, FILES / 2] {
        let worker = sandbox.worker(&["--drain"]);
        until("some of the files", || finished().len() >= enough);
        worker.kill_9();
    }
    assert!(finished().len() < FILES, "the kills came too late to mean anything");
    sandbox.run(&["worker", "--drain"]).success();
    assert!(sandbox.list(&[]).is_empty(), "nothing is left");

    let mut indirect: Vec<String> = finished().iter().flat_map(|path| lines(std::fs::read(path).unwrap())).collect();
    let names = String::from_utf8(found).unwrap();
    let direct = Command::new("sha256sum").args(names.lines()).current_dir(sandbox.path()).output().unwrap();
    assert!(direct.status.success());
    let mut direct = lines(direct.stdout);
    indirect.sort_unstable();
    direct.sort_unstable();
    assert_eq!(direct.len(), FILES);
    assert!(indirect == direct, "{} lines instead of {}", indirect.len(), direct.len());
}

fn lines(bytes: Vec<u8>) -> Vec<String> {
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}
