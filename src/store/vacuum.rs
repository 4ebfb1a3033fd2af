use std::collections::BTreeMap;

use serde::Serialize;

/// What keeps the tables from being cleaned up, from [`Admin::vacuum`](crate::admin::Admin::vacuum).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct VacuumStatus {
    /// Dead rows by table, as the server's statistics count them: of the tables that executors change all the time.
    pub dead_rows: BTreeMap<String, u64>,
    /// What keeps dead rows from being removed: of each kind of holder the oldest.
    pub holders: Vec<XminHolder>,
    /// Sessions that this role sees nothing of, because it lacks `pg_read_all_stats`. They may hold for longer.
    pub hidden_sessions: u64,
}

/// What keeps dead rows from being removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct XminHolder {
    /// What it is: `session`, `prepared transaction`, `standby` (one that sends feedback without a slot) or `replication slot`.
    pub kind: String,
    /// Its name for people.
    pub name: String,
    /// How many transactions have begun since.
    pub transactions: u64,
    /// Seconds since its transaction began; `None` = it has an age in transactions only.
    pub seconds: Option<f64>,
}
