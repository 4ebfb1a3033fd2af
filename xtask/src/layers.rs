//! The layers of the library and of the program: a part uses only parts below it, and no files use one another in a circle.

#[cfg(test)]
mod tests;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use self::uses::{Found, Uses, found};
use crate::run::{self, Result};

const LISTS: [(&str, &str); 3] = [
    ("src", include_str!("layers/library.txt")),
    ("http/src", include_str!("layers/http.txt")),
    ("cli/src", include_str!("layers/program.txt")),
];

pub(crate) fn run() -> Result<()> {
    let mut problems = Vec::new();
    for (folder, list) in LISTS {
        let Found { files, uses, passed } = found(&run::workspace().join(folder))?;
        println!("{folder}: {} uses of one file by another", uses.len());
        let all = uses.clone().into_iter().chain(passed).collect();
        let against = against(list, &files, &all);
        problems.extend(against.into_iter().chain(circles(uses)).map(|problem| format!("{folder}: {problem}")));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Returns the uses that the list forbids, and the parts and files that do not match.
fn against(list: &str, files: &BTreeSet<String>, uses: &Uses) -> Vec<String> {
    let lines = list.lines().filter_map(|line| line.strip_prefix("| ")).enumerate();
    let layers: BTreeMap<&str, usize> =
        lines.flat_map(|(height, line)| line.split_whitespace().map(move |part| (part, height))).collect();
    let is_in = |file: &str, part: &str| file.strip_prefix(part).is_some_and(|rest| rest.starts_with(['/', '.']));
    let part = |file: &str| layers.iter().filter(|(part, _)| is_in(file, part)).max_by_key(|(part, _)| part.len());
    let mut problems = Vec::new();
    for ((from, to), path) in uses {
        if let (Some((above, height)), Some((below, other))) = (part(from), part(to))
            && above != below
            && height <= other
        {
            problems.push(format!(
                "{from} uses {to} ({path}), but {above} is not above {below} in xtask/src/layers/*.txt. Move what both \
                 need below both, or define a trait in {above} that {below} implements"
            ));
        }
    }
    let unlisted = files.iter().filter(|file| part(file).is_none());
    problems.extend(unlisted.map(|file| format!("{file} is in no layer: add its part to xtask/src/layers/*.txt")));
    let empty = layers.keys().filter(|part| !files.iter().any(|file| is_in(file, part)));
    problems.extend(empty.map(|name| format!("{name} has no files: remove it from xtask/src/layers/*.txt")));
    problems
}

/// Removes the uses by files that nothing uses, and of files that use nothing, again and again. What stays is in circles, or between them.
fn circles(mut uses: Uses) -> Option<String> {
    let mut before = usize::MAX;
    while uses.len() < before {
        before = uses.len();
        let (using, used): (BTreeSet<String>, BTreeSet<String>) = uses.keys().cloned().unzip();
        uses.retain(|(from, to), _| used.contains(from) && using.contains(to));
    }
    let lines: Vec<String> = uses.iter().map(|((from, to), path)| format!("\n  {from} uses {to} ({path})")).collect();
    (!lines.is_empty()).then(|| format!("files use one another in a circle; move what they share:{}", lines.concat()))
}
