//! What all units of work of an application share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::commit_batcher::CommitBatcher;
#[cfg(feature = "rabbitmq")]
use super::delivery_publisher::DeliveryPublisher;
use super::hooks::{SendHook, apply};
use super::{MessageService, Sent, WakeUp, WhenFull};
use crate::broker::Broker;
#[cfg(not(feature = "rabbitmq"))]
use crate::broker::DeliveryPublisher;
use crate::codec::Codecs;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::job::{Limits, NewJob};
use crate::store::schedules::TravelledSchedules;
use crate::store::{JobStore, Schedules, Store};

/// Makes a service around another one.
type Wrap<S> = Arc<dyn Fn(Box<dyn MessageService<S>>) -> Box<dyn MessageService<S>> + Send + Sync>;

/// State shared by all units of work.
#[derive(Clone)]
pub(crate) struct Shared<S: Store> {
    pub(crate) store: S,
    pub(crate) jobs: Arc<dyn JobStore>,
    /// The schedules in it, by the clock of the database or that of a test.
    pub(crate) schedules: Arc<dyn Schedules>,
    /// The same, if the clock is that of a test.
    pub(crate) travelled: Option<Arc<TravelledSchedules>>,
    /// For contexts that open no transaction.
    pub(super) commit_batcher: Arc<CommitBatcher>,
    pub(crate) wakeup: Arc<WakeUp>,
    /// Publishes to the broker, if there is one.
    pub(super) delivery_publisher: Option<Arc<DeliveryPublisher>>,
    /// Whether executors take in jobs that external producers submit.
    pub(crate) intake: bool,
    pub(crate) limits: Limits,
    pub(crate) codecs: Codecs,
    /// Wrappers of the test kit, which write nothing, and around them the custom ones. The innermost comes first.
    pub(super) watchers: Vec<Wrap<S>>,
    pub(super) wraps: Vec<Wrap<S>>,
    pub(super) hooks: Arc<Vec<Arc<SendHook>>>,
    pub(crate) when_full: WhenFull,
    /// What commits have sent.
    pub(crate) sent: Sent,
    /// The kinds of which the log has told that a context was dropped with them.
    pub(crate) told_of_dropped: Arc<Mutex<HashSet<String>>>,
    /// Deadline for one call to the store.
    pub(crate) call_timeout: Duration,
}

impl<S: Store> Shared<S> {
    /// Creates the state for message services on this store, without broker, codecs, custom services and hooks.
    pub(super) fn new(store: S, config: &DatabaseConfig) -> Self {
        let jobs = store.engine();
        Self {
            store,
            commit_batcher: CommitBatcher::new(jobs.clone()),
            wakeup: Arc::new(WakeUp::new(jobs.clone())),
            schedules: jobs.clone(),
            travelled: None,
            jobs,
            delivery_publisher: None,
            intake: false,
            limits: Limits { payload: config.max_payload.max(1), ..Limits::default() },
            codecs: Codecs::default(),
            watchers: Vec::new(),
            wraps: Vec::new(),
            hooks: Arc::default(),
            when_full: WhenFull::default(),
            sent: Sent::default(),
            told_of_dropped: Arc::default(),
            call_timeout: config.call_timeout,
        }
    }

    /// Whether custom services wrap the built-in ones.
    pub(crate) fn is_wrapped(&self) -> bool {
        !self.wraps.is_empty()
    }

    /// Returns the broker, if there is one.
    pub(crate) fn broker(&self) -> Option<&Arc<Broker>> {
        self.delivery_publisher.as_ref().map(|delivery_publisher| delivery_publisher.broker())
    }

    /// Applies the send hooks to a job.
    pub(crate) fn hooked(&self, job: NewJob) -> Result<NewJob> {
        apply(&self.hooks, job, None)
    }
}
