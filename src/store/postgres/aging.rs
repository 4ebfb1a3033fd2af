//! Aging: raises the priority of jobs that have waited long.

use std::sync::Arc;

use super::client::Params;
use super::rows;
use super::shared::Shared;
use super::unreadable::{Found, clear_away_idle};
use crate::error::Result;
use crate::store::Scope;

pub(super) async fn age_jobs(shared: &Arc<Shared>, limit: usize) -> Result<u64> {
    let what = "raise jobs that have waited long";
    let mut raised = 0;
    for row in &shared.engine(what, &shared.sql.aging_queues, &[]).await? {
        let (queue, aging): (String, i64) = (rows::get(row, "queue")?, rows::get(row, "aging")?);
        let blocked_on = format!("{}{queue}", Scope::Queue.prefix());
        let limit = rows::count(limit);
        let params: Params<'_> = &[&queue, &aging, &limit, &blocked_on];
        let raise = || shared.engine(what, &shared.sql.age, params);
        let aged = async || {
            let rows = shared.engine(what, &shared.sql.aging_jobs, &[&queue, &blocked_on, &limit]).await?;
            rows.iter().map(Found::read).collect()
        };
        let answer = match raise().await {
            Err(error) if clear_away_idle(shared, &error, aged()).await => raise().await?,
            answer => answer?,
        };
        raised += rows::get::<i64>(rows::single(&answer)?, 0)?.unsigned_abs();
    }
    Ok(raised)
}
