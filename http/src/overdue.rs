//! Work that executors should have done by now.

use std::fmt;
use std::time::Duration;

use jobwright::admin::Admin;
use jobwright::internal::OverdueWork;

use crate::encode::Writer;

/// How long each sort of work has been due; `None` = nothing is.
#[derive(Debug)]
pub(crate) struct Overdue {
    work: OverdueWork,
    admission: Duration,
    schedules: Option<Duration>,
}

impl Overdue {
    pub(crate) async fn read(admin: &Admin) -> jobwright::Result<Self> {
        let (work, admission) = tokio::try_join!(admin.overdue_work(), admin.overdue_unblocks())?;
        // The one that has been due the longest is the first.
        let schedules = admin.schedules().overdue(1).await?;
        Ok(Self { work, admission: admission.longest, schedules: schedules.first().map(|(_, late)| *late) })
    }

    pub(crate) fn encode(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Self { work: OverdueWork { timers, expiry, external, .. }, admission, schedules } = self;
        let sorts = [
            ("timers", *timers),
            ("expiry", *expiry),
            ("external", *external),
            ("admission", Some(*admission)),
            ("schedules", *schedules),
        ];
        let rows = sorts.map(|(work, late)| (vec![("work", work)], late.unwrap_or_default().as_secs_f64()));
        to.gauge("jobwright_overdue_seconds", "For how long work of executors has been due; 0 = none is", rows)
    }
}
