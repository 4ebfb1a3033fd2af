//! Arguments of `jobwright grants`.

use clap::Args;

use crate::grants::{Extra, Purpose};

pub(super) const GRANTS_HELP: &str = "\
The rights are those that a role needs with this version, and no more. Grant them again after an upgrade. Nothing is revoked. A role with two purposes
gets both.

Example:
  jobwright grants sender web | psql -v ON_ERROR_STOP=1 app
  jobwright grants executor worker --with external --apply
  jobwright grants worker billing --queue invoices --apply";

#[derive(Debug, Args)]
pub(crate) struct GrantsArgs {
    /// The purpose of the role.
    #[arg(value_enum)]
    pub(crate) purpose: Purpose,
    /// The role.
    pub(crate) role: String,
    /// Also grant the rights that only some roles of this purpose need (repeatable).
    #[arg(long, value_enum, value_name = "EXTRA")]
    pub(crate) with: Vec<Extra>,
    /// For a worker: a queue from which it may take jobs (repeatable); `*` = all.
    #[arg(long, value_name = "QUEUE", required_if_eq("purpose", "worker"))]
    pub(crate) queue: Vec<String>,
    /// Grant them, as the owner of the schema, instead of printing the statements.
    #[arg(long)]
    pub(crate) apply: bool,
}
