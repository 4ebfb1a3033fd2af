//! The kind of an error that may be a driver's.

use super::postgres;
#[cfg(feature = "sqlite")]
use super::sqlite;

/// Returns the kind of an error, if it or one of its causes is a driver's error or ours.
pub(crate) fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<crate::ErrorKind> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
        if let Some(error) = error.downcast_ref::<crate::Error>() {
            return Some(error.kind());
        }
        #[cfg(feature = "sqlite")]
        if let Some(kind) = sqlite::driver_kind(error) {
            return Some(kind);
        }
        #[cfg(feature = "sqlx-0_8")]
        if let Some(kind) = postgres::sqlx_0_8::driver_kind(error) {
            return Some(kind);
        }
        #[cfg(feature = "sqlx-0_9")]
        if let Some(kind) = postgres::sqlx_0_9::driver_kind(error) {
            return Some(kind);
        }
        postgres::driver_kind(error)
    })
}
