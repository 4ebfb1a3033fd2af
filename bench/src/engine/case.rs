//! The cases to drain.

use std::time::Duration;

use jobwright::admin::{Rule, Scope, ShareBy};
use jobwright::{Keep, NewJob, Unique};

use crate::Result;
use crate::args::Args;
use crate::limits::admission::Limit;
use crate::load::{BATCH, GROUPS, KIND, Make, QUEUE, grouped};
use crate::report::Required;

/// One line of the table, and those under it.
pub(super) struct Case {
    pub(super) label: String,
    pub(super) jobs: usize,
    /// Configures the job of this number.
    pub(super) job: Make,
    pub(super) rules: Vec<Rule>,
    /// Jobs of one group in a queue without executors: the first holds the group, the others are blocked.
    pub(super) blocked: usize,
    pub(super) keep: Keep,
    /// Whether each handler writes a row through its transaction.
    pub(super) writes: bool,
    /// The bare loop for the same work.
    pub(super) limit: Option<Limit>,
    /// Requirements for the drain, and for the send.
    pub(super) required: (Option<Required>, Option<Required>),
}

impl Case {
    fn new(label: impl Into<String>, jobs: usize) -> Self {
        Self {
            label: label.into(),
            jobs,
            job: crate::load::plain,
            rules: Vec::new(),
            blocked: 0,
            keep: Keep::Off,
            writes: false,
            limit: None,
            required: (None, None),
        }
    }

    fn job(self, job: Make) -> Self {
        Self { job, ..self }
    }

    fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    fn limit(self, limit: Limit) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Requires this ratio of the drain to that of plain jobs.
    fn of_plain(mut self, ratio: f64) -> Self {
        self.required.0 = Some(Required::Ratio(ratio));
        self
    }

    /// Requires the same of the send.
    fn sent_of_plain(mut self, ratio: f64) -> Self {
        self.required.1 = Some(Required::Ratio(ratio));
        self
    }

    /// Requires this rate in jobs a second.
    fn at_least(mut self, rate: f64) -> Self {
        self.required.0 = Some(Required::AtLeast(rate));
        self
    }
}

/// Returns the case that all others are compared with.
pub(super) fn plain(args: &Args) -> Case {
    Case::new("plain", plain_jobs(args))
}

fn plain_jobs(args: &Args) -> usize {
    args.count(50_000, 5_000)
}

/// Returns the number of jobs in cases that are slower than plain ones.
fn admitted(args: &Args) -> usize {
    args.count(10_000, 1_000)
}

/// Returns the lines of a case.
pub(super) fn named(name: &str, args: &Args) -> Result<Vec<Case>> {
    let (plain, admitted) = (plain_jobs(args), admitted(args));
    Ok(match name {
        "plain" => vec![Case::new(format!("{plain} plain jobs, once more"), plain)],
        "options" => {
            let tenants = Case::new(format!("{plain} jobs of 10 tenants, no rules"), plain).job(tenant);
            vec![tenants.limit(Limit::Tenant).sent_of_plain(0.85)]
        }
        "blocked" => {
            let blocked = args.count(100_000, 10_000);
            let label = format!("{plain} plain jobs beside {blocked} of one group");
            vec![Case { blocked, ..Case::new(label, plain) }.of_plain(0.9)]
        }
        "groups" => [admitted, args.count(100_000, 5_000)]
            .map(|jobs| {
                let case = Case::new(format!("{jobs} jobs of {GROUPS} groups"), jobs).job(grouped);
                case.limit(Limit::Heads(GROUPS)).of_plain(0.5)
            })
            .into(),
        "hot-group" => {
            let jobs = args.count(5_000, 200);
            let hot = |how: &str| {
                Case::new(format!("{jobs} jobs of one group, {how}"), jobs).job(|_, job| job.exclusive("hot"))
            };
            let writing = Case { writes: true, ..hot("each writes a row") };
            vec![
                hot("back to back").limit(Limit::Chain { row: false }).at_least(10_000.0),
                writing.limit(Limit::Chain { row: true }).at_least(2_000.0),
            ]
        }
        "limit" => [(50, 0.3), (2 * BATCH, 0.8)]
            .map(|(running, ratio)| {
                let rule = Rule::new(Scope::Kind, KIND).running(running as u32);
                let case = Case::new(format!("{plain} jobs of a kind, {running} at a time"), plain).rule(rule);
                case.limit(Limit::Batches(running)).of_plain(ratio)
            })
            .into(),
        "shares" => {
            let weights = [("tenant-0".to_owned(), 3)];
            let shared = Rule::new(Scope::Queue, QUEUE).running(100).shares(ShareBy::Tenant, weights);
            let label = format!("{admitted} jobs of 10 tenants, 20 each at a time, 100 shared");
            let case = Case::new(label, admitted).job(tenant).rule(Rule::new(Scope::Tenant, "*").running(20));
            vec![case.rule(shared).limit(Limit::Batches(100)).of_plain(0.3)]
        }
        "rate" => {
            let rule = Rule::new(Scope::Queue, QUEUE).rate(1_000_000_000, Duration::from_secs(1));
            let case = Case::new(format!("{plain} jobs under a rate that is never reached"), plain);
            vec![case.rule(rule).of_plain(0.7)]
        }
        "unique" => {
            let case = |how: &str| Case::new(format!("{plain} jobs, each with a {how}"), plain);
            let for_good = case("unique key").job(|n, job| job.unique(Unique::key(format!("order-{n}"))));
            let waiting = case("key that is unique while it waits")
                .job(|n, job| job.unique(Unique::key(format!("order-{n}")).while_waiting()));
            [for_good, waiting].map(|case| case.limit(Limit::Unique).of_plain(0.7).sent_of_plain(0.5)).into()
        }
        "history" => {
            let kept = |what, keep| Case { keep, ..Case::new(format!("{plain} plain jobs, {what}"), plain) };
            vec![kept("what failed is kept", Keep::Failed), kept("all ends are kept", Keep::All).of_plain(0.9)]
        }
        other => return Err(format!("the case {other:?} has no measurement").into()),
    })
}

fn tenant(n: usize, job: NewJob) -> NewJob {
    job.tenant(format!("tenant-{}", n % 10))
}
