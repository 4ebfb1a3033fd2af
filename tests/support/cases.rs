//! Tests that run against each kind of database.

#![allow(unused_macros, reason = "the stores have no such tests")]

/// Defines a test for each case of each module, on a database file and on PostgreSQL.
macro_rules! cases {
    ($($cases:tt)*) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            cases_on! { crate::support::sqlite::SqliteDb, $($cases)* }
        }
        mod postgres {
            cases_on! { crate::support::postgres::Pg<false>, $($cases)* }
        }
    };
}

/// Does the same, and defines those of the second list once more with transactions of sqlx, of the newest version: there contexts or
/// handlers use theirs.
macro_rules! cases_with_sqlx {
    ({ $($others:tt)* } { $($with_sqlx:tt)* }) => {
        cases! { $($others)* $($with_sqlx)* }
        mod sqlx {
            cases_on! { crate::support::sqlx_0_9::SqlxDb, $($with_sqlx)* }
        }
    };
}

macro_rules! cases_on {
    ($db:ty, $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            use crate::support::environment::World;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(db) = <$db>::with_ledger().await {
                    super::super::$module::$case(&db).await;
                }
            })*
        })*
    };
}
