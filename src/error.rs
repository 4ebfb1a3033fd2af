//! The one error type of the library.
//!
//! An [`Error`] says what was tried, on what, why it failed and what to do, in one sentence for a person;
//! programs ask it with predicates ([`Error::is_retryable`], [`Error::is_invalid`] …) or by [`Error::kind`].
//! No message ever carries a password or a payload.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Result with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error: what a send hook may refuse a job with, or a codec a content. `"no tenant".into()` makes one of a text.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What kind of thing went wrong. Stable; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input was refused (`JW-INVALID`). Nothing was changed, and what it was given to stays usable.
    Invalid,
    /// The configuration can't be used (`JW-CONFIG`).
    Config,
    /// The database or broker can't be reached, or the connection was lost (`JW-UNREACHABLE`). Retrying may help.
    Unreachable,
    /// A deadline passed (`JW-TIMEOUT`). Whether the call took effect is not known, unless the text says so.
    Timeout,
    /// No connection became free in time, another writer held the embedded database, or the server is out of a resource such as its disk
    /// (`JW-BUSY`). Nothing was kept.
    Busy,
    /// The server accepts no writes, for instance a standby after a failover (`JW-READ-ONLY`).
    ReadOnly,
    /// The transaction was rolled back by the server or lost a conflict (`JW-ABORTED`). Nothing of it was kept.
    Aborted,
    /// `COMMIT` was sent and the answer got lost, and the server could not be asked afterwards; or somebody ended its wait for a
    /// synchronous standby, so that it may stand on this server only; or a message service of the program failed while its messages were
    /// being committed, or after that (`JW-COMMIT-UNKNOWN`).
    CommitUnknown,
    /// A job was sent that must be unique, and another one holds its key (`JW-CONFLICT`). Nothing was written.
    Conflict,
    /// A queue holds as many waiting jobs as its rule allows (`JW-FULL`). Nothing was written. Retrying may help.
    Full,
    /// A message service of the program refused a send or a flush (`JW-REFUSED`). Nothing was kept.
    Refused,
    /// The database schema is missing, older or newer than this build needs (`JW-SCHEMA`).
    Schema,
    /// The database refused a statement for another reason (`JW-DATABASE`).
    Database,
    /// A node that wants to claim is not known to the database, or was declared dead there (`JW-LEASE-LOST`). An executor registers anew.
    LeaseLost,
    /// The file of an embedded database was moved, removed or replaced while it was open (`JW-REPLACED`). What is written from here on is lost:
    /// stop, and open it anew.
    Replaced,
    /// The broker refused what was asked: rights, a queue that is missing or was declared otherwise (`JW-BROKER`).
    Broker,
}

impl ErrorKind {
    /// The stable code of this kind, as printed in front of the message.
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
    /// It is part of an outage that the log tells of anyway.
    told: bool,
    /// It is known that nothing was kept.
    kept_nothing: bool,
}

/// What went wrong, for people and for programs.
pub struct Error(Box<Inner>);

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), source: None, told: false, kept_nothing: false }))
    }

    pub(crate) fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The same for somebody else who is hit by it too.
    pub(crate) fn for_another(&self) -> Self {
        let Inner { kind, message, source, told, kept_nothing } = &*self.0;
        let (kind, told, kept_nothing) = (*kind, *told, *kept_nothing);
        Self(Box::new(Inner { kind, message: message.clone(), source: source.clone(), told, kept_nothing }))
    }

    /// Marks it as part of an outage that the log tells of, once for all that it hits.
    pub(crate) fn told(mut self) -> Self {
        self.0.told = true;
        self
    }

    /// The log tells of it anyway: see [`warn_of`].
    pub(crate) fn is_told(&self) -> bool {
        self.0.told
    }

    /// Marks it as an answer of the database after which nothing of what was asked for stands.
    pub(crate) fn keeping_nothing(mut self) -> Self {
        self.0.kept_nothing = true;
        self
    }

    /// It is known that nothing of what was asked for was kept. Otherwise it may have been.
    pub(crate) fn kept_nothing(&self) -> bool {
        self.0.kept_nothing
    }

    /// No good answer came, and it may have taken effect all the same.
    pub(crate) fn may_have_taken_effect(&self) -> bool {
        !self.0.kept_nothing
            && matches!(self.0.kind, ErrorKind::CommitUnknown | ErrorKind::Unreachable | ErrorKind::Timeout)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn config(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code, for instance `JW-TIMEOUT`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// The caller's input was refused; nothing was changed.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == ErrorKind::Invalid
    }

    /// The same call may succeed later without any change by the caller: outages, deadlines, conflicts.
    ///
    /// After a [`ErrorKind::Timeout`] or [`ErrorKind::CommitUnknown`] the first try may have taken effect.
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

/// Warns of an error; quietly, if it is part of an outage that the log tells of once for all that it hits (`store/outage.rs`).
macro_rules! warn_of {
    ($error:expr, $($rest:tt)+) => {
        if $error.is_told() {
            tracing::debug!(error = %$error, $($rest)+)
        } else {
            tracing::warn!(error = %$error, $($rest)+)
        }
    };
}
pub(crate) use warn_of;
