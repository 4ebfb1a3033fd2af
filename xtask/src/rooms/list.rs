//! `xtask/rooms.txt`: the rooms, and what is known to be wrong.

use std::collections::BTreeSet;

use super::circles::Graph;

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) rooms: Vec<Room>,
    pub(super) circles: Vec<BTreeSet<String>>,
    /// Imports that no room's line allows: from this file to that one.
    pub(super) imports: BTreeSet<(String, String)>,
    /// `mod.rs` files that define something.
    pub(super) mod_files: BTreeSet<String>,
    /// Folders that have the same files.
    pub(super) mirrors: Vec<[String; 2]>,
    /// Files of these folders that the other one does not have.
    pub(super) alone: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Room {
    pub(super) name: String,
    pub(super) may: BTreeSet<String>,
}

impl List {
    pub(super) fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut list = Self::default();
        let mut problems = Vec::new();
        for (line, entry) in entries(text) {
            if let Err(problem) = list.add(&entry) {
                problems.push(format!("xtask/rooms.txt:{line}: {problem}"));
            }
        }
        list.open_stars(&mut problems);
        if problems.is_empty() {
            list.circles_of_rooms(&mut problems);
        }
        if problems.is_empty() { Ok(list) } else { Err(problems) }
    }

    /// The room of a file: of those whose folder or file it is, the innermost.
    pub(super) fn room(&self, file: &str) -> Option<&Room> {
        let rooms = self.rooms.iter().filter(|room| room.has(file));
        rooms.max_by_key(|room| room.name.len())
    }

    fn add(&mut self, entry: &str) -> Result<(), String> {
        let (name, rest) = entry.split_once(':').ok_or_else(|| format!("`{entry}` has no colon"))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match name.trim() {
            "known circle" => self.circle(&words),
            "known import" => match words[..] {
                [from, "->", to] => unique(self.imports.insert((from.to_owned(), to.to_owned())), entry),
                _ => Err(format!("`{entry}` is not `known import: FILE -> FILE`")),
            },
            "known mod.rs" => words.iter().try_for_each(|file| unique(self.mod_files.insert((*file).to_owned()), file)),
            "mirror" => match words[..] {
                [one, other] => {
                    self.mirrors.push([one, other].map(str::to_owned));
                    Ok(())
                }
                _ => Err(format!("`{entry}` is not `mirror: FOLDER FOLDER`")),
            },
            "alone" => words.iter().try_for_each(|file| unique(self.alone.insert((*file).to_owned()), file)),
            name if name.is_empty() || name.contains(' ') => Err(format!(
                "`{name}` is not a room, nor `known circle`, `known import`, `known mod.rs`, `mirror` or `alone`"
            )),
            name => {
                let is_new = self.rooms.iter().all(|room| room.name != name);
                let may = words.iter().map(|room| (*room).to_owned()).collect();
                self.rooms.push(Room { name: name.to_owned(), may });
                unique(is_new, name)
            }
        }
    }

    fn circle(&mut self, files: &[&str]) -> Result<(), String> {
        let circle: BTreeSet<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let other = circle.iter().find(|file| self.circles.iter().any(|other| other.contains(*file)));
        if circle.len() < 2 || circle.len() < files.len() {
            return Err("a circle is of two files or more, each named once".to_owned());
        }
        if let Some(file) = other {
            return Err(format!("{file} stands in another circle too: two circles with a common file are one"));
        }
        self.circles.push(circle);
        Ok(())
    }

    /// Puts names in place of `*` (all rooms) and `room/*` (all below that one), and looks for rooms that there are not.
    fn open_stars(&mut self, problems: &mut Vec<String>) {
        let names: Vec<String> = self.rooms.iter().map(|room| room.name.clone()).collect();
        for room in &mut self.rooms {
            let mut may = BTreeSet::new();
            for word in &room.may {
                let below = word.strip_suffix('*');
                let meant: Vec<&String> =
                    names.iter().filter(|name| below.map_or(*name == word, |below| name.starts_with(below))).collect();
                if meant.is_empty() {
                    problems.push(format!("xtask/rooms.txt: {} may use {word}, and there is no such room", room.name));
                }
                may.extend(meant.into_iter().filter(|name| **name != room.name).cloned());
            }
            room.may = may;
        }
    }

    fn circles_of_rooms(&self, problems: &mut Vec<String>) {
        let edges =
            self.rooms.iter().flat_map(|room| room.may.iter().map(|other| (room.name.as_str(), other.as_str())));
        let graph: Graph<'_> = edges.collect();
        for circle in graph.circles() {
            let round = circle.first().and_then(|room| graph.round(room)).unwrap_or_default();
            let text = format!("xtask/rooms.txt: rooms may use one another in a circle: {}", round.join(" -> "));
            problems.push(text);
        }
    }
}

impl Room {
    pub(super) fn has(&self, file: &str) -> bool {
        let behind = file.strip_prefix(self.name.as_str());
        behind.is_some_and(|behind| behind.starts_with('/') || behind == ".rs")
    }
}

fn unique(is_new: bool, what: &str) -> Result<(), String> {
    if is_new { Ok(()) } else { Err(format!("`{what}` stands here twice")) }
}

/// The entries with their lines. A line that begins with spaces continues the one above; `#` begins a comment.
fn entries(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        match found.last_mut() {
            _ if line.trim().is_empty() => {}
            Some((_, entry)) if line.starts_with(' ') => {
                entry.push(' ');
                entry.push_str(line.trim());
            }
            _ => found.push((at + 1, line.trim().to_owned())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "
# the house
low:
mid/a:        low      # why
mid:          mid/* low
top:          *
known circle: low/x.rs low/y.rs
              low/z.rs
known import: low/x.rs -> mid/y.rs
known mod.rs: low/mod.rs
  mid/mod.rs
mirror: mid low
alone: mid/x.rs
";
        let list = List::parse(text).unwrap();
        let may: Vec<String> = list
            .rooms
            .iter()
            .map(|room| format!("{}: {}", room.name, room.may.iter().cloned().collect::<Vec<_>>().join(" ")))
            .collect();
        assert_eq!(may, ["low: ", "mid/a: low", "mid: low mid/a", "top: low mid mid/a"]);
        assert_eq!(list.circles[0].len(), 3);
        assert_eq!((list.imports.len(), list.mod_files.len()), (1, 2));
        assert_eq!((list.mirrors.len(), list.alone.len()), (1, 1));
        for (file, room) in [
            ("low.rs", "low"),
            ("low/b.rs", "low"),
            ("mid/a/c.rs", "mid/a"),
            ("mid/ab.rs", "mid"),
            ("mid/mod.rs", "mid"),
        ] {
            assert_eq!(list.room(file).map(|room| room.name.as_str()), Some(room), "{file}");
        }
        assert!(list.room("lower.rs").is_none());
    }

    #[test]
    fn mistakes_in_the_list_are_told() {
        for (text, part) in [
            ("a: b", "a may use b, and there is no such room"),
            ("a: b/*\nb:", "a may use b/*, and there is no such room"),
            ("a: b\nb: c\nc: a", "circle: a -> b -> c -> a"),
            ("a:\na:", "rooms.txt:2: `a` stands here twice"),
            ("a b", "has no colon"),
            ("unknown circle: a.rs b.rs", "`unknown circle` is not a room"),
            ("known circle: a.rs", "two files or more"),
            ("known circle: a.rs b.rs\nknown circle: b.rs c.rs", "b.rs stands in another circle"),
            ("known import: a.rs b.rs", "is not `known import: FILE -> FILE`"),
            ("known mod.rs: a.rs a.rs", "stands here twice"),
            ("mirror: a", "is not `mirror: FOLDER FOLDER`"),
            ("alone: a.rs a.rs", "stands here twice"),
        ] {
            let problems = List::parse(text).unwrap_err();
            assert!(problems[0].contains(part), "{text}: {problems:?}");
        }
    }
}
