//! The library's one error type.
//!
//! The message of an [`Error`] says in one sentence for people what was tried, on what, why it failed and what to do. Programs use its
//! predicates ([`Error::is_retryable`], [`Error::is_invalid`] …) or [`Error::kind`]. No message ever contains a password or a payload.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Result with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error, such as the reason of a send hook for refusing a job, or of a codec for refusing content. `"no tenant".into()` makes one from
/// a text.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The kind of an error. Stable; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input was refused (`JW-INVALID`). Nothing was changed, and the called object stays usable.
    Invalid,
    /// The configuration can't be used (`JW-CONFIG`).
    Config,
    /// The database or broker can't be reached, or the connection was lost (`JW-UNREACHABLE`). Retrying may help.
    Unreachable,
    /// A deadline passed (`JW-TIMEOUT`). Whether the call took effect is unknown, unless the message says so.
    Timeout,
    /// No connection became free in time, another transaction holds a lock that is needed, another writer locked the embedded database, or
    /// the server is out of a resource such as disk space (`JW-BUSY`). Nothing was kept.
    Busy,
    /// The server accepts no writes, for example a standby after a failover (`JW-READ-ONLY`).
    ReadOnly,
    /// The server rolled the transaction back, or it lost a conflict (`JW-ABORTED`). Nothing of it was kept.
    Aborted,
    /// The outcome of a commit is unknown (`JW-COMMIT-UNKNOWN`): `COMMIT` was sent, the answer was lost, and the server could not be asked
    /// afterwards. Or the wait for a synchronous standby was cancelled, so the commit may exist on this server only. Or a custom message
    /// service failed while its messages were being committed, or after that.
    CommitUnknown,
    /// A job that must be unique was sent, and another one holds its key. Or a job was sent with an id that a job of another kind or queue has
    /// (`JW-CONFLICT`). Nothing was written.
    Conflict,
    /// A queue holds as many waiting jobs as its rule allows (`JW-FULL`). Nothing was written. Retrying may help.
    Full,
    /// A custom message service refused a send or a flush (`JW-REFUSED`). Nothing was kept.
    Refused,
    /// The database schema is missing, older than this build needs, or too new for this build (`JW-SCHEMA`).
    Schema,
    /// The database refused a statement for another reason (`JW-DATABASE`).
    Database,
    /// The database does not know the node that wants to claim, or the node was declared dead (`JW-LEASE-LOST`). An executor registers
    /// again.
    LeaseLost,
    /// The file of an embedded database was moved, removed or replaced while it was open (`JW-REPLACED`). Writes from here on are lost:
    /// stop, and open the file again.
    Replaced,
    /// The database is a copy of another installation's, or the queues of the broker belong to another installation (`JW-INSTALLATION`). Nothing was
    /// taken. The message says how to go on: the program `jobwright` adopts a copy, and claims the queues.
    Installation,
    /// The broker refused a request: missing rights, or a queue that is missing or declared differently (`JW-BROKER`).
    Broker,
}

impl ErrorKind {
    /// Returns the stable code of this kind, as printed in front of the message.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "JW-INVALID",
            Self::Config => "JW-CONFIG",
            Self::Unreachable => "JW-UNREACHABLE",
            Self::Timeout => "JW-TIMEOUT",
            Self::Busy => "JW-BUSY",
            Self::ReadOnly => "JW-READ-ONLY",
            Self::Aborted => "JW-ABORTED",
            Self::CommitUnknown => "JW-COMMIT-UNKNOWN",
            Self::Conflict => "JW-CONFLICT",
            Self::Full => "JW-FULL",
            Self::Refused => "JW-REFUSED",
            Self::Schema => "JW-SCHEMA",
            Self::Database => "JW-DATABASE",
            Self::LeaseLost => "JW-LEASE-LOST",
            Self::Replaced => "JW-REPLACED",
            Self::Installation => "JW-INSTALLATION",
            Self::Broker => "JW-BROKER",
        }
    }

    pub(crate) const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::Timeout
                | Self::Busy
                | Self::ReadOnly
                | Self::Aborted
                | Self::CommitUnknown
                | Self::Full
        )
    }
}

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// The error is part of an outage that is logged anyway.
    already_logged: bool,
    /// It is known that nothing was kept.
    kept_nothing: bool,
    /// The database would refuse every other statement of this sort too.
    refuses_all: bool,
    /// Another transaction holds a lock that decides about it.
    undecided: bool,
}

/// An error, for people and for programs.
pub struct Error(Box<Inner>);

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
            already_logged: false,
            kept_nothing: false,
            refuses_all: false,
            undecided: false,
        }))
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Copies the error for another caller that it affects.
    pub(crate) fn for_another(&self) -> Self {
        let Inner { kind, message, source, already_logged, kept_nothing, refuses_all, undecided } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            message: message.clone(),
            source: source.clone(),
            already_logged: *already_logged,
            kept_nothing: *kept_nothing,
            refuses_all: *refuses_all,
            undecided: *undecided,
        }))
    }

    /// Marks the error as part of an outage, which is logged once for everything that it affects.
    pub(crate) fn already_logged(mut self) -> Self {
        self.0.already_logged = true;
        self
    }

    /// Whether the error is logged anyway. See [`warn_of`].
    pub(crate) fn is_already_logged(&self) -> bool {
        self.0.already_logged
    }

    /// Marks the error as an answer of the database that proves that nothing was kept.
    pub(crate) fn keeping_nothing(mut self) -> Self {
        self.0.kept_nothing = true;
        self
    }

    /// Whether it is known that nothing was kept. Otherwise something may have been.
    pub(crate) fn kept_nothing(&self) -> bool {
        self.0.kept_nothing
    }

    /// Marks the error as one that no job and no message is to blame for: the database refuses every statement of this sort, for lack of a
    /// right for example.
    pub(crate) fn refusing_all(mut self) -> Self {
        self.0.refuses_all = true;
        self
    }

    /// Whether the database refuses every statement of this sort, until something changes there.
    pub(crate) fn refuses_all(&self) -> bool {
        self.0.refuses_all
    }

    /// Marks the error as one of a lock that another transaction holds: the call was right, and nobody can say yet how it ends.
    pub(crate) fn undecided(mut self) -> Self {
        self.0.undecided = true;
        self
    }

    /// Whether another transaction has to end first. The call neither failed nor succeeded, so it counts as no try.
    pub(crate) fn is_undecided(&self) -> bool {
        self.0.undecided
    }

    /// Whether the call may have taken effect although no good answer came.
    pub(crate) fn may_have_taken_effect(&self) -> bool {
        !self.0.kept_nothing
            && matches!(self.0.kind, ErrorKind::CommitUnknown | ErrorKind::Unreachable | ErrorKind::Timeout)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A dry run was asked to do something that can't be counted.
    pub(crate) fn no_dry_run(what: &str) -> Self {
        Self::invalid(format!("a dry run can't {what}: only operations on jobs, and a backfill, can be counted first"))
    }

    pub(crate) fn config(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable code, for example `JW-TIMEOUT`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Whether the caller's input was refused; nothing was changed.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == ErrorKind::Invalid
    }

    /// Whether the same call may succeed later without any change by the caller: outages, deadlines, conflicts.
    ///
    /// After an [`ErrorKind::Timeout`] or [`ErrorKind::CommitUnknown`], the first try may have taken effect.
    pub fn is_retryable(&self) -> bool {
        self.0.kind.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = self.source();
        while let Some(cause) = source {
            write!(f, "; caused by: {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Logs a warning of an error, or only a debug message if the error is part of an outage that is logged once for all (`store/outage.rs`).
macro_rules! warn_of {
    ($error:expr, $($rest:tt)+) => {
        if $error.is_already_logged() {
            tracing::debug!(error = %$error, $($rest)+)
        } else {
            tracing::warn!(error = %$error, $($rest)+)
        }
    };
}
pub(crate) use warn_of;
