//! The list of planted defects, in the files below `planted/`: what each breaks, where it is planted, and which tests have to notice.
//!
//! ```text
//! # name-of-the-defect: what it breaks
//! in FILE [SECTION]
//! -the original text, which occurs exactly once in the file, or in its section of that name
//! +the text in its place, if there is one
//! noticed by FILTER
//! ```
//!
//! The original may be a part of a line, or several lines. In Rust, `$on` in its place asks whether the defect is enabled, and `$was` is the
//! original. The filter is one of cargo-nextest.

use crate::run::Result;

/// The files, by topic. What stands in one before the first defect is its title.
const FILES: [&str; 9] = [
    include_str!("planted/fences.txt"),
    include_str!("planted/claims.txt"),
    include_str!("planted/deaths.txt"),
    include_str!("planted/ids.txt"),
    include_str!("planted/admission.txt"),
    include_str!("planted/groups.txt"),
    include_str!("planted/schema.txt"),
    include_str!("planted/embedded.txt"),
    include_str!("planted/order.txt"),
];

/// A defect, and the tests that have to detect it.
#[derive(Debug, Default)]
pub(super) struct Defect {
    pub(super) name: String,
    /// The consequence, for the reader of the list.
    pub(super) breaks: String,
    /// The file in which it is planted.
    pub(super) file: String,
    /// The statement in which it is planted, if the file has several.
    pub(super) section: Option<String>,
    /// The original text.
    pub(super) find: String,
    /// The replacement.
    pub(super) plant: String,
    /// A filter of cargo-nextest.
    pub(super) tests: String,
}

pub(super) fn all() -> Result<Vec<Defect>> {
    FILES.into_iter().flat_map(|file| file.split("\n# ").skip(1)).map(one).collect()
}

fn one(text: &str) -> Result<Defect> {
    let mut lines = text.lines();
    let title = lines.next().unwrap_or_default();
    let (name, breaks) =
        title.split_once(": ").ok_or_else(|| format!("the defect {title:?} does not say what it breaks"))?;
    let mut defect = Defect { name: name.to_owned(), breaks: breaks.to_owned(), ..Defect::default() };
    let (mut find, mut plant) = (Vec::new(), Vec::new());
    for line in lines.filter(|line| !line.is_empty()) {
        if let Some(place) = line.strip_prefix("in ") {
            let (file, section) = place.split_once(' ').map_or((place, None), |(file, section)| (file, Some(section)));
            (defect.file, defect.section) = (file.to_owned(), section.map(str::to_owned));
        } else if let Some(tests) = line.strip_prefix("noticed by ") {
            tests.clone_into(&mut defect.tests);
        } else if let Some(text) = line.strip_prefix('-') {
            find.push(text);
        } else if let Some(text) = line.strip_prefix('+') {
            plant.push(text);
        } else {
            return Err(format!("the defect {name} has a line of no meaning: {line:?}"));
        }
    }
    (defect.find, defect.plant) = (find.join("\n"), plant.join("\n"));
    let complete = ![&defect.file, &defect.find, &defect.tests].into_iter().any(String::is_empty);
    if complete {
        Ok(defect)
    } else {
        Err(format!("the defect {name} lacks its place, its original text or its tests"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_is_read() {
        let text = "a-name: it breaks: this\nin src/a.sql one\n-  x\n-y\n+z\nnoticed by test(/a/) & kind(lib)\n";
        let read = one(text).unwrap();
        assert_eq!((read.name.as_str(), read.breaks.as_str()), ("a-name", "it breaks: this"));
        assert_eq!((read.file.as_str(), read.section.as_deref()), ("src/a.sql", Some("one")));
        assert_eq!((read.find.as_str(), read.plant.as_str()), ("  x\ny", "z"));
        assert_eq!(read.tests, "test(/a/) & kind(lib)");
        assert!(one("a-name: b\nin src/a.sql\n-x\n").is_err(), "no tests");
        assert!(one("a-name: b\nin src/a.sql\nx\nnoticed by test(/a/)\n").is_err(), "a line of no meaning");
        assert!(one("a-name\nin src/a.sql\n-x\nnoticed by test(/a/)\n").is_err(), "nothing is broken");
    }
}
