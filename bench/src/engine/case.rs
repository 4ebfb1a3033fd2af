//! What is drained.

use std::time::Duration;

use jobwright::store::{Rule, Scope, ShareBy};
use jobwright::{Keep, NewJob, Unique};

use crate::Result;
use crate::args::Args;
use crate::load::{KIND, QUEUE};
use crate::report::Required;

/// One line of the table.
pub(super) struct Case {
    pub(super) label: String,
    pub(super) jobs: usize,
    /// Makes the job of that number what it is to be.
    pub(super) job: fn(usize, NewJob) -> NewJob,
    pub(super) rules: Vec<Rule>,
    /// Jobs of one group in a queue that nobody works on: the first holds the group, the others are blocked.
    pub(super) blocked: usize,
    pub(super) keep: Keep,
    pub(super) required: Option<Required>,
}

impl Case {
    fn new(label: impl Into<String>, jobs: usize) -> Self {
        Self {
            label: label.into(),
            jobs,
            job: |_, job| job,
            rules: Vec::new(),
            blocked: 0,
            keep: Keep::Off,
            required: None,
        }
    }

    fn job(self, job: fn(usize, NewJob) -> NewJob) -> Self {
        Self { job, ..self }
    }

    fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// What all are compared with.
pub(super) fn plain(args: &Args) -> Case {
    Case::new("plain", plain_jobs(args))
}

fn plain_jobs(args: &Args) -> usize {
    args.count(50_000, 5_000)
}

/// Jobs of lines that are much slower than plain ones.
fn admitted(args: &Args) -> usize {
    args.count(10_000, 1_000)
}

/// The lines of a case.
pub(super) fn named(name: &str, args: &Args) -> Result<Vec<Case>> {
    let (plain, admitted) = (plain_jobs(args), admitted(args));
    Ok(match name {
        "plain" => vec![Case::new(format!("{plain} plain jobs, once more"), plain)],
        "terms" => vec![Case::new(format!("{plain} jobs of 10 tenants, no rules"), plain).job(tenant)],
        "blocked" => {
            let blocked = args.count(100_000, 10_000);
            let label = format!("{plain} plain jobs beside {blocked} of one group");
            vec![Case { blocked, required: Some(Required::Ratio(0.9)), ..Case::new(label, plain) }]
        }
        "groups" => {
            let label = format!("{admitted} jobs of 1,000 groups");
            vec![Case::new(label, admitted).job(|n, job| job.exclusive(format!("group-{}", n % 1000)))]
        }
        "hot-group" => {
            let jobs = args.count(2_000, 200);
            vec![Case::new(format!("{jobs} jobs of one group, back to back"), jobs).job(|_, job| job.exclusive("hot"))]
        }
        "limit" => {
            let rule = Rule::new(Scope::Kind, KIND).running(50);
            vec![Case::new(format!("{admitted} jobs of a kind, 50 at a time"), admitted).rule(rule)]
        }
        "shares" => {
            let weights = [("tenant-0".to_owned(), 3)];
            let shared = Rule::new(Scope::Queue, QUEUE).running(100).shares(ShareBy::Tenant, weights);
            let label = format!("{admitted} jobs of 10 tenants, 20 each at a time, 100 shared");
            vec![Case::new(label, admitted).job(tenant).rule(Rule::new(Scope::Tenant, "*").running(20)).rule(shared)]
        }
        "rate" => {
            let rule = Rule::new(Scope::Queue, QUEUE).rate(1_000_000_000, Duration::from_secs(1));
            vec![Case::new(format!("{admitted} jobs under a rate that is never reached"), admitted).rule(rule)]
        }
        "unique" => {
            let label = format!("{plain} jobs, each with a unique key");
            let waiting = format!("{plain} jobs, each with a key that is unique while it waits");
            vec![
                Case::new(label, plain).job(|n, job| job.unique(Unique::key(format!("order-{n}")))),
                Case::new(waiting, plain).job(|n, job| job.unique(Unique::key(format!("order-{n}")).while_waiting())),
            ]
        }
        "history" => [("what failed is kept", Keep::Failed), ("all ends are kept", Keep::All)]
            .map(|(what, keep)| Case { keep, ..Case::new(format!("{plain} plain jobs, {what}"), plain) })
            .into(),
        other => return Err(format!("the case {other:?} has no measurement").into()),
    })
}

fn tenant(n: usize, job: NewJob) -> NewJob {
    job.tenant(format!("tenant-{}", n % 10))
}
