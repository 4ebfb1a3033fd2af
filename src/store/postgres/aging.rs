//! Aging: raises the priority of jobs that have waited long.

use std::sync::Arc;

use uuid::Uuid;

use super::around::may_be_of_rows;
use super::client::Params;
use super::parts::in_parts_of;
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
        let of_all: Option<Vec<Uuid>> = None;
        let params: Params<'_> = &[&queue, &aging, &limit, &blocked_on];
        let all: Params<'_> = &[&queue, &aging, &limit, &blocked_on, &of_all];
        let raise = || shared.engine(what, &shared.sql.age, all);
        let aged = async || {
            let rows = shared.engine(what, &shared.sql.aging_jobs, &[&queue, &blocked_on, &limit]).await?;
            rows.iter().map(Found::read).collect()
        };
        raised += match raise().await {
            Err(error) if clear_away_idle(shared, &error, aged()).await => rows::single_count(&raise().await?)?,
            Err(error) if may_be_of_rows(&error) => {
                let old = shared.engine(what, &shared.sql.old_jobs, params).await?;
                let old = old.iter().map(|row| rows::get(row, "id")).collect::<Result<Vec<Uuid>>>()?;
                let (answers, _) = in_parts_of(shared, what, (&shared.sql.age, params), &old).await?;
                answers.iter().map(|answer| rows::single_count(answer)).sum::<Result<u64>>()?
            }
            answer => rows::single_count(&answer?)?,
        };
    }
    Ok(raised)
}
