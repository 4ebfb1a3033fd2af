//! Checks that only an embedded database needs.

use jobwright::AnyTransaction;

use super::Finding;
use super::database::Messages;

pub(super) async fn check(messages: &Messages) -> Vec<Finding> {
    match version(messages).await {
        Ok(version) => vec![
            Finding::ok("database version", format!("SQLite {version}, embedded")),
            Finding::ok("clock", "the database's clock is this host's"),
        ],
        Err(error) => {
            vec![Finding::error(
                "database writes",
                error,
                "check the rights on the file and its directory, and who holds it open",
            )]
        }
    }
}

/// Uses a transaction that could write, which also shows whether the file is writable.
async fn version(messages: &Messages) -> jobwright::Result<String> {
    let mut context = messages.begin();
    let version = match context.transaction().await? {
        AnyTransaction::Sqlite(transaction) => {
            transaction.query_row("select sqlite_version()".to_owned(), [], |row| row.get(0)).await?
        }
        _ => String::new(),
    };
    context.rollback().await?;
    Ok(version)
}
