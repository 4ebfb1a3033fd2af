//! `jobwright demo`: the guided tour.

use clap::Args;

use crate::failure::Failure;

/// Flags of the tour.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  jobwright demo\n  jobwright demo --database-url postgres://postgres@localhost/test"
)]
pub(crate) struct DemoArgs {}

pub(crate) async fn run(_args: DemoArgs, _database_url: Option<String>) -> Result<(), Failure> {
    Ok(())
}
