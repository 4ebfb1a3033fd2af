//! Errors of the AMQP client, converted into jobwright's errors.

use std::time::Duration;

use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::types::ShortString;

use crate::error::{Error, ErrorKind, Result};

/// The deadline for closing anything: a peer that does not answer is not worth more.
pub(super) const CLOSING: Duration = Duration::from_secs(2);

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// 404.
    Missing(String),
    /// 406: it exists with other settings.
    Differs(String),
    /// 403: a permission is missing.
    Forbidden(String),
    /// The queues belong to another installation.
    Foreign(String),
    /// Another error from the broker.
    Refused(String),
    /// No connection.
    Lost(String),
    /// No answer within this time.
    Timeout(Duration),
}

impl Failure {
    pub(super) fn into_error(self, tried: &str) -> Error {
        match self {
            Self::Lost(why) => Error::new(ErrorKind::Unreachable, format!("can't {tried}: {why}")),
            Self::Timeout(after) => {
                Error::new(ErrorKind::Timeout, format!("can't {tried}: the broker did not answer within {after:?}"))
            }
            Self::Foreign(why) => Error::new(ErrorKind::Installation, format!("can't {tried}: {why}")),
            Self::Missing(why) | Self::Differs(why) | Self::Forbidden(why) | Self::Refused(why) => {
                Error::new(ErrorKind::Broker, format!("can't {tried}: {why}"))
            }
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Timeout(after) => format!("no answer within {after:?}"),
            Self::Missing(why)
            | Self::Differs(why)
            | Self::Forbidden(why)
            | Self::Foreign(why)
            | Self::Refused(why)
            | Self::Lost(why) => why.clone(),
        }
    }
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            lapin::ErrorKind::ProtocolError(said) => {
                let text = said.get_message().to_string();
                match said.kind() {
                    AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => Self::Missing(text),
                    AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => Self::Differs(text),
                    AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Self::Forbidden(text),
                    // The broker stops, or an operator closed the connection.
                    AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED) => Self::Lost(text),
                    _ => Self::Refused(text),
                }
            }
            lapin::ErrorKind::IOError(why) => Self::Lost(why.to_string()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

/// Makes a call with a deadline.
pub(super) async fn within<T>(deadline: Duration, call: impl Future<Output = lapin::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::Timeout(deadline)),
    }
}

/// Converts a name. The client's own conversion panics on a name that is too long for AMQP.
pub(super) fn short(name: &str) -> Result<ShortString, Failure> {
    ShortString::try_new(name)
        .map_err(|_| Failure::Refused(format!("the name has {} bytes, AMQP has room for 255", name.len())))
}
