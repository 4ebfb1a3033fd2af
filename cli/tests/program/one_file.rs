//! One file is one database, however workers and commands spell its name.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{Done, Sandbox, Worker, jobwright, until, without_settings};

/// What lies in a directory, with what is in the files.
fn inventory(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap_or_default())
    };
    let mut all: Vec<_> = std::fs::read_dir(directory).unwrap().map(entry).collect();
    all.sort();
    all
}

/// Each handler outlives several leases. If a worker did not see the others' signs of life, it would start their jobs a second time, and
/// two jobs of the group would overlap.
#[test]
fn workers_that_name_a_file_differently_know_one_another() {
    let sandbox = Sandbox::without_file();
    for folder in ["real", "real/inner", "links"] {
        std::fs::create_dir(sandbox.file(folder)).unwrap();
    }
    symlink("../real/jobs.db", sandbox.file("links/file.db")).unwrap();
    symlink("../real", sandbox.file("links/folder")).unwrap();
    let absolute = sandbox.file("real/jobs.db").display().to_string();
    sandbox.run(&["--database-url", "sqlite:links/file.db", "migrate"]).success();
    let log = sandbox.file("log");
    let program = format!("echo begin >>{0}; sleep 5; echo end >>{0}", log.display());
    sandbox.configure(&format!("[handlers.slow]\ncommand = [\"sh\", \"-c\", \"{program}\"]\n"));
    let names = [
        &absolute,
        "real/jobs.db",
        "links/file.db",
        "links/folder/jobs.db",
        "./real/inner/../jobs.db",
        "links/../real/jobs.db",
    ];
    let workers: Vec<Worker> =
        names.iter().map(|name| sandbox.worker(&["--database-url", &format!("sqlite:{name}")])).collect();
    for worker in &workers {
        until("the workers", || worker.said().contains("ready"));
    }
    for _ in 0..2 {
        sandbox.run(&["--database-url", "sqlite:links/folder/jobs.db", "send", "slow", "--group", "g"]).success();
    }
    for _ in 0..names.len() {
        sandbox.run(&["--database-url", "sqlite:real/jobs.db", "send", "slow"]).success();
    }
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    until("the jobs", || lines().matches("end").count() >= names.len() + 2);
    assert_eq!(lines().matches("begin").count(), names.len() + 2, "each ran once");
    for worker in &workers {
        let said = worker.said();
        assert!(
            !said.contains("declared dead") && !said.contains("never seen") && !said.contains("dead nodes"),
            "{said}"
        );
    }
    let left = sandbox.run(&["--database-url", "sqlite:real/jobs.db", "jobs", "list", "--output", "json"]).success();
    assert_eq!(left.stdout.trim(), "[]");
    let beside: Vec<_> = inventory(&sandbox.file("links")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(beside, ["file.db", "folder"]);
}

/// Runs a command with a file or directory mounted over another. `None`: this user may not mount.
fn with_mount(sandbox: &Sandbox, from: &str, to: &str, args: &[&str]) -> Option<Done> {
    let script = "mount --bind \"$1\" \"$2\" || exit 99; shift 2; exec \"$@\"";
    let mut command = without_settings(Command::new("unshare"));
    let user: &[&str] = if nix_is_root() { &[] } else { &["--map-root-user"] };
    command
        .args(user)
        .args(["--mount", "sh", "-c", script, "sh", from, to, env!("CARGO_BIN_EXE_jobwright")])
        .args(args);
    let done = Done::from(command.current_dir(sandbox.path()).output().ok()?);
    if done.code == Some(99) || done.stderr.starts_with("unshare:") {
        eprintln!("skipped, because this user may not mount: {}", done.stderr);
        return None;
    }
    Some(done)
}

fn nix_is_root() -> bool {
    String::from_utf8_lossy(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0"
}

#[test]
fn a_file_that_is_mounted_alone_is_refused_and_a_mounted_directory_is_not() {
    let sandbox = Sandbox::without_file();
    for folder in ["real", "file", "folder"] {
        std::fs::create_dir(sandbox.file(folder)).unwrap();
    }
    std::fs::write(sandbox.file("file/my jobs.db"), "").unwrap();
    let real = ["--database-url", "sqlite:real/jobs.db"];
    sandbox.run(&[&real[..], &["migrate"]].concat()).success();
    for command in ["migrate", "status", "doctor"] {
        let args = ["--database-url", "sqlite:file/my jobs.db", command];
        let Some(done) = with_mount(&sandbox, "real/jobs.db", "file/my jobs.db", &args) else { return };
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains("is mounted on its own") && said.contains("mount the directory"), "{said}");
        assert_ne!(done.code, Some(0), "{said}");
    }
    assert_eq!(inventory(&sandbox.file("file")), [("my jobs.db".to_owned(), Vec::new())]);
    let args = ["--database-url", "sqlite:folder/jobs.db", "send", "x"];
    with_mount(&sandbox, "real", "folder", &args).unwrap().success();
    let listed = sandbox.run(&[&real[..], &["jobs", "list", "--output", "json"]].concat()).success();
    assert!(listed.stdout.contains("\"x\""), "{}", listed.stdout);
}

/// A file with several hard links would get a log for each name.
#[test]
fn a_file_with_hard_links_is_refused_with_a_remedy() {
    let sandbox = Sandbox::sqlite();
    std::fs::hard_link(sandbox.file("jobs.db"), sandbox.file("backup.db")).unwrap();
    let before = inventory(sandbox.path());
    for command in ["migrate", "status", "send x", "worker --drain"] {
        let words: Vec<&str> = command.split(' ').collect();
        let done = sandbox.command(&words).env("JOBWRIGHT_HANDLERS_X_COMMAND", "[\"true\"]").output().unwrap();
        Done::from(done).code(2).says("has 2 names (hard links)").says("keep one name and remove the others");
    }
    assert!(sandbox.run(&["doctor"]).code(1).stdout.contains("hard links"));
    assert!(inventory(sandbox.path()) == before);
    std::fs::remove_file(sandbox.file("backup.db")).unwrap();
    sandbox.run(&["status"]).success();
}

/// Whether the database is there, missing, empty, or reached by a link that leads nowhere.
#[test]
fn commands_that_look_leave_nothing_behind() {
    let sandbox = Sandbox::sqlite();
    symlink("jobs.db", sandbox.file("link.db")).unwrap();
    symlink("nowhere.db", sandbox.file("dangling.db")).unwrap();
    std::fs::write(sandbox.file("empty.db"), "").unwrap();
    let names = |inventory: Vec<(String, Vec<u8>)>| inventory.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let before = names(inventory(sandbox.path()));
    assert_eq!(before, ["dangling.db", "empty.db", "jobs.db", "link.db"]);
    for file in ["jobs.db", "link.db", "dangling.db", "empty.db", "missing.db", "missing/jobs.db", "jobs.db/x.db"] {
        for command in [
            "status",
            "doctor",
            "jobs list",
            "jobs errors",
            "queues list",
            "rules list",
            "nodes list",
            "audit list",
            "schedules list",
            "migrate --status",
        ] {
            let url = format!("sqlite:{file}");
            let words: Vec<&str> = ["--database-url", &url].into_iter().chain(command.split(' ')).collect();
            let done = sandbox.run(&words);
            assert_eq!(names(inventory(sandbox.path())), before, "{command} of {file}: {done:?}");
            if file == "jobs.db" || file == "link.db" {
                assert_eq!(done.code, Some(0), "{command} of {file}: {done:?}");
            }
        }
    }
    assert_eq!(std::fs::metadata(sandbox.file("empty.db")).unwrap().len(), 0);
}

/// A secret that is read from a file often ends with a line break.
#[test]
fn a_line_break_is_no_part_of_a_name() {
    let sandbox = Sandbox::without_file();
    for url in ["sqlite:jobs.db\n", "sqlite:jobs.db\r\n", "sqlite:jobs.db ", "sqlite:jo\u{1b}bs.db"] {
        for command in ["migrate", "status", "worker"] {
            let mut by_variable = jobwright();
            by_variable.arg(command).current_dir(sandbox.path()).env("DATABASE_URL", url);
            Done::from(by_variable.output().unwrap()).code(2).says("remove it");
            sandbox.run(&["--database-url", url, command]).code(2).says("remove it");
        }
    }
    assert_eq!(inventory(sandbox.path()), []);
}

/// The doctor names what no other node can judge.
#[test]
fn a_node_without_a_file_is_named_by_the_doctor() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.x]\ncommand = [\"true\"]\n");
    let worker = sandbox.worker(&[]);
    until("the worker", || worker.said().contains("ready"));
    assert!(sandbox.run(&["doctor"]).stdout.contains("every node has its file"));
    // The worker finds out itself, so it is stopped first.
    worker.signal("STOP");
    let (name, _) = inventory(sandbox.path()).into_iter().find(|(name, _)| name.contains("-node-")).unwrap();
    std::fs::remove_file(sandbox.file(&name)).unwrap();
    let node = name.rsplit('-').next().unwrap();
    let said = sandbox.run(&["doctor"]).stdout;
    assert!(said.contains("no file shows whether these nodes live") && said.contains(node), "{said}");
    assert!(said.contains("nodes evict"), "{said}");
    sandbox.run(&["nodes", "evict", node]).success();
    assert!(sandbox.run(&["doctor"]).stdout.contains("every node has its file"));
}
