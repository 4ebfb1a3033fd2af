//! What has to hold. Each problem says where, what, and what to do.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::Graph;
use super::imports::Import;
use super::list::{List, Room};
use super::tree::Crate;

pub(super) fn check(krate: &Crate<'_>, imports: &[Import<'_>], list: &List) -> Vec<String> {
    let files = krate.files();
    let mut problems = without_room(&files, list);
    problems.extend(upward(imports, list));
    problems.extend(circles(imports, list));
    problems.extend(mod_files(krate, list));
    problems.extend(mirrors(&files, list));
    problems
}

/// Folders that mirror each other have files of the same names. A file that only one of them needs is on the list.
fn mirrors(files: &BTreeSet<&str>, list: &List) -> Vec<String> {
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for [one, other] in &list.mirrors {
        for (here, there) in [(one, other), (other, one)] {
            let prefix = format!("{here}/");
            for file in files.iter().filter(|file| file.starts_with(&prefix)) {
                let counterpart = format!("{there}/{}", &file[prefix.len()..]);
                if files.contains(counterpart.as_str()) {
                    continue;
                }
                if !list.alone.contains(*file) {
                    problems.push(format!(
                        "src/{file} has no counterpart src/{counterpart}: what does the same thing in both has the same name. If only one of \
                         them needs it, add it to `alone` in xtask/rooms.txt."
                    ));
                }
                used.insert((*file).to_owned());
            }
        }
    }
    let gone = list.alone.difference(&used);
    problems.extend(gone.map(|file| format!("`alone: {file}` is no longer true: take it out of xtask/rooms.txt")));
    problems
}

fn without_room(files: &BTreeSet<&str>, list: &List) -> Vec<String> {
    let homeless = files.iter().filter(|file| list.room(file).is_none());
    let homeless = homeless.map(|file| format!("src/{file} is in no room: give it a line in xtask/rooms.txt"));
    let lived_in: BTreeSet<&str> =
        files.iter().filter_map(|file| list.room(file)).map(|room| room.name.as_str()).collect();
    let empty = list.rooms.iter().filter(|room| !lived_in.contains(room.name.as_str()));
    let empty = empty.map(|room| format!("room {} has no files: take it out of xtask/rooms.txt", room.name));
    homeless.chain(empty).collect()
}

/// Imports that no line allows and that are not known.
fn upward(imports: &[Import<'_>], list: &List) -> Vec<String> {
    let mut found: BTreeMap<(&str, &str), Vec<&Import<'_>>> = BTreeMap::new();
    for import in imports {
        found.entry((import.from, import.to)).or_default().push(import);
    }
    let is_known = |from: &str, to: &str| list.imports.contains(&(from.to_owned(), to.to_owned()));
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for ((from, to), imports) in found {
        let (Some(room), Some(other)) = (list.room(from), list.room(to)) else { continue };
        if room.name == other.name || room.may.contains(&other.name) {
            continue;
        }
        if is_known(from, to) {
            known.insert((from.to_owned(), to.to_owned()));
        } else {
            problems.push(not_allowed(&imports, room, other));
        }
    }
    let gone = list.imports.difference(&known);
    problems.extend(
        gone.map(|(from, to)| {
            format!("`known import: {from} -> {to}` is no longer true: take it out of xtask/rooms.txt")
        }),
    );
    problems
}

fn not_allowed(imports: &[&Import<'_>], room: &Room, other: &Room) -> String {
    let imports: Vec<String> = imports.iter().map(|import| shown(import)).collect();
    let may: Vec<&str> = room.may.iter().map(String::as_str).collect();
    let may = if may.is_empty() { "nor any other room".to_owned() } else { format!("only {}", may.join(", ")) };
    let (room, other) = (&room.name, &other.name);
    format!(
        "room {room} may not use {other}, {may}:\n{}\n  Move what both need to a room below both, or define a trait in {room} \
         that {other} implements.\n  Only if the order of the rooms is wrong, change xtask/rooms.txt.",
        imports.join("\n")
    )
}

fn circles(imports: &[Import<'_>], list: &List) -> Vec<String> {
    let graph: Graph<'_> = imports.iter().map(|import| (import.from, import.to)).collect();
    let found = graph.circles();
    let is_same = |circle: &BTreeSet<&str>, known: &BTreeSet<String>| circle.iter().copied().eq(known.iter());
    let new = found.iter().filter(|circle| !list.circles.iter().any(|known| is_same(circle, known)));
    let new = new.map(|circle| not_known(&graph, imports, circle, list));
    let is_gone = |known: &&BTreeSet<String>| found.iter().flatten().all(|file| !known.contains(*file));
    let gone = list.circles.iter().filter(is_gone).map(|known| {
        let files: Vec<&str> = known.iter().map(String::as_str).collect();
        format!("this known circle is gone: take it out of xtask/rooms.txt: {}", files.join(" "))
    });
    new.chain(gone).collect()
}

/// A circle that the list does not have: a new one, or one that has grown, met another, or become smaller.
fn not_known<'a>(graph: &Graph<'a>, imports: &[Import<'a>], circle: &BTreeSet<&'a str>, list: &List) -> String {
    let known: Vec<&BTreeSet<String>> =
        list.circles.iter().filter(|known| circle.iter().any(|file| known.contains(*file))).collect();
    let is_known = |file: &&&str| known.iter().any(|circle| circle.contains(**file));
    let new: Vec<&str> = circle.iter().filter(|file| !is_known(file)).copied().collect();
    let mut lines = Vec::new();
    match (&new[..], &known[..]) {
        ([], [_]) => {
            return format!("a known circle became smaller. Its line in xtask/rooms.txt is now:\n{}", entry(circle));
        }
        ([], known) => {
            lines.push("known circles have become one, by some of these imports:".to_owned());
            lines.extend(ties(imports, circle, known));
        }
        ([first, others @ ..], _) => {
            lines.push(format!("src/{first} is in a circle of imports that is not known:"));
            lines.extend(round(graph, imports, first));
            if !others.is_empty() {
                lines.push(format!("  In the same circle, by this way or another: {}", others.join(" ")));
            }
        }
    }
    lines.push("  A file uses only files below it: move what both need to a file of its own, below both.".to_owned());
    lines.push(
        "  Only where files of a known circle were moved or split, its line in xtask/rooms.txt is now:".to_owned(),
    );
    lines.push(entry(circle));
    lines.join("\n")
}

fn shown(import: &Import<'_>) -> String {
    let Import { from, to, line, path } = import;
    format!("  src/{from}:{line} imports {path} (src/{to})")
}

/// The shortest circle through a file, import by import.
fn round<'a>(graph: &Graph<'a>, imports: &[Import<'a>], file: &'a str) -> Vec<String> {
    let way = graph.round(file).unwrap_or_default();
    let step = |pair: &[&str]| imports.iter().find(|import| import.from == pair[0] && import.to == pair[1]);
    way.windows(2).filter_map(step).map(shown).collect()
}

/// The imports between circles that were apart.
fn ties(imports: &[Import<'_>], circle: &BTreeSet<&str>, known: &[&BTreeSet<String>]) -> Vec<String> {
    let place = |file: &str| known.iter().position(|circle| circle.contains(file));
    let is_tie = |import: &&Import<'_>| {
        circle.contains(import.from) && circle.contains(import.to) && place(import.from) != place(import.to)
    };
    imports.iter().filter(is_tie).map(shown).collect()
}

/// The line of the list for a circle.
fn entry(circle: &BTreeSet<&str>) -> String {
    const WIDTH: usize = 140;
    let mut text = "known circle:".to_owned();
    let mut width = text.len();
    for file in circle {
        if width + 1 + file.len() > WIDTH {
            text.push_str("\n   ");
            width = 3;
        }
        text.push(' ');
        text.push_str(file);
        width += 1 + file.len();
    }
    text
}

fn mod_files(krate: &Crate<'_>, list: &List) -> Vec<String> {
    let mut defining = BTreeMap::new();
    for module in krate.modules.iter().filter(|module| !module.is_test && module.file.ends_with("/mod.rs")) {
        if let Some(first) = module.defines {
            defining.entry(module.file).or_insert(first);
        }
    }
    let new = defining.iter().filter(|(file, _)| !list.mod_files.contains(**file));
    let new = new.map(|(file, (line, name))| {
        format!(
            "src/{file}:{line} defines {name}: a mod.rs has only `mod` and `use`, since what its files need of it makes a \
             circle. Give it a file of its own"
        )
    });
    let gone = list.mod_files.iter().filter(|file| !defining.contains_key(file.as_str()));
    let gone = gone.map(|file| format!("`known mod.rs: {file}` is no longer true: take it out of xtask/rooms.txt"));
    new.chain(gone).collect()
}
