//! The variables that tell a program about its job.
//!
//! An operating system starts no program whose arguments and variables are too large, one by one or together. Headers come from whoever
//! sent the job, and a job sent in SQL may have headers of any size. So what does not fit is left out, and the program is told how many
//! headers it did not get: a header must not decide whether the program can be started.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;

use jobwright::Job;
use nix::unistd::{SysconfVar, sysconf};
use tokio::process::Command;

use super::trace;

/// All headers of the job, as JSON.
const ALL_HEADERS: &str = "JOBWRIGHT_HEADERS";
/// How many headers are in no variable, because they did not fit.
const LEFT_OUT: &str = "JOBWRIGHT_HEADERS_LEFT_OUT";
/// The largest variable. Linux starts no program with one of more than 128 KiB.
const LARGEST: usize = 120 * 1024;
/// The least that POSIX systems of today allow for all arguments and variables.
const LEAST: usize = 128 * 1024;
/// Linux allows no more than this, however large the stack may be.
const MOST: usize = 6 * 1024 * 1024;
/// What is left free of that: for what the call needs that becomes the program.
const SPARE: usize = 16 * 1024;
/// The size of the pointer that goes with each string.
const POINTER: usize = 8;

/// Gives a command the variables of its job.
pub(super) fn add(command: &mut Command, job: &Job) {
    let mut space = Space::left_by(command);
    let fixed = [
        ("JOBWRIGHT_JOB_ID", Some(job.id.to_string())),
        ("JOBWRIGHT_KIND", Some(job.kind.clone())),
        ("JOBWRIGHT_QUEUE", Some(job.queue.clone())),
        ("JOBWRIGHT_ATTEMPT", Some(job.attempt.to_string())),
        ("JOBWRIGHT_MAX_ATTEMPTS", Some(job.max_attempts.to_string())),
        ("JOBWRIGHT_PRIORITY", Some(job.priority.to_string())),
        ("JOBWRIGHT_CONTENT_TYPE", Some(job.payload.content_type().to_owned())),
        ("JOBWRIGHT_CREATED_AT", Some(job.created_at.to_string())),
    ];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
    let trace = trace(job).map(|(name, value)| (format!("JOBWRIGHT_{}", name.to_ascii_uppercase()), value));
    for (name, value) in fixed.into_iter().chain(trace) {
        match value.filter(|value| space.takes(&name, value)) {
            Some(value) => command.env(name, value),
            // An inherited variable, if this worker was started by another worker's program.
            None => command.env_remove(name),
        };
    }
    let mut missing = 0;
    for (name, header) in header_variables(&job.headers) {
        match header {
            Header::Alone(value) if space.takes(&name, value) => {
                command.env(name, value);
            }
            Header::Alone(_) => {
                missing += 1;
                command.env_remove(name);
            }
            Header::Shared(headers) => {
                missing += headers;
                command.env_remove(name);
            }
        }
    }
    let all = serde_json::to_string(&job.headers).ok().filter(|all| space.takes(ALL_HEADERS, all));
    if all.is_some() {
        missing = 0;
    }
    for (name, value) in [(ALL_HEADERS, all), (LEFT_OUT, (missing > 0).then(|| missing.to_string()))] {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// The space for variables that is left.
struct Space(usize);

impl Space {
    /// Returns what a command leaves that inherits the variables of this process.
    fn left_by(command: &Command) -> Self {
        let command = command.as_std();
        let limit = sysconf(SysconfVar::ARG_MAX).ok().flatten().and_then(|most| usize::try_from(most).ok());
        let set: HashSet<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
        let inherited = std::env::vars_os().filter(|(name, _)| !set.contains(name.as_os_str()));
        let inherited: usize = inherited.map(|(name, value)| size(&[&name, &value])).sum();
        let own = command.get_envs().filter_map(|(name, value)| Some(size(&[name, value?])));
        let words = command.get_args().map(|word| size(&[word])).sum::<usize>() + 2 * size(&[command.get_program()]);
        let used = inherited + own.sum::<usize>() + words + SPARE;
        // The other half is for what the program passes to its own programs.
        Self(limit.unwrap_or(LEAST).min(MOST).saturating_sub(used) / 2)
    }

    /// Takes the space for a variable. `false`: it does not fit, or can't be a variable.
    fn takes(&mut self, name: &str, value: &str) -> bool {
        let size = size(&[name.as_ref(), value.as_ref()]);
        let fits = size <= self.0.min(LARGEST) && !value.contains('\0');
        if fits {
            self.0 -= size;
        }
        fits
    }
}

/// Returns the space of a string that is made of these, with a byte after each of them.
fn size(parts: &[&OsStr]) -> usize {
    parts.iter().map(|part| part.len() + 1).sum::<usize>() + POINTER
}

/// What there is for one variable.
#[derive(Debug, PartialEq, Eq)]
enum Header<'a> {
    /// The value of the only header for it.
    Alone(&'a str),
    /// This many headers would share it.
    Shared(usize),
}

/// Returns the headers as variables. Headers that would share a variable get none, because which one won would be chance. All headers are
/// in `ALL_HEADERS`.
fn header_variables(headers: &BTreeMap<String, String>) -> BTreeMap<String, Header<'_>> {
    let mut variables = BTreeMap::new();
    for (name, value) in headers {
        let one = variables.entry(header_variable(name));
        one.and_modify(|header| {
            *header = match header {
                Header::Alone(_) => Header::Shared(2),
                Header::Shared(number) => Header::Shared(*number + 1),
            };
        })
        .or_insert(Header::Alone(value.as_str()));
    }
    variables
}

/// Maps `tenant-id` to `JOBWRIGHT_HEADER_TENANT_ID`.
fn header_variable(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("JOBWRIGHT_HEADER_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_would_be_the_same_variable_are_none() {
        let headers = [("a-b", "1"), ("a_b", "2"), ("A.b", "3"), ("c", "4")];
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let expected = [("JOBWRIGHT_HEADER_A_B", Header::Shared(3)), ("JOBWRIGHT_HEADER_C", Header::Alone("4"))];
        assert!(header_variables(&headers).into_iter().eq(expected.map(|(name, header)| (name.to_owned(), header))));
    }

    #[test]
    fn headers_that_do_not_fit_take_no_space() {
        let mut space = Space(100);
        assert!(space.takes("NAME", &"x".repeat(50)));
        assert!(!space.takes("NAME", &"x".repeat(50)));
        assert!(!space.takes("NAME", "a\0b"));
        assert!(space.takes("NAME", ""));
        let mut space = Space(usize::MAX);
        assert!(!space.takes("NAME", &"x".repeat(LARGEST)));
        assert!(space.takes("NAME", &"x".repeat(LARGEST - 20)));
    }
}
