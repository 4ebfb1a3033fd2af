//! A URL as a handler.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jobwright::headers::REPLY_TO;
use jobwright::internal::small_file;
use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload, Secret};
use ureq::http::{HeaderValue, Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::{ANY_BYTES, Ended, Stopping, reply, trace};

/// How much of a response is kept.
const KEPT: u64 = 4 * 1024;
/// The longest delay a server may ask for.
const LATEST: Duration = Duration::from_secs(24 * 3600);

/// Refuses a URL that can't be a webhook, without showing it: it may contain a token.
pub(crate) fn check_url(url: Secret) -> Result<Secret, String> {
    let good = url.expose().parse::<Uri>().is_ok_and(|uri| {
        uri.host().is_some_and(|host| !host.is_empty()) && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if good { Ok(url) } else { Err("has a `url` that can't be used: write `http://…` or `https://…`".to_owned()) }
}

/// POSTs each job to a URL.
pub(crate) struct Webhook {
    url: Secret,
    agent: Agent,
    /// The longest body that is sent on as a result; `None` if no result is sent.
    longest: Option<usize>,
    /// Signals that the worker stops.
    stopping: Stopping,
}

impl Webhook {
    /// Creates a webhook. `timeout` is the handler's own; the request is given up with it.
    pub(crate) fn new(
        url: Secret,
        timeout: Option<Duration>,
        longest: Option<usize>,
        stopping: Stopping,
    ) -> Result<Self, String> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(timeout)
            .user_agent(concat!("jobwright/", env!("CARGO_PKG_VERSION")));
        if url.expose().starts_with("https") {
            config = config.tls_config(tls()?);
        }
        Ok(Self { url, agent: config.build().into(), longest, stopping })
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
        let (agent, url) = (self.agent.clone(), self.url.clone());
        let longest = self.longest.filter(|_| job.headers.contains_key(REPLY_TO));
        // The client blocks. If this future is dropped, the request runs on to its own deadline, and its response is ignored.
        let posted = tokio::task::spawn_blocking(move || post(&agent, &url, &job, longest));
        tokio::select! {
            () = self.stopping.in_order() => Ok(None),
            ended = posted => ended?.map(Some),
        }
    }
}

fn post(agent: &Agent, url: &Secret, job: &Job, longest: Option<usize>) -> Result<Option<Payload>, JobError> {
    let place = url.redacted();
    // Names may contain any letter, which HTTP transmits as bytes.
    let header = |text: &str| HeaderValue::from_bytes(text.as_bytes());
    let mut request = agent
        .post(url.expose())
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
    match request.send(job.payload.as_bytes()) {
        Ok(answer) => judge(answer, &place, longest),
        // Only the kind of error: other texts may quote the URL.
        Err(ureq::Error::Timeout(what)) => Err(JobError::new(format!("the request to {place} timed out ({what})"))),
        Err(ureq::Error::Io(error)) => {
            let text = format!("the request to {place} failed: {error}");
            Err(if is_of_this_node(&error) { JobError::not_here(text) } else { JobError::new(text) })
        }
        Err(ureq::Error::HostNotFound) => Err(JobError::new(format!("the request to {place} failed: no such host"))),
        Err(ureq::Error::ConnectionFailed) => {
            Err(JobError::new(format!("the request to {place} failed: no connection")))
        }
        Err(ureq::Error::BadUri(_) | ureq::Error::Http(_)) => {
            Err(JobError::fatal(format!("the request to {place} could not be made from this URL and this job")))
        }
        Err(error) => Err(JobError::new(format!("the request to {place} failed: {error}"))),
    }
}

/// Returns whether this node could not even begin the request, because it is out of files, ports or memory.
fn is_of_this_node(error: &std::io::Error) -> bool {
    use nix::errno::Errno;

    let local = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS, Errno::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| local.contains(&Errno::from_raw(code)))
}

fn judge(answer: Response<Body>, place: &str, longest: Option<usize>) -> Result<Option<Payload>, JobError> {
    let status = answer.status();
    if status.is_success() {
        return longest.map(|longest| body(answer, place, longest)).transpose();
    }
    let wait = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()).and_then(retry_after);
    let location = answer.headers().get("location").is_some();
    let error = match status.as_u16() {
        408 | 425 | 429 | 500..=599 => {
            let text = format!("{place} answered {status}");
            wait.map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))
        }
        300..=399 => JobError::fatal(format!(
            "{place} answered {status}{}: redirects are not followed, configure the URL it points to",
            if location { " with another location" } else { "" }
        )),
        _ => JobError::fatal(format!("{place} answered {status}")),
    };
    let text = beginning(answer);
    Err(if text.is_empty() { error } else { error.detail(text) })
}

/// Reads the whole body, with its type.
fn body(answer: Response<Body>, place: &str, longest: usize) -> Result<Payload, JobError> {
    let header = |name| answer.headers().get(name).map(|value| value.to_str().ok().map(str::trim));
    let encoded = header("content-encoding").is_some_and(|encoding| !encoding.is_some_and(is_identity));
    let content_type = match header("content-type") {
        // No encoding was asked for, and a requester would not know of it.
        _ if encoded => ANY_BYTES.to_owned(),
        None => "text/plain".to_owned(),
        // `reply` looks at the type itself.
        Some(name) => name.unwrap_or(ANY_BYTES).to_owned(),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to refuse it.
    let read = answer.into_body().into_reader().take(longest as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| JobError::new(format!("the answer of {place} could not be read to its end: {error}")))?;
    if bytes.len() > longest {
        return Err(JobError::fatal(format!(
            "the answer of {place} has more than {longest} bytes (`database.max_payload`), too much for a result"
        )));
    }
    if content_type.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("application/json"))
        && let Ok(text) = std::str::from_utf8(&bytes)
        && let Ok(json) = Payload::json_text(text.to_owned())
    {
        return Ok(json);
    }
    Ok(Payload::bytes(content_type, bytes))
}

fn is_identity(encoding: &str) -> bool {
    encoding.is_empty() || encoding.eq_ignore_ascii_case("identity")
}

/// Reads the beginning of the body, as text.
fn beginning(answer: Response<Body>) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is still useful.
    let _ = answer.into_body().into_reader().take(KEPT).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads seconds, or an HTTP date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LATEST));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let wait = at.duration_since(Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default().min(LATEST))
}

/// rustls with ring, and the system's root certificates.
fn tls() -> Result<TlsConfig, String> {
    // The loader reads whatever this variable names.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from) {
        small_file::require(&file).map_err(|error| {
            format!("has an `https` URL, and the file {} of `SSL_CERT_FILE` can't be used: {error}", file.display())
        })?;
    }
    let roots: Vec<_> = rustls_native_certs::load_native_certs()
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if roots.is_empty() {
        return Err(
            "has an `https` URL, but this system has no root certificates: install `ca-certificates`".to_owned()
        );
    }
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("99999999999"), Some(LATEST));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after("soon"), None);
        let soon = Timestamp::now() + Duration::from_secs(60);
        let text = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&soon).unwrap();
        let wait = retry_after(&text).unwrap();
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
    }

    #[test]
    fn a_node_without_files_or_ports_does_not_blame_the_job() {
        let fault = |errno: nix::errno::Errno| is_of_this_node(&std::io::Error::from_raw_os_error(errno as i32));
        assert!(fault(nix::errno::Errno::EMFILE) && fault(nix::errno::Errno::EADDRNOTAVAIL));
        assert!(!fault(nix::errno::Errno::ECONNREFUSED) && !fault(nix::errno::Errno::ECONNRESET));
        assert!(!is_of_this_node(&std::io::Error::other("closed")));
    }

    #[test]
    fn only_http_is_taken() {
        for good in ["http://localhost:8080/x?token=1", "https://h"] {
            assert!(check_url(Secret::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "ftp://h", "h/x", "http:///x", "http://a b"] {
            assert!(check_url(Secret::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn tls_can_be_set_up() {
        tls().unwrap();
    }
}
