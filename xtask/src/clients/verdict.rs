//! The meaning of a script's end: whether something was found wrong, or could not be checked at all.

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    Failed(String),
    /// A program, or the registry of its packages.
    Missing(String),
}

/// Signs of a registry that did not answer, as Maven and pip show them: pip when it tries for the last time.
const SILENCE: [&str; 2] = ["Could not transfer artifact", "Retrying (Retry(total=0"];

/// The codes of npm for the same.
const CODES: [&str; 7] =
    ["EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND", "ETIMEDOUT"];

/// Whether a line says that a registry did not answer.
fn is_silence(line: &str) -> bool {
    let code = line.strip_prefix("npm ").and_then(|rest| rest.split_once(" code ")).map(|(_, code)| code.trim());
    SILENCE.iter().any(|sign| line.contains(sign)) || code.is_some_and(|code| CODES.contains(&code))
}

/// Signs of something that was checked and found wrong: of Maven, of clients/python/check.sh, and of Node's test runner.
const FOUND: [&str; 8] = [
    "There are test failures",
    "<<< FAILURE!",
    "<<< ERROR!",
    "COMPILATION ERROR",
    ": tests failed",
    ": mypy failed",
    ": ruff failed",
    "\nnot ok ",
];

/// Tells from the exit code of a script and from its output.
pub(super) fn of(script: &str, code: Option<i32>, said: &str) -> Verdict {
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match code {
        Some(0) => Verdict::Passed,
        Some(2) => Verdict::Missing(last.to_owned()),
        // What was found counts, also if something else could not be downloaded.
        _ if FOUND.iter().any(|sign| said.contains(sign)) => failed(script, code),
        _ if said.lines().any(is_silence) => {
            Verdict::Missing("the registry of its packages can't be reached: its output is above".to_owned())
        }
        _ => failed(script, code),
    }
}

fn failed(script: &str, code: Option<i32>) -> Verdict {
    let how = code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
    Verdict::Failed(format!("`{script}` {how}: its output is above"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_missing(code: i32, said: &str) -> bool {
        matches!(of("check.sh", Some(code), said), Verdict::Missing(_))
    }

    #[test]
    fn exit_codes_tell_what_is_missing_from_what_is_wrong() {
        assert_eq!(of("check.sh", Some(0), "not ok 1 - x"), Verdict::Passed);
        assert_eq!(
            of("check.sh", Some(2), "a\nnode is not installed\n\n"),
            Verdict::Missing("node is not installed".to_owned())
        );
        assert!(matches!(of("check.sh", Some(1), ""), Verdict::Failed(why) if why.contains("ended with 1")));
        assert!(matches!(of("check.sh", None, ""), Verdict::Failed(_)));
        // `timeout` ends a script that hangs.
        assert!(matches!(of("check.sh", Some(124), ""), Verdict::Failed(_)));
    }

    /// The lines are those of Maven 3.8, pip 23, npm 11 and npm 9.
    #[test]
    fn a_silent_registry_is_no_failure() {
        for line in [
            "[ERROR] Plugin a:b:3.3.1 or one of its dependencies could not be resolved: Could not transfer artifact a:b:pom:3.3.1 from/to central: repo: Temporary failure in name resolution",
            "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError'\nERROR: No matching distribution found for psycopg\nnewest: packages, for Python 3.12.8 (python3.12) failed",
            "npm ERR! code ECONNREFUSED\nnpm ERR! syscall connect",
            "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\nnpm could not install the packages of package-lock.json",
        ] {
            assert!(is_missing(1, line), "{line}");
        }
    }

    #[test]
    fn a_failed_test_counts_also_beside_a_silent_registry() {
        let silence =
            "[WARNING] Could not transfer artifact a:b:pom:1 from/to central\nWARNING: Retrying (Retry(total=0\n";
        for line in [
            "[ERROR] There are test failures.",
            "[ERROR] JobsTest.sends <<< FAILURE!",
            "oldest: tests failed",
            "\nnot ok 3 - an order",
        ] {
            assert!(!is_missing(1, &format!("{silence}{line}")), "{line}");
        }
        assert!(!is_missing(
            1,
            "npm error code EUSAGE\nnpm error `npm ci` can only install packages when your package.json and lock are in sync"
        ));
    }
}
