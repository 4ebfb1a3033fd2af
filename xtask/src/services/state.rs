//! The servers that were started, kept in a text file so that a later run finds them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::url::Url;
use crate::run::Result;

/// A server that was started here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Started {
    pub(super) url: Url,
    pub(super) pid: u32,
    /// The folder of its files, which is removed when it stops.
    pub(super) dir: PathBuf,
    /// A text in its command line, and in no other process's: a process id alone may belong to another process by now.
    pub(super) mark: String,
    /// A note for its kind of service.
    pub(super) note: String,
}

#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    started: BTreeMap<String, Started>,
}

impl State {
    /// Loads the state. No file: nothing was started.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(why) if why.kind() == ErrorKind::NotFound => String::new(),
            Err(why) => return Err(format!("cannot read {}: {why}", path.display())),
        };
        let started = parse(&text)
            .map_err(|why| format!("{}: {why}; stop what it lists by hand and delete it", path.display()))?;
        Ok(Self { path: path.to_owned(), started })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Started> {
        self.started.get(name)
    }

    /// Changes one entry, in the file too.
    pub(super) fn set(&mut self, name: &str, started: Option<Started>) -> Result<()> {
        match started {
            Some(started) => self.started.insert(name.to_owned(), started),
            None => self.started.remove(name),
        };
        let problem = |why| format!("cannot write {}: {why}", self.path.display());
        // Written beside it first, then moved: a run that is killed here leaves the old file or the new one, not half of it.
        let beside = self.path.with_extension("new");
        fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| file.write_all(self.text().as_bytes()))
            .and_then(|()| fs::rename(&beside, &self.path))
            .map_err(problem)
    }

    fn text(&self) -> String {
        let mut text = String::from("# Servers started by `cargo xtask services up`; `down` stops them.\n");
        for (name, Started { url, pid, dir, mark, note }) in &self.started {
            let dir = dir.display();
            // Writing to a String does not fail.
            let _ = write!(
                text,
                "{name}.url={}\n{name}.pid={pid}\n{name}.dir={dir}\n{name}.mark={mark}\n{name}.note={note}\n",
                url.as_str()
            );
        }
        text
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Started>> {
    let mut fields: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("`{line}` has no `=`"))?;
        let (name, field) = key.split_once('.').ok_or_else(|| format!("`{key}` has no `.`"))?;
        fields.entry(name).or_default().insert(field, value);
    }
    let mut all = BTreeMap::new();
    for (name, of) in fields {
        let get = |field: &str| of.get(field).copied().ok_or_else(|| format!("{name}.{field} is missing"));
        let started = Started {
            url: Url::parse(get("url")?)?,
            pid: get("pid")?.parse().map_err(|why| format!("{name}.pid: {why}"))?,
            dir: get("dir")?.into(),
            mark: get("mark")?.to_owned(),
            note: get("note")?.to_owned(),
        };
        all.insert(name.to_owned(), started);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_state_is_read_again() {
        let path = std::env::temp_dir().join(format!("xtask-state-{}", std::process::id()));
        let started = Started {
            url: Url::parse("postgres://postgres@127.0.0.1:5433/postgres").unwrap(),
            pid: 42,
            dir: "/tmp/a folder".into(),
            mark: "/tmp/a folder".to_owned(),
            note: "a=b".to_owned(),
        };
        let mut state = State::load(&path).unwrap();
        state.set("postgres", Some(started.clone())).unwrap();
        assert_eq!(State::load(&path).unwrap().get("postgres"), Some(&started));

        state.set("postgres", None).unwrap();
        assert_eq!(State::load(&path).unwrap().get("postgres"), None);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_an_empty_one() {
        assert!(parse("postgres.url=postgres://h/d\n").is_err_and(|why| why.contains("missing")));
        assert!(parse("postgres\n").is_err());
    }
}
