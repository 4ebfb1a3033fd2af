//! Files of SQL with a section for each statement.
//!
//! The statements of a topic stand in one file, beside the Rust file of the same name. A section begins with the line `-- name: NAME` and ends
//! before the next one. Comments behind that line say why the statement is shaped so.

/// Returns the section of that name, without its first line and without the blank lines at its end. A constant made of a name that the file does not have does not compile.
#[track_caller]
pub(crate) const fn section(file: &'static str, name: &str) -> &'static str {
    let mut rest = file;
    while let Some((text, behind)) = next(rest) {
        let (found, body) = first_line(text);
        if equal(found, name) {
            return without_blank_end(body);
        }
        rest = behind;
    }
    panic!("the file has no section of this name");
}

/// Returns the names of all sections, in the order of the file.
#[cfg(test)]
pub(crate) fn names(file: &'static str) -> Vec<&'static str> {
    let mut names = Vec::new();
    let mut rest = file;
    while let Some((text, behind)) = next(rest) {
        names.push(first_line(text).0);
        rest = behind;
    }
    names
}

const MARK: &str = "-- name: ";

/// Splits off the next section, behind its mark.
const fn next(file: &'static str) -> Option<(&'static str, &'static str)> {
    let Some(start) = find_mark(file) else { return None };
    let (_, text) = file.split_at(start + MARK.len());
    match find_mark(text) {
        Some(end) => Some(text.split_at(end)),
        None => Some((text, "")),
    }
}

/// Returns where the next line begins that has the mark.
const fn find_mark(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if (at == 0 || bytes[at - 1] == b'\n') && begins_with_mark(bytes, at) {
            return Some(at);
        }
        at += 1;
    }
    None
}

const fn begins_with_mark(bytes: &[u8], from: usize) -> bool {
    let mark = MARK.as_bytes();
    let mut at = 0;
    while at < mark.len() {
        if from + at >= bytes.len() || bytes[from + at] != mark[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Splits a text behind its first line, which is returned without its end.
const fn first_line(text: &'static str) -> (&'static str, &'static str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            return (text.split_at(at).0, text.split_at(at + 1).1);
        }
        at += 1;
    }
    (text, "")
}

/// Removes line ends at the end of a text.
const fn without_blank_end(text: &'static str) -> &'static str {
    let mut end = text.len();
    while end > 0 && text.as_bytes()[end - 1] == b'\n' {
        end -= 1;
    }
    text.split_at(end).0
}

const fn equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "-- About the file.\n\n-- name: one\n-- Why.\nselect 1;\n\n-- name: one_more\nselect '-- name: x';\n";
    const ONE: &str = section(FILE, "one");
    const MORE: &str = section(FILE, "one_more");

    #[test]
    fn a_section_ends_before_the_next() {
        assert_eq!(ONE, "-- Why.\nselect 1;");
        assert_eq!(MORE, "select '-- name: x';");
        assert_eq!(names(FILE), ["one", "one_more"]);
    }

    #[test]
    #[should_panic(expected = "no section of this name")]
    fn a_name_that_is_not_there_is_an_error() {
        section(FILE, std::hint::black_box("on"));
    }
}
