//! What is kept beside the jobs: slots, gates and schedules.

use std::time::Duration;

use jobwright::store::schedules::Which;

use super::Finding;
use super::database::Messages;
use crate::commands::patience::patiently;
use crate::config::Settings;

/// What is overdue for less may be under way.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what others change all the time: what is wrong in both is no moment's picture.
const PAUSE: Duration = Duration::from_secs(1);
/// How many are named.
const NAMED: usize = 3;
/// Schedules read at once.
const SCHEDULES: usize = 100;

const SELECT: &str = "looking needs `select` on all tables of the schema";

pub(super) async fn check(settings: &Settings, messages: &Messages) -> Vec<Finding> {
    let checks = [
        slots(settings, messages).await,
        patiently(settings, gates(messages)).await,
        patiently(settings, schedules(messages)).await,
        patiently(settings, ahead(messages)).await,
    ];
    checks.into_iter().map(|check| check.unwrap_or_else(|(name, error)| Finding::error(name, error, SELECT))).collect()
}

type Checked = Result<Finding, (&'static str, jobwright::Error)>;

/// Whether what holds groups and places under limits is there, and what waits for them will be started.
async fn slots(settings: &Settings, messages: &Messages) -> Checked {
    const CHECK: &str = "slots";
    let look = async || patiently(settings, messages.jobs().slot_faults()).await.map_err(|error| (CHECK, error));
    let mut faults = look().await?;
    if !faults.is_empty() {
        tokio::time::sleep(PAUSE).await;
        let again = look().await?;
        faults.retain(|fault| again.contains(fault));
    }
    if faults.is_empty() {
        return Ok(Finding::ok(CHECK, "nothing is held by what is gone, nothing waits for ever"));
    }
    let todo = "somebody changed the tables by hand? Put the rule of what waits again (`jobwright rules put`), which opens its gate; \
                `jobs suspend` and `jobs resume` send a job through admission anew";
    Ok(Finding::warn(CHECK, some(&faults, "; "), todo))
}

/// Whether anybody admits what groups and limits hold back.
async fn gates(messages: &Messages) -> Checked {
    const CHECK: &str = "gates";
    let overdue = messages.jobs().overdue_openings().await.map_err(|error| (CHECK, error))?;
    if overdue.longest < PATIENCE {
        return Ok(Finding::ok(CHECK, "none has been open for long"));
    }
    let found = format!(
        "{} opened, the first {} ago, and nobody looked behind them: jobs of groups and limits do not start",
        overdue.openings,
        ago(overdue.longest)
    );
    Ok(Finding::warn(CHECK, found, "start `jobwright worker`; if one runs, its log says why it admits nothing"))
}

/// Whether anybody fires schedules.
async fn schedules(messages: &Messages) -> Checked {
    const CHECK: &str = "schedules";
    let due = messages.jobs().read_schedules(Which::Due(100)).await;
    let (now, due) = due.map_err(|error| (CHECK, error))?;
    let overdue: Vec<String> = due
        .iter()
        .filter_map(|one| Some((one, Duration::try_from(now.duration_since(one.next_at?)).ok()?)))
        .filter(|(_, late)| *late >= PATIENCE)
        .map(|(one, late)| format!("{} has been due for {}", one.spec.name, ago(late)))
        .collect();
    if overdue.is_empty() {
        return Ok(Finding::ok(CHECK, "none is overdue"));
    }
    let todo = "start `jobwright worker`; if one runs, its log says why it fires nothing (a zone it does not know?)";
    Ok(Finding::warn(CHECK, some(&overdue, ", "), todo))
}

/// Whether the clock was ahead when something was written: what that is about is late, or looks younger than it is.
async fn ahead(messages: &Messages) -> Checked {
    const CHECK: &str = "ahead of the clock";
    let failed = |error| (CHECK, error);
    let mut found: Vec<String> = messages
        .jobs()
        .ahead_of_clock()
        .await
        .map_err(failed)?
        .iter()
        .map(|ahead| {
            let rows = if ahead.rows == 1 { "row" } else { "rows" };
            format!("{} ({} {rows}, up to {})", ahead.what, ahead.rows, ago(ahead.farthest))
        })
        .collect();
    let mut after = None;
    loop {
        let page = Which::Page { after: after.as_deref(), limit: SCHEDULES };
        let (now, schedules) = messages.jobs().read_schedules(page).await.map_err(failed)?;
        let late = schedules.iter().filter(|schedule| schedule.computed_again(now).is_some());
        found.extend(late.filter_map(|schedule| {
            let wait = Duration::try_from(schedule.next_at?.duration_since(now)).ok()?;
            Some(format!(
                "the schedule {} (next in {}, and there is an occurrence before)",
                schedule.spec.name,
                ago(wait)
            ))
        }));
        match schedules.into_iter().nth(SCHEDULES - 1) {
            Some(last) => after = Some(last.spec.name),
            None => break,
        }
    }
    if found.is_empty() {
        return Ok(Finding::ok(CHECK, "nothing was written by a clock that was ahead"));
    }
    let todo = "look at the time synchronisation of the database's host. If its clock is behind now, nothing else is wrong; if it was ahead and \
                is right, a running worker sets right what holds up work (after its start, when it sees the clock set, and every ten minutes). \
                Timers that somebody asked for stay: `jobwright jobs list --state timer`, `jobs change ID --at …`";
    Ok(Finding::warn(CHECK, some(&found, "; "), todo))
}

/// The first few, and how many there are.
fn some(all: &[String], between: &str) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(between);
    if more == 0 { named } else { format!("{named}{between}and {more} more") }
}

fn ago(time: Duration) -> String {
    format!("{:?}", Duration::from_secs(time.as_secs()))
}
