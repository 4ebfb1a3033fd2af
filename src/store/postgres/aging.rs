//! Aging: raises the priority of jobs that have waited long.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::Scope;

pub(super) async fn age_jobs(shared: &Arc<Shared>, limit: usize) -> Result<u64> {
    let what = "raise jobs that have waited long";
    let mut raised = 0;
    for row in &shared.engine(what, &shared.sql.aging_queues, &[]).await? {
        let (queue, aging): (String, i64) = (rows::get(row, "queue")?, rows::get(row, "aging")?);
        let blocked_on = format!("{}{queue}", Scope::Queue.prefix());
        let answer = shared.engine(what, &shared.sql.age, &[&queue, &aging, &rows::count(limit), &blocked_on]).await?;
        raised += rows::get::<i64>(rows::single(&answer)?, 0)?.unsigned_abs();
    }
    Ok(raised)
}
