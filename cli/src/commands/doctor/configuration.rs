//! Checks the configuration, and finds contradictions in it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jobwright::internal::Backend;

use super::Finding;
use crate::config::{Action, Settings, other_writers};
use crate::grants::Purpose;
use crate::handlers::{fault, places};
use crate::output::counted;

const CHECK: &str = "configuration";

pub(super) fn check(settings: &Settings, purpose: Option<Purpose>) -> Vec<Finding> {
    let own = settings.own_queues().join(", ");
    let kinds = counted(settings.handlers.len() as u64, "handler");
    let mut findings = vec![Finding::ok(CHECK, format!("readable; queues run here: {}; {kinds}", dash(&own)))];
    findings.extend(private(settings));
    findings.extend(alterable(settings));
    findings.extend(programs(settings));
    let external: Vec<&str> = settings.external_queues().map(jobwright::ExternalQueue::name).collect();
    if settings.broker.url.is_none() {
        if !external.is_empty() {
            findings.push(Finding::fail(
                CHECK,
                format!("queues for external workers ({}) and no broker", external.join(", ")),
                "set `broker.url` (AMQP_URL), or remove `external = true`",
            ));
        }
        if settings.broker.required {
            findings.push(Finding::fail(
                CHECK,
                "`broker.required` is set, and there is no `broker.url`",
                "set `broker.url` (AMQP_URL), or remove `required`",
            ));
        }
    }
    if settings.handlers.is_empty() && purpose.is_none_or(|purpose| purpose == Purpose::Executor) {
        findings.push(Finding::warn(
            CHECK,
            "no handlers: `jobwright worker` would run nothing",
            "none is needed to send (`--as sender`); otherwise name some in `[handlers.KIND]`, see `jobwright worker --help`",
        ));
    }
    findings
}

/// Finds programs that can't be started.
fn programs(settings: &Settings) -> Vec<Finding> {
    let commands = settings.handlers.iter().filter_map(|(kind, handler)| match &handler.action {
        Action::Command(words) => Some((kind, words.first()?)),
        Action::Url(_) => None,
    });
    let faults = commands.filter_map(|(kind, program)| Some((kind, program, fault(program)?)));
    faults
        .map(|(kind, program, why)| {
            let found = format!("`[handlers.{kind}]`: the program `{program}` {why}");
            Finding::fail(
                "handlers",
                found,
                "correct its `command`, or PATH, which is looked through for a name without a `/`",
            )
        })
        .collect()
}

/// Finds files with payloads, passwords or keys that every user of this machine may read.
fn private(settings: &Settings) -> Vec<Finding> {
    let mut files: Vec<(&Path, &str)> = Vec::new();
    if let Some((file, true)) = &settings.file {
        files.push((file, "a password or a token stands in it"));
    }
    if let Ok(Backend::Sqlite(path)) = settings.database.backend() {
        files.push((Path::new(path), "payloads are in it"));
    }
    files.extend(settings.key_files.iter().map(|file| (file.as_path(), "a key of `[seal_keys.ID]` is in it")));
    let open = files.into_iter().filter(|(path, _)| {
        std::fs::metadata(path)
            .is_ok_and(|about| std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o004 != 0)
    });
    open.map(|(path, why)| {
        let path = path.display();
        let found = format!("everybody on this machine may read {path}, and {why}");
        Finding::warn("file rights", found, format!("`chmod o-rwx {path}`, and the same for files beside it"))
    })
    .collect()
}

/// Finds files that others may write, and so decide what runs here.
fn alterable(settings: &Settings) -> Vec<Finding> {
    let mut files: Vec<(PathBuf, &str)> = Vec::new();
    if let Some((file, _)) = &settings.file {
        files.push((file.clone(), "it names the programs that run here"));
    }
    for file in &settings.key_files {
        files.push((file.clone(), "a key of `[seal_keys.ID]` is in it"));
    }
    for handler in settings.handlers.values() {
        if let Action::Command(words) = &handler.action
            && let Some(program) =
                words.first().and_then(|program| places(program).into_iter().find(|place| place.is_file()))
        {
            files.push((program, "handlers run it"));
        }
    }
    files.sort();
    files.dedup();
    let mut findings: Vec<_> = files.iter().filter_map(|(path, why)| written(path, other_writers, why)).collect();
    if let Ok(Backend::Sqlite(path)) = settings.database.backend() {
        // A group of users may share a database on purpose.
        let everybody = |file: &Metadata| other_writers(file).filter(|_| file.mode() & 0o002 != 0);
        findings.extend(written(Path::new(path), everybody, "all jobs are in it"));
    }
    findings
}

/// Returns a finding if others may write the file.
fn written(path: &Path, writers: impl Fn(&Metadata) -> Option<String>, why: &str) -> Option<Finding> {
    let who = std::fs::metadata(path).ok().and_then(|file| writers(&file))?;
    let path = path.display();
    let found = format!("others may write {path} ({who}), and {why}");
    Some(Finding::warn("file rights", found, format!("`chmod go-w {path}`, after a check of its contents")))
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
