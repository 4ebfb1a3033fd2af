//! URLs as a handler: each job is a POST to one of them.

mod answer;
mod client;
mod delivery;
mod probing;
mod targets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::headers::REPLY_TO;
use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload, Secret};
use ureq::Agent;
use ureq::http::HeaderValue;

use self::answer::judge;
pub(crate) use self::client::check_url;
use self::client::{Client, unreached};
use self::delivery::Delivery;
use self::probing::{Probed, until_reached};
use self::targets::{Target, Targets};
use super::{Ended, Stopping, reply, trace};

/// POSTs each job to a URL.
pub(crate) struct Webhook {
    probed: Arc<Probed>,
    timeout: Option<Duration>,
    /// The longest body that is sent on as a result; `None` if no result is sent.
    longest: Option<usize>,
    /// Signals that the worker stops.
    stopping: Stopping,
}

/// How a request ended.
enum Posted {
    /// It may have reached the server.
    Delivered(Result<Option<Payload>, JobError>),
    /// Nothing of it was written, for this reason.
    Undelivered(String),
}

/// Gives a request up when the attempt that makes it is over: its thread may still wait for a connection, and the job may run elsewhere meanwhile.
struct Attempt(Arc<Delivery>);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Webhook {
    /// Creates a webhook for `slots` jobs at the same time. `timeout` is the handler's own; the request is given up with it.
    pub(crate) fn new(
        kind: &str,
        urls: &[Secret],
        timeout: Option<Duration>,
        slots: usize,
        longest: Option<usize>,
        stopping: Stopping,
    ) -> Result<Self, String> {
        let client = Client::new(urls, timeout, slots, longest.is_some())?;
        let probed = Probed { targets: Targets::new(kind, urls.to_vec()), client };
        Ok(Self { probed: Arc::new(probed), timeout, longest, stopping })
    }

    /// Returns the reason if no URL can be reached.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.probed.targets.check()
    }

    /// Posts one job and evaluates the response.
    pub(crate) async fn run(&self, job: Job) -> Ended {
        Ok(if self.execute(job).await?.is_some() { Outcome::Done } else { Outcome::Snooze(Duration::ZERO) })
    }

    /// Posts one job, and sends the body of the response to the requester of the result.
    pub(crate) async fn answer(&self, cx: &mut JobContext<'_, (), AnyStore>) -> Ended {
        match self.execute(cx.job().clone()).await? {
            Some(Some(answer)) => reply(cx, answer),
            Some(None) => Ok(Outcome::Done),
            None => Ok(Outcome::Snooze(Duration::ZERO)),
        }
    }

    /// Returns the body of the response, if it is wanted. The outer `None` means that the worker stops.
    async fn execute(&self, job: Job) -> Result<Option<Option<Payload>>, JobError> {
        let (began, job) = (Instant::now(), Arc::new(job));
        let longest = self.longest.filter(|_| job.headers.contains_key(REPLY_TO));
        for (number, target) in self.probed.targets.in_turn().into_iter().enumerate() {
            // The client's own limit is the time of a whole attempt.
            let left = self.timeout.filter(|_| number > 0).map(|timeout| timeout.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let attempt = Attempt(Arc::default());
            let (probed, delivery, job, tried) = (self.probed.clone(), attempt.0.clone(), job.clone(), target.clone());
            // The client blocks. If this future is dropped, a request that has begun runs on to its own deadline, and its response is ignored.
            let posted = tokio::task::spawn_blocking(move || {
                delivery.clone().during(|| post(&probed.client.agent, &tried, &job, longest, left, &delivery))
            });
            let posted = tokio::select! {
                () = self.stopping.in_order() => return Ok(None),
                posted = posted => posted?,
            };
            match posted {
                Posted::Delivered(ended) => {
                    target.delivered();
                    return ended.map(Some);
                }
                Posted::Undelivered(why) => {
                    if self.probed.targets.leave_out(&target, &why) {
                        tokio::spawn(until_reached(Arc::downgrade(&self.probed), target));
                    }
                }
            }
        }
        let reason = self.check().err();
        Err(JobError::not_here(reason.unwrap_or_else(|| "no URL of this kind could be reached in time".to_owned())))
    }
}

/// Makes the request. `left`: the time that is left of an attempt which has tried another URL.
fn post(
    agent: &Agent,
    target: &Target,
    job: &Job,
    longest: Option<usize>,
    left: Option<Duration>,
    delivery: &Delivery,
) -> Posted {
    let place = target.place();
    let request = match request(agent, target, job) {
        Ok(request) if left.is_some() => request.config().timeout_global(left).build(),
        Ok(request) => request,
        Err(error) => return Posted::Delivered(Err(error)),
    };
    let error = match request.send(job.payload.as_bytes()) {
        Ok(answer) => return Posted::Delivered(judge(answer, &place, longest)),
        Err(error) => error,
    };
    if !delivery.has_begun()
        && let Some(why) = unreached(&error)
    {
        return Posted::Undelivered(why);
    }
    Posted::Delivered(Err(match error {
        // Only the kind of error: other texts may quote the URL.
        ureq::Error::Timeout(what) => JobError::new(format!("the request to {place} timed out ({what})")),
        ureq::Error::Io(error) => JobError::new(format!(
            "the connection to {place} was lost after the request was sent, wholly or in part: {error}"
        )),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
            JobError::fatal(format!("the request to {place} could not be made from this URL and this job"))
        }
        error => JobError::new(format!("the request to {place} failed: {error}")),
    }))
}

fn request(
    agent: &Agent,
    target: &Target,
    job: &Job,
) -> Result<ureq::RequestBuilder<ureq::typestate::WithBody>, JobError> {
    // Names may contain any letter, which HTTP transmits as bytes.
    let header = |text: &str| HeaderValue::from_bytes(text.as_bytes());
    let mut request = agent
        .post(target.url.expose())
        .header("content-type", header(job.payload.content_type())?)
        .header("jobwright-job-id", job.id.to_string())
        .header("jobwright-kind", header(&job.kind)?)
        .header("jobwright-queue", header(&job.queue)?)
        .header("jobwright-attempt", job.attempt.to_string());
    for (name, value) in trace(job) {
        if let Some(value) = value {
            request = request.header(name, header(&value)?);
        }
    }
    Ok(request)
}
