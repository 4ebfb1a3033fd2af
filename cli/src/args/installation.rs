//! Arguments of `jobwright adopt` and `jobwright broker claim`.

use clap::Args;

use super::shared::{OperatorArgs, OutputArgs};

pub(super) const ADOPT_HELP: &str = "\
A database records the server, database and schema that it was made for. If it is restored or cloned elsewhere, no worker starts until one
of these commands is run, as the owner of the schema:
  jobwright adopt           this is a copy: it gets an id of its own, and a new report key
  jobwright adopt --moved   this takes the place of the original, which is gone for good: it keeps the id

Example:
  jobwright adopt
  jobwright adopt --moved --as ann";

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// Keep the id: this database takes the place of the one from which it was copied.
    #[arg(long)]
    pub(crate) moved: bool,
    /// Also adopt a database that looks like the original: a physical copy (a base backup, a snapshot), or the copy of a file. With --moved: even
    /// if this role can't read the identifier of the server, which is then no longer recorded.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    /// Take the queues over from another installation. Stop its executors first.
    #[arg(long)]
    pub(crate) take_over: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
