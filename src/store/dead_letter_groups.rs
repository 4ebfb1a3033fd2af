//! Dead letters, grouped by error.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use super::settle::clip;
use crate::job::JobId;

/// The start of an error text that a codec has encoded.
pub(crate) const ENCODED: &str = "[encoded ";
/// The name of the group of encoded errors.
const ENCODED_GROUP: &str = "encoded: each by itself tells its error (`jobs show`)";
/// Longest text of a group, in bytes.
const TEXT_MAX: usize = 200;

/// Dead letters of one kind and queue with the same error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterGroup {
    /// Their kind.
    pub kind: String,
    /// Their queue.
    pub queue: String,
    /// The error they share: see [`normalise`].
    pub error: String,
    /// How many they are.
    pub count: u64,
    /// When the first of them became a dead letter.
    pub first: Timestamp,
    /// When the last of them did.
    pub last: Timestamp,
    /// The last of them.
    pub example: JobId,
}

/// Groups of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadLetterGroups {
    /// The largest first.
    pub groups: Vec<DeadLetterGroup>,
    /// How many dead letters were read.
    pub scanned: u64,
    /// Whether as many were read as were asked for. Older ones are not counted then.
    pub more: bool,
}

impl DeadLetterGroups {
    /// How many dead letters the program reads unless it is told to read all: the newest. Their errors are compared in the process that asks, so that
    /// "order 17 not found" and "order 18 not found" are the same on every store. The bound keeps that fast.
    pub const NEWEST: usize = 100_000;
}

/// Collects dead letters into groups.
#[derive(Default)]
pub(crate) struct Grouping {
    groups: HashMap<(String, String, String), DeadLetterGroup>,
    scanned: u64,
}

impl Grouping {
    /// Adds `group.count` dead letters, whose text is not yet normalised.
    pub(crate) fn add(&mut self, mut group: DeadLetterGroup) {
        self.scanned += group.count;
        // No two encoded texts are alike, and they can't be read without the key.
        group.error = if group.error.starts_with(ENCODED) { ENCODED_GROUP.to_owned() } else { normalise(&group.error) };
        let key = (group.kind.clone(), group.queue.clone(), group.error.clone());
        let known = self.groups.entry(key).or_insert_with(|| DeadLetterGroup { count: 0, ..group.clone() });
        known.count += group.count;
        known.first = known.first.min(group.first);
        if group.last > known.last {
            (known.last, known.example) = (group.last, group.example);
        }
    }

    /// Returns at most `limit` groups of the `newest` dead letters that were asked for, the largest first.
    pub(crate) fn finish(self, newest: usize, limit: usize) -> DeadLetterGroups {
        let mut groups: Vec<DeadLetterGroup> = self.groups.into_values().collect();
        groups.sort_by(|a, b| {
            let order = |group: &DeadLetterGroup| (std::cmp::Reverse(group.count), std::cmp::Reverse(group.last));
            order(a).cmp(&order(b)).then_with(|| (&a.queue, &a.kind, &a.error).cmp(&(&b.queue, &b.kind, &b.error)))
        });
        groups.truncate(limit);
        DeadLetterGroups { groups, scanned: self.scanned, more: self.scanned >= newest as u64 }
    }
}

/// Returns an error's text without what differs from job to job: its first line, with numbers, ids (UUIDs, and words of eight or more
/// hexadecimal digits) and quoted text replaced by `#`. Network addresses and the status of an HTTP answer stay, because they tell where
/// the fault is. At most 200 bytes.
pub fn normalise(error: &str) -> String {
    let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = ' ';
    let mut last_word = "";
    while let Some(first) = rest.chars().next() {
        let begins = !is_word(before) && !matches!(before, '.' | '-');
        let taken = if let Some(length) = address_length(rest).filter(|_| begins) {
            text.push_str(&rest[..length]);
            length
        } else if is_word(first) {
            let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
            let taken = id_length(rest).unwrap_or(word.len());
            let names_a_status = ["answered", "HTTP", "status"].contains(&last_word) && before == ' ';
            last_word = word;
            if taken != word.len() || is_hexadecimal_id(word) {
                text.push('#');
            } else if names_a_status && is_status(word) {
                text.push_str(word);
            } else {
                push_without_digits(&mut text, word);
            }
            taken
        } else if let Some(quoted) = quoted(rest, first).filter(|_| !is_word(before)) {
            text.push(first);
            text.push('#');
            text.push(first);
            quoted
        } else {
            if !(first.is_whitespace() && text.ends_with(' ')) {
                text.push(if first.is_whitespace() { ' ' } else { first });
            }
            first.len_utf8()
        };
        before = rest[..taken].chars().next_back().unwrap_or(' ');
        rest = &rest[taken..];
    }
    clip(&text, TEXT_MAX)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a word is the status of an HTTP answer.
fn is_status(word: &str) -> bool {
    word.len() == 3 && word.parse::<u16>().is_ok_and(|status| (100..600).contains(&status))
}

/// Returns the length of the network address that a text starts with: an IPv4 address, with or without a port, or a name with a port.
fn address_length(text: &str) -> Option<usize> {
    let host = &text[..text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').unwrap_or(text.len())];
    let after = &text[host.len()..];
    let port = after.strip_prefix(':').map_or("", |port| &port[..port.find(|c| !is_word(c)).unwrap_or(port.len())]);
    let has_port = (2..=5).contains(&port.len()) && port.parse::<u16>().is_ok();
    let is_name = host == "localhost" || host.contains('.') && host.starts_with(|c: char| c.is_ascii_alphabetic());
    if has_port && (is_name || host.parse::<std::net::Ipv4Addr>().is_ok()) {
        return Some(host.len() + 1 + port.len());
    }
    // A sentence may end with an address.
    let host = host.trim_end_matches('.');
    (host.parse::<std::net::Ipv4Addr>().is_ok()).then_some(host.len())
}

/// Returns the length of the UUID that a text starts with.
fn id_length(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let head = text.get(..LENGTH)?;
    let ends = !text[LENGTH..].starts_with(is_word);
    (ends && uuid::Uuid::try_parse(head).is_ok()).then_some(LENGTH)
}

/// Returns whether a word is an id such as `0x7f3a90b1` or `9f86d081`. It must contain a digit: `deadbeef` may be an id, but `effaced` is not.
fn is_hexadecimal_id(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    digits.len() >= 8 && digits.bytes().all(|c| c.is_ascii_hexdigit()) && digits.bytes().any(|c| c.is_ascii_digit())
}

fn push_without_digits(text: &mut String, word: &str) {
    let mut in_number = false;
    for c in word.chars() {
        let digit = c.is_ascii_digit();
        match (digit, in_number) {
            (true, false) => text.push('#'),
            (true, true) => {}
            (false, _) => text.push(c),
        }
        in_number = digit;
    }
}

/// Returns the length of the quoted part that a text starts with.
fn quoted(text: &str, quote: char) -> Option<usize> {
    if !matches!(quote, '"' | '\'' | '`') {
        return None;
    }
    let inner = text.get(1..)?;
    let mut from = 0;
    loop {
        let end = from + inner[from..].find(quote)?;
        let after = &inner[end + 1..];
        if after.starts_with(quote) {
            // A doubled quote stands for one within the quotes.
            from = end + 2;
        } else if after.starts_with(is_word) {
            // Inside a word it is an apostrophe.
            from = end + 1;
        } else {
            return Some(1 + end + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_differ_from_job_to_job_are_left_out() {
        for (error, normal) in [
            ("order 17 not found", "order # not found"),
            ("order 18 not found", "order # not found"),
            ("  order 18   not found \nstack\n", "order # not found"),
            ("no such job 01890a5d-ac96-774b-bcce-b302099a8057!", "no such job #!"),
            ("at 0x7f3a90b1: cafe9f86d081 of effaced", "at #: # of effaced"),
            ("user \"eve 7\" can't see 'a''s' or `x y`", "user \"#\" can't see '#' or `#`"),
            ("don't: it's 5 o'clock", "don't: it's # o'clock"),
            ("timeout after 1.5s at 2026-11-22T05:26:13Z", "timeout after #.#s at #-#-#T#:#:#Z"),
            ("unclosed \"quote 5", "unclosed \"quote #"),
            ("Zähler12 übersprungen: ٣", "Zähler# übersprungen: ٣"),
            ("10.1.2.3:8080 answered 503", "10.1.2.3:8080 answered 503"),
            ("http://10.1.2.3/a/17 answered 404: nothing", "http://10.1.2.3/a/# answered 404: nothing"),
            ("can't reach db-1.internal:5432 after 3 tries", "can't reach db-1.internal:5432 after # tries"),
            ("localhost:99999999 has 300 of 10.1.2.3.", "localhost:# has # of 10.1.2.3."),
            ("version 1.2.3.4.5, status 7, HTTP 1234", "version #.#.#.#.#, status #, HTTP #"),
            ("", ""),
            ("\n \n", ""),
        ] {
            assert_eq!(normalise(error), normal, "{error:?}");
        }
        assert!(normalise(&"x ".repeat(500)).len() <= TEXT_MAX);
    }

    #[test]
    fn the_largest_group_comes_first_and_shows_its_last() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let group = |error: &str, count, first, last| DeadLetterGroup {
            kind: "kind".to_owned(),
            queue: "queue".to_owned(),
            error: error.to_owned(),
            count,
            first: at(first),
            last: at(last),
            example: JobId::new(),
        };
        let newest = group("order 2", 1, 7, 9);
        let mut grouping = Grouping::default();
        for group in [group("other", 2, 1, 1), group("order 1", 2, 3, 4), newest.clone()] {
            grouping.add(group);
        }
        let found = grouping.finish(1000, 1);
        assert_eq!(found.groups, [DeadLetterGroup { error: "order #".into(), count: 3, first: at(3), ..newest }]);
        assert_eq!((found.scanned, found.more), (5, false));
    }
}
