//! Aging: raises the priority of jobs that have waited long.

use std::sync::Arc;

use uuid::Uuid;

use super::around::may_be_of_rows;
use super::aside::in_parts;
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
        raised += match raise().await {
            Err(error) if clear_away_idle(shared, &error, aged()).await => rows::single_count(&raise().await?)?,
            Err(error) if may_be_of_rows(&error) => {
                let found: Vec<Uuid> = aged().await?.iter().map(|found| found.id().into()).collect();
                let mut some = 0;
                for answer in in_parts(shared, what, (&shared.sql.age, params), &found).await? {
                    some += rows::single_count(&answer)?;
                }
                some
            }
            answer => rows::single_count(&answer?)?,
        };
    }
    Ok(raised)
}
