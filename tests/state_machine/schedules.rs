//! Random histories of schedules: each occurrence is one job, whichever node fires it or dies over it, and missed ones are handled as their schedule
//! says.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::admin::{PutOutcome, ScheduleInfo};
use jobwright::headers::{SCHEDULE, SCHEDULED_AT};
use jobwright::internal::Action;
use jobwright::internal::engine::schedules::{
    FireOutcome, Firing, ScheduleQuery, fire_due, pause, put, resume, run_now,
};
use jobwright::internal::engine::{OperatorOptions, Settlement, Verdict, testing};
use jobwright::{JobId, NewJob, NewSchedule, NodeId, Overlap, Schedule};

use crate::state_machine::player::Outcome;
use crate::state_machine::schedules_model::{Model, NAMES, Op, Plan, TICK, Work};
use crate::support::jobs::{LATER, node_info};
use crate::support::{Jobs, SqlDb};

/// How long a rollback of a dead node's transaction may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Player<'a, T: SqlDb> {
    db: &'a T,
    jobs: Jobs,
    node: NodeId,
    /// In half days.
    now: i64,
    passed: u32,
    epochs: usize,
    schedules: BTreeMap<&'static str, Model>,
    /// What nodes have read and are about to fire.
    looks: BTreeMap<usize, Vec<(Firing, usize)>>,
    /// All jobs that ever existed, and all occurrences that had one.
    known: BTreeSet<JobId>,
    happened: BTreeSet<(usize, i64)>,
}

/// Lets a node run this many steps, and die.
async fn mortal<F: Future>(doing: F, steps: Option<usize>) -> Option<F::Output> {
    let Some(mut left) = steps else { return Some(doing.await) };
    let mut doing = Box::pin(doing);
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        doing.as_mut().poll(cx).map(Some)
    })
    .await
}

fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn made(name: &str, plan: &Plan) -> NewSchedule {
    let every = Schedule::new(&format!("PT{}H", 12 * plan.every)).unwrap();
    // Between two occurrences.
    let until = plan.until.map(|until| Timestamp::now() + TICK * until as u32 + TICK / 2);
    let mut schedule = NewSchedule::new(name, every, NewJob::json("kind", &plan.payload).max_attempts(9))
        .misfire(plan.misfire)
        .overlap(plan.overlap);
    if let Some(times) = plan.times {
        schedule = schedule.times(times);
    }
    if let Some(until) = until {
        schedule = schedule.until(until);
    }
    schedule
}

/// Returns the number of the occurrence at this time.
fn number(info: &ScheduleInfo, plan: &Plan, at: Timestamp) -> Outcome<i64> {
    let every = (TICK * plan.every as u32).as_micros() as i64;
    let since = at.as_microsecond() - info.anchor.as_microsecond();
    if since % every == 0 { Ok(since / every) } else { Err(format!("{at} is no occurrence of {info:?}")) }
}

impl<'a, T: SqlDb> Player<'a, T> {
    async fn new(db: &'a T) -> Self {
        let jobs = db.jobs();
        let node = jobs.register_node(&node_info("node")).await.unwrap();
        Self {
            db,
            jobs,
            node,
            now: 0,
            passed: 0,
            epochs: 0,
            schedules: BTreeMap::new(),
            looks: BTreeMap::new(),
            known: BTreeSet::new(),
            happened: BTreeSet::new(),
        }
    }

    async fn play(&mut self, op: &Op) -> Outcome<()> {
        let jobs = self.jobs.clone();
        let store = &*jobs.0;
        let missing = |name: &str, answer: jobwright::Result<bool>| match answer {
            Err(error) if error.is_invalid() => Ok(None),
            Err(error) => Err(format!("{name}: {error}")),
            Ok(changed) => Ok(Some(changed)),
        };
        match op {
            Op::Put { name, plan } => self.put(NAMES[*name], plan).await?,
            Op::Pause(name) => {
                let model = self.schedules.get_mut(NAMES[*name]);
                let expected = model.map(|model| !std::mem::replace(&mut model.paused, true));
                let changed = missing("pause", pause(store, NAMES[*name], None).await)?;
                same("pause", changed, expected)?;
            }
            Op::Resume(name) => {
                let changed = missing("resume", resume(store, NAMES[*name], None).await)?;
                let now = self.now;
                let model = self.schedules.get_mut(NAMES[*name]);
                let expected = model.map(|model| {
                    let paused = model.paused;
                    model.resume(now);
                    paused
                });
                same("resume", changed, expected)?;
            }
            Op::RunNow(name) => match run_now(store, NAMES[*name], None).await {
                Ok((id, _)) => same("one more", self.known.insert(id), true)?,
                Err(error) if error.is_invalid() => same("there", self.schedules.contains_key(NAMES[*name]), false)?,
                Err(error) => return Err(text(error)),
            },
            Op::Delete(name) => {
                let there = self.schedules.remove(NAMES[*name]).is_some();
                let deleted = store.delete_schedules(&[NAMES[*name].to_owned()], None).await.map_err(text)?;
                same("deleted", deleted, u64::from(there))?;
            }
            Op::Pass(ticks) => self.pass(*ticks).await,
            Op::Fire(nodes) => self.fire(nodes).await?,
            Op::Round(limit) => {
                let alive = self.alive().await;
                fire_due(store, *limit).await.map_err(text)?;
                self.look(&alive).await?;
            }
            Op::Look(node) => {
                let (now, due) = store.read_schedules(ScheduleQuery::Due(100)).await.map_err(text)?;
                let epoch = |info: &ScheduleInfo| self.schedules[info.spec.name.as_str()].epoch;
                let plans = due.iter().filter_map(|info| Some((testing::firing(info, now, 5)?, epoch(info))));
                self.looks.insert(*node, plans.collect());
            }
            Op::Strike(node) => self.strike(*node).await?,
            Op::Anew { name, plan } => {
                for op in [Op::Look(0), Op::Delete(*name), Op::Put { name: *name, plan: plan.clone() }, Op::Strike(0)] {
                    Box::pin(self.play(&op)).await?;
                }
            }
            Op::Work(count, work) => self.work(*count, *work).await.map_err(text)?,
        }
        self.agree().await
    }

    async fn put(&mut self, name: &'static str, plan: &Plan) -> Outcome<()> {
        let spec = testing::schedule(made(name, plan)).map_err(text)?;
        self.epochs += 1;
        let expected = match self.schedules.get_mut(name) {
            None => {
                self.schedules.insert(name, Model::new(plan, self.now, self.epochs));
                PutOutcome::Created
            }
            Some(model) => {
                let changed = model.put(plan, self.now, self.epochs);
                if changed { PutOutcome::Changed } else { PutOutcome::Unchanged }
            }
        };
        let done = put(&*self.jobs.0, &spec, None, None).await.map_err(text)?;
        same("put", done.outcome, expected)
    }

    async fn pass(&mut self, ticks: i64) {
        // A little more each time: an occurrence never falls exactly on an earlier one of another day, as it could not if time really passed.
        self.passed += 1;
        self.db.pass(TICK * ticks as u32 + Duration::from_micros(1) * self.passed).await;
        self.now += ticks;
        // They have read times, which can't be moved.
        self.looks.clear();
    }

    /// Returns the schedules whose last job is not over.
    async fn alive(&self) -> BTreeSet<&'static str> {
        let over = |state: JobState| state == JobState::Dead;
        let alive: BTreeSet<JobId> =
            self.jobs.all().await.into_iter().filter(|row| !over(row.state)).map(|row| row.id).collect();
        let has = |model: &Model| model.last_job.is_some_and(|id| alive.contains(&id));
        self.schedules.iter().filter(|(_, model)| has(model)).map(|(name, _)| *name).collect()
    }

    async fn fire(&mut self, nodes: &[(usize, Option<usize>)]) -> Outcome<()> {
        let alive = self.alive().await;
        let mut others = tokio::task::JoinSet::new();
        for (limit, steps) in nodes.iter().copied() {
            let store = Jobs(self.db.store().engine());
            others.spawn(mortal(
                async move {
                    while store.next_schedule().await? == Some(Duration::ZERO) {
                        fire_due(&*store.0, limit).await?;
                    }
                    Ok::<_, jobwright::Error>(())
                },
                steps,
            ));
        }
        let begun = Instant::now();
        while self.jobs.next_schedule().await.map_err(text)? == Some(Duration::ZERO) {
            fire_due(&*self.jobs.0, 3).await.map_err(text)?;
            if begun.elapsed() > PATIENCE {
                return Err("something is due for ever".to_owned());
            }
        }
        for ended in others.join_all().await.into_iter().flatten() {
            ended.map_err(text)?;
        }
        self.look(&alive).await?;
        match self.schedules.iter().find(|(_, model)| model.is_due(self.now)) {
            Some(due) => Err(format!("nothing is due, but {due:?}")),
            None => Ok(()),
        }
    }

    /// Fires what was due when the node read it, if that has not changed since.
    async fn strike(&mut self, node: usize) -> Outcome<()> {
        let Some(plans) = self.looks.remove(&node) else { return Ok(()) };
        let alive = self.alive().await;
        let expected: Vec<FireOutcome> = plans
            .iter()
            .map(|(firing, epoch)| match self.schedules.get(firing.name.as_str()) {
                Some(model) if (model.version, model.epoch) == (firing.seen, *epoch) => {
                    let overlaps = model.plan.overlap == Overlap::Forbid && alive.contains(firing.name.as_str());
                    if overlaps { FireOutcome::Skipped } else { FireOutcome::Sent }
                }
                _ => FireOutcome::Lost,
            })
            .collect();
        let firings: Vec<Firing> = plans.into_iter().map(|(firing, _)| firing).collect();
        let fates = self.jobs.fire_schedules(&firings).await.map_err(text)?;
        same("fates", fates, expected)?;
        self.look(&alive).await
    }

    /// Reads the history of each schedule, and the jobs that it has sent.
    async fn look(&mut self, alive: &BTreeSet<&'static str>) -> Outcome<()> {
        let mut sent: BTreeMap<String, Vec<(Timestamp, JobId, serde_json::Value)>> = BTreeMap::new();
        for row in self.jobs.all().await {
            if self.known.insert(row.id) {
                let detail = self.jobs.detail(row.id).await;
                let at: Timestamp = detail.headers[SCHEDULED_AT].parse().map_err(text)?;
                let payload = detail.payload.decode().map_err(text)?;
                sent.entry(detail.headers[SCHEDULE].clone()).or_default().push((at, row.id, payload));
            }
        }
        for info in self.read().await? {
            let Some(model) = self.schedules.get_mut(info.spec.name.as_str()) else { continue };
            let mut numbers = Vec::new();
            for (at, id, payload) in sent.remove(&info.spec.name).unwrap_or_default() {
                let n = number(&info, &model.plan, at)?;
                if !self.happened.insert((model.epoch, n)) {
                    return Err(format!("occurrence {n} happened twice: {info:?}"));
                }
                same("what is sent", payload, model.plan.payload.into())?;
                numbers.push((n, id));
            }
            if info.version == model.version {
                same("jobs of a schedule that has not moved", numbers, Vec::new())?;
                continue;
            }
            model.version = info.version;
            let alive = alive.contains(info.spec.name.as_str());
            model.fire(self.now, &numbers, alive).map_err(|why| format!("{}: {why}", info.spec.name))?;
        }
        if sent.is_empty() { Ok(()) } else { Err(format!("sent by schedules that are gone: {sent:?}")) }
    }

    async fn read(&self) -> Outcome<Vec<ScheduleInfo>> {
        let page = ScheduleQuery::Page { after: None, limit: 100 };
        self.jobs.read_schedules(page).await.map(|(_, found)| found).map_err(text)
    }

    /// Checks all schedules against the model.
    async fn agree(&mut self) -> Outcome<()> {
        let found = self.read().await?;
        let names: Vec<&str> = found.iter().map(|info| info.spec.name.as_str()).collect();
        same("schedules", names, self.schedules.keys().copied().collect())?;
        for info in &found {
            let Some(model) = self.schedules.get_mut(info.spec.name.as_str()) else { continue };
            let next = info.next_at.map(|at| number(info, &model.plan, at)).transpose()?;
            let is = (info.paused, next, info.fired, info.last_job);
            same(&info.spec.name, is, (model.paused, model.next, model.fired, model.last_job))?;
            model.version = info.version;
        }
        Ok(())
    }

    async fn work(&mut self, count: usize, work: Work) -> jobwright::Result<()> {
        if matches!(work, Work::Suspended) {
            let some = self.jobs.find(&JobFilter::state(JobState::Waiting)).await.into_iter().take(count);
            let some = JobFilter::ids(some.map(|row| row.id));
            self.jobs.operate(&some, &Action::Suspend, OperatorOptions::UNNAMED).await?;
        }
        for job in self.jobs.take(self.node, count).await {
            let settle = |verdict| [Settlement::new(job.fence(), verdict)];
            match work {
                Work::Done => drop(self.jobs.complete(self.node, &[job.fence()]).await?),
                Work::Dead => drop(self.jobs.settle(self.node, &settle(Verdict::Dead)).await?),
                Work::Later => drop(self.jobs.settle(self.node, &settle(Verdict::Retry(LATER * 24 * 365))).await?),
                Work::Left | Work::Suspended => {}
            }
        }
        Ok(())
    }

    /// Resumes all, and checks that they end in time.
    async fn finish(mut self) -> Outcome<()> {
        for name in 0..NAMES.len() {
            self.play(&Op::Resume(name)).await?;
        }
        for ticks in [1, 9, 1] {
            self.play(&Op::Pass(ticks)).await?;
            self.play(&Op::Fire(vec![(2, None), (20, None)])).await?;
        }
        let next = self.jobs.next_schedule().await.map_err(text)?;
        let ahead = self.schedules.values().any(|model| model.next.is_some());
        same("something ahead", next.is_some(), ahead)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the values are made where it is called")]
fn same<V: PartialEq + std::fmt::Debug>(what: &str, is: V, expected: V) -> Outcome<()> {
    if is == expected { Ok(()) } else { Err(format!("{what}: {is:?} instead of {expected:?}")) }
}

/// Plays a history from its start to its end.
pub(crate) async fn play<T: SqlDb>(db: &T, history: &[Op]) -> Outcome<()> {
    let mut player = Player::new(db).await;
    for (n, op) in history.iter().enumerate() {
        player.play(op).await.map_err(|why| format!("step {n}, {op:?}: {why}"))?;
    }
    player.finish().await.map_err(|why| format!("at the end: {why}"))
}
