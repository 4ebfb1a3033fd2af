//! Why a command failed, and its exit code.

use std::error::Error as _;
use std::fmt;
use std::process::ExitCode;

use jobwright::ErrorKind;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library.
    Library(jobwright::Error),
    /// The command line or the configuration can't be used.
    Usage(String),
    /// The command's peer does not answer.
    Unreachable(String),
    /// The command ran and failed.
    Failed(String),
    /// The command succeeded, but jobs are left that can't run.
    Left(String),
    /// The user has interrupted the command. The text says what was done.
    Interrupted(String),
    /// The reader of the output has gone (`jobwright jobs list | head`), which is no failure.
    OutputClosed,
}

impl Failure {
    /// Returns 0 done, 1 failed, 2 usage or another installation, 3 not reachable, 4 jobs are left, 130 interrupted.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::Left(_) => 4,
            // As a shell reports a program that SIGINT ended.
            Self::Interrupted(_) => 130,
            Self::Library(error) => match error.kind() {
                ErrorKind::Config | ErrorKind::Invalid | ErrorKind::Installation => 2,
                ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Busy => 3,
                _ => 1,
            },
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => {
                write!(f, "{error}")?;
                // A cause that adds nothing new is left out.
                let text = error.to_string();
                let cause = error
                    .source()
                    .map(ToString::to_string)
                    .filter(|cause| cause != "db error" && !text.contains(cause.as_str()));
                cause.map_or(Ok(()), |cause| write!(f, " ({cause})"))
            }
            Self::Usage(text)
            | Self::Unreachable(text)
            | Self::Failed(text)
            | Self::Left(text)
            | Self::Interrupted(text) => f.write_str(text),
            Self::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<jobwright::Error> for Failure {
    fn from(error: jobwright::Error) -> Self {
        Self::Library(error)
    }
}
