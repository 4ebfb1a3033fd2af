//! `[handlers.KIND]`.

use std::time::Duration;

use jobwright::{KindOptions, RetryPolicy, Secret};

use super::keys::Value;

/// A handler while it is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    command: Option<Vec<String>>,
    urls: Option<Vec<Secret>>,
    timeout: Option<Duration>,
    concurrency: Option<usize>,
    retry: Option<RetryPolicy>,
    reply: bool,
    pass_urls: bool,
    stop_grace: Option<Duration>,
    later: Option<Duration>,
}

/// Time from asking a program to end until it is killed.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// The longest value that can be set.
const STOP_GRACE_MOST: Duration = Duration::from_secs(3600);
/// Delay of a job whose program asked to be retried later.
const LATER: Duration = Duration::from_secs(60);

/// What runs the jobs of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) action: Action,
    pub(crate) options: KindOptions,
    /// Whether its output is sent to the requester of the result.
    pub(crate) reply: bool,
    /// Whether its program may know the URLs of database and broker, including passwords.
    pub(crate) pass_urls: bool,
    /// Time between SIGTERM and SIGKILL for its program.
    pub(crate) stop_grace: Duration,
    /// Delay of a job whose program asked to be retried later.
    pub(crate) later: Duration,
}

/// How a handler runs its jobs.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A program and its arguments.
    Command(Vec<String>),
    /// The URLs to POST to: each job to one of them.
    Url(Vec<Secret>),
}

impl Draft {
    pub(super) fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match (key, value) {
            ("command", Value::Words(words)) => self.command = Some(words),
            ("url", Value::Words(urls)) => self.urls = Some(urls.into_iter().map(Secret::new).collect()),
            ("timeout", Value::Duration(Duration::ZERO)) => return Err("it must be longer than 0s".to_owned()),
            ("timeout", Value::Duration(timeout)) => self.timeout = Some(timeout),
            ("concurrency", Value::Number(0)) => return Err("it must be 1 or more".to_owned()),
            ("concurrency", Value::Number(n)) => self.concurrency = Some(n),
            ("retry", Value::Retry(retry)) => self.retry = Some(retry),
            ("reply", Value::Flag(on)) => self.reply = on,
            ("pass_urls", Value::Flag(on)) => self.pass_urls = on,
            ("stop_grace", Value::Duration(grace)) if grace > STOP_GRACE_MOST => return Err("use 0s to 1h".to_owned()),
            ("stop_grace", Value::Duration(grace)) => self.stop_grace = Some(grace),
            ("later", Value::Duration(later)) => self.later = Some(later),
            _ => return Err("unknown key".to_owned()),
        }
        Ok(())
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = &Secret> {
        self.urls.iter().flatten()
    }

    /// Whether it has neither a program nor a URL.
    pub(super) fn does_nothing(&self) -> bool {
        self.command.is_none() && self.urls.is_none()
    }

    pub(super) fn finish(self) -> Result<Handler, String> {
        let action = match (self.command, self.urls) {
            (Some(command), None) if command.first().is_some_and(|program| !program.is_empty()) => {
                Action::Command(command)
            }
            (Some(_), None) => return Err("has an empty `command`: name a program".to_owned()),
            (None, Some(urls)) if urls.is_empty() => return Err("has an empty list as `url`: name a URL".to_owned()),
            (None, Some(urls)) => {
                Action::Url(urls.into_iter().map(crate::handlers::check_url).collect::<Result<_, _>>()?)
            }
            (None, None) => return Err("has neither `command` nor `url`: give one of them".to_owned()),
            (Some(_), Some(_)) => return Err("has both `command` and `url`: remove one of them".to_owned()),
        };
        if matches!(action, Action::Url(_)) {
            if self.pass_urls {
                return Err(
                    "has `pass_urls`, which is for programs: remove it, because the server at a URL never gets them"
                        .to_owned(),
                );
            }
            for (key, there) in [("stop_grace", self.stop_grace.is_some()), ("later", self.later.is_some())] {
                if there {
                    return Err(format!("has `{key}`, which is for programs: remove it"));
                }
            }
        }
        let mut options = KindOptions::default();
        options.concurrency = self.concurrency;
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout);
        }
        if let Some(retry) = self.retry {
            options = options.retry(retry);
        }
        Ok(Handler {
            action,
            options,
            reply: self.reply,
            pass_urls: self.pass_urls,
            stop_grace: self.stop_grace.unwrap_or(STOP_GRACE),
            later: self.later.unwrap_or(LATER),
        })
    }
}
