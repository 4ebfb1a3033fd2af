//! Dead rows and the transactions that keep them, as rows of metrics.

use std::fmt;

use jobwright::internal::VacuumStatus;

use crate::encode::{Labels, Writer};

/// The kinds of holders that have a time.
const WITH_A_TIME: [&str; 2] = ["session", "prepared transaction"];
/// The kinds of holders.
const HOLDERS: [&str; 4] = ["session", "prepared transaction", "standby", "replication slot"];

pub(crate) fn encode(status: &VacuumStatus, to: &mut Writer<'_>) -> fmt::Result {
    let dead = status.dead_rows.iter().map(|(table, count)| (vec![("table", table.as_str())], *count as f64));
    to.gauge("jobwright_dead_rows", "Dead rows by table, as the server counts them", dead)?;
    // A kind without a holder has a row too, so that an alert ends, and a graph shows 0.
    let of = |kind: &str| status.holders.iter().find(|holder| holder.kind == kind);
    let seconds = WITH_A_TIME.map(|kind| (vec![("holder", kind)], of(kind).and_then(|it| it.seconds).unwrap_or(0.0)));
    to.gauge("jobwright_xmin_age_seconds", "Age of the oldest transaction that keeps dead rows", seconds)?;
    let transactions = HOLDERS.map(|kind| (vec![("holder", kind)], of(kind).map_or(0, |it| it.transactions) as f64));
    to.gauge("jobwright_xmin_age_transactions", "How many transactions have begun since that one", transactions)?;
    let hidden = status.hidden_sessions as f64;
    to.gauge(
        "jobwright_hidden_sessions",
        "Sessions whose transactions this role may not see",
        [(Labels::new(), hidden)],
    )
}
