//! Setters, so that configurations can be built outside of this crate, where they can't be written out field by field.

use std::time::Duration;

use super::{
    Access, BrokerConfig, Config, DatabaseConfig, ExecutorConfig, HistoryConfig, Keep, QueueType, Secret, SubmitRule,
    SubmitRules,
};

impl Config {
    /// The defaults with this database.
    pub fn new(database: DatabaseConfig) -> Self {
        Self { database, ..Self::default() }
    }

    /// Where jobs are kept.
    #[must_use]
    pub fn database(mut self, database: DatabaseConfig) -> Self {
        self.database = database;
        self
    }

    /// How jobs run.
    #[must_use]
    pub fn executor(mut self, executor: ExecutorConfig) -> Self {
        self.executor = executor;
        self
    }

    /// What is remembered of jobs that have ended.
    #[must_use]
    pub fn history(mut self, history: HistoryConfig) -> Self {
        self.history = history;
        self
    }

    /// The broker that deliveries go through, if there is one.
    #[must_use]
    pub fn broker(mut self, broker: BrokerConfig) -> Self {
        self.broker = broker;
        self
    }
}

impl DatabaseConfig {
    /// `postgres://user:password@host,host/database?option=value`, or `sqlite:FILE` for the embedded store. Default `sqlite:jobwright.db`.
    /// Special characters in user and password are percent-encoded.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Secret::new(url);
        self
    }

    /// PostgreSQL schema of the tables; letters, digits and `_`, at most 40 bytes. Default `jobwright`.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Connections for contexts. The engine has three more of its own. Default 8.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Whether connections go through a pgbouncer in transaction mode: no named statements, no session settings, polling instead of LISTEN.
    #[must_use]
    pub fn pgbouncer(mut self, pgbouncer: bool) -> Self {
        self.pgbouncer = pgbouncer;
        self
    }

    /// Deadline for one call: getting a connection, one of the engine's statements, a commit. Default 30 s.
    #[must_use]
    pub fn call_timeout(mut self, call_timeout: Duration) -> Self {
        self.call_timeout = call_timeout;
        self
    }

    /// Deadline for connecting to one server; `connect_timeout` in the URL takes precedence. Default 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Largest payload in bytes. Default 1 MiB.
    #[must_use]
    pub fn max_payload(mut self, max_payload: usize) -> Self {
        self.max_payload = max_payload;
        self
    }

    /// What may be done to an embedded database when it is opened. Default [`Access::Create`].
    #[must_use]
    #[doc(hidden)]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What is remembered of jobs that end through these connections. In a file it has its own section ([`Config::history`]).
    #[must_use]
    pub fn history(mut self, history: HistoryConfig) -> Self {
        self.history = history;
        self
    }
}

impl ExecutorConfig {
    /// Name of this node for people. Default `host:pid`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How long a node's heartbeat is valid. After the death of a node, its jobs run elsewhere within about one and a half leases. 1 s or
    /// more; default 30 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a shutdown waits for running handlers before it cancels them. Default 30 s. The library does not read it; programs pass it
    /// to [`CommandExecutor::shutdown`](crate::CommandExecutor::shutdown).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long a handler may go on after its job was cancelled, to clean up, before it is dropped. 0 to 1 h; default 5 s.
    #[must_use]
    pub fn cancel_grace(mut self, cancel_grace: Duration) -> Self {
        self.cancel_grace = cancel_grace;
        self
    }

    /// How long the runtime of the process may run no task, because handlers block its threads, until the node gives up its lease, so that others
    /// take its jobs. A time shorter than the lease means the lease. 0 = never; default 5 min.
    #[must_use]
    pub fn stall_timeout(mut self, stall_timeout: Duration) -> Self {
        self.stall_timeout = stall_timeout;
        self
    }

    /// Time between two polls of the tables when nothing wakes the executor. It is lengthened at random by up to two fifths. 10 ms or more; default
    /// 5 s.
    #[must_use]
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// How often a handler that lost a conflict in the database runs again at once, within its attempt. Default 3; 0 makes a conflict an
    /// ordinary failure.
    #[must_use]
    pub fn conflict_retries(mut self, conflict_retries: u32) -> Self {
        self.conflict_retries = conflict_retries;
        self
    }

    /// How often a job's node may die while the job runs. Then the job becomes a dead letter, whatever attempts remain, because it may be
    /// the cause. 1 to 10; default 3. 0 = never, for nodes that die for other reasons, such as preemptible machines.
    #[must_use]
    pub fn quarantine_after(mut self, quarantine_after: u32) -> Self {
        self.quarantine_after = quarantine_after;
        self
    }
}

impl HistoryConfig {
    /// Which ends are remembered. Each process writes the ends it records, so all of them should have the same setting. Default off.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// How long they are kept; executors remove older ones, a few thousand at a time. Default 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How long the results of handlers are kept, unless the handler says otherwise. Default 1 day.
    #[must_use]
    pub fn results(mut self, results: Duration) -> Self {
        self.results = results;
        self
    }

    /// How long the audit log of operator actions is kept. Executors remove older entries. Default 365 days.
    #[must_use]
    pub fn audit(mut self, audit: Duration) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Keeps the audit log of operator actions forever.
    #[must_use]
    pub fn audit_forever(mut self) -> Self {
        self.audit = None;
        self
    }

    /// How long dead letters are kept; executors remove older ones. By default, each waits until an operator
    /// retries or deletes it.
    #[must_use]
    pub fn dead_letters(mut self, dead_letters: Duration) -> Self {
        self.dead_letters = Some(dead_letters);
        self
    }

    /// Keeps each dead letter until an operator retries or deletes it. This is the default.
    #[must_use]
    pub fn dead_letters_forever(mut self) -> Self {
        self.dead_letters = None;
        self
    }
}

impl BrokerConfig {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS; several as `amqp://user:password@a,b/vhost`, or as URLs separated by
    /// commas. Default: no broker.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(Secret::new(url));
        self
    }

    /// Whether connecting fails when the broker does not answer. Otherwise only the database is used until it does. Default `false`.
    #[must_use]
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// First part of the names of all exchanges and queues: letters, digits, `.`, `_` and `-`, at most 40 bytes. Default `jobwright`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether missing queues are declared. This needs the right to configure them; without it, run `jobwright broker apply` once. Default
    /// `true`.
    #[must_use]
    pub fn declare(mut self, declare: bool) -> Self {
        self.declare = declare;
        self
    }

    /// Type of the queues. Default quorum.
    #[must_use]
    pub fn queue_type(mut self, queue_type: QueueType) -> Self {
        self.queue_type = queue_type;
        self
    }

    /// Most messages that wait in one queue of the broker; further ones wait in the table. A message that delivers jobs to executors names
    /// up to 32 jobs. 1 to 1,000,000; default 1000.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Most messages that may wait in each of the queues for intake, for recording, and for rejected messages. The broker refuses further
    /// ones. 0: no limit. Default 100,000.
    #[must_use]
    pub fn submit_depth(mut self, submit_depth: u32) -> Self {
        self.submit_depth = submit_depth;
        self
    }

    /// The same limit in bytes of the message bodies. Default 1 GiB.
    #[must_use]
    pub fn submit_bytes(mut self, submit_bytes: u64) -> Self {
        self.submit_bytes = submit_bytes;
        self
    }

    /// Whether jobs that external producers submit are taken in. Default `true`.
    #[must_use]
    pub fn intake(mut self, intake: bool) -> Self {
        self.intake = intake;
        self
    }

    /// Whether results are also sent to clients that wait without a queue of their own (direct reply-to). They are sent once, to clients
    /// that are still connected. Senders need the setting too. Default `false`.
    #[must_use]
    pub fn direct_reply(mut self, direct_reply: bool) -> Self {
        self.direct_reply = direct_reply;
        self
    }

    /// Where results may go: names of queues, or prefixes of names such as `answers.*`. Default: any queue whose name does not end like
    /// those of an installation, in `.submit`, `.reply`, `.dead` or `.rejected`.
    #[must_use]
    pub fn reply_to(mut self, reply_to: Vec<String>) -> Self {
        self.reply_to = Some(reply_to);
        self
    }

    /// Most submissions that this process takes in per second, averaged over time. 0, the default: no limit.
    #[must_use]
    pub fn intake_rate(mut self, intake_rate: u32) -> Self {
        self.intake_rate = intake_rate;
        self
    }

    /// Most bytes of submissions that this process takes in per second, averaged over time: 65,536 or more. 0, the default: no limit.
    #[must_use]
    pub fn intake_bytes(mut self, intake_bytes: u32) -> Self {
        self.intake_bytes = intake_bytes;
        self
    }

    /// Which of the broker's users may submit what. Users must then identify themselves (property `user_id`, which the broker checks).
    /// Default: every user that may write to the queue may submit everything.
    #[must_use]
    pub fn submit_rules(mut self, submit_rules: SubmitRules) -> Self {
        self.submit_rules = Some(submit_rules);
        self
    }

    /// Deadline for connecting to one broker, and for a call. Default 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long a publish waits for the broker's confirm until its outcome counts as unknown. Default 10 s.
    #[must_use]
    pub fn confirm_timeout(mut self, confirm_timeout: Duration) -> Self {
        self.confirm_timeout = confirm_timeout;
        self
    }

    /// Whether a report of an external worker is accepted only with the token that came with its job (header `reportToken`). With `false`,
    /// every user that may write to the report queue can report; use it only during a migration. Default `true`.
    #[must_use]
    pub fn report_tokens(mut self, report_tokens: bool) -> Self {
        self.report_tokens = report_tokens;
        self
    }

    /// AMQP heartbeat: a connection that is silent for twice as long is closed. 1 s to 10 min, whole seconds; default 10 s.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }
}

impl SubmitRule {
    /// Kinds of jobs.
    #[must_use]
    pub fn kinds(mut self, kinds: Vec<String>) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Queues.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = Some(queues);
        self
    }

    /// Tenants; with this list, a job must have one.
    #[must_use]
    pub fn tenants(mut self, tenants: Vec<String>) -> Self {
        self.tenants = Some(tenants);
        self
    }

    /// Groups; without this list a job may be in none.
    #[must_use]
    pub fn groups(mut self, groups: Vec<String>) -> Self {
        self.groups = Some(groups);
        self
    }

    /// Limit keys; without this list a job may have none.
    #[must_use]
    pub fn limit_keys(mut self, limit_keys: Vec<String>) -> Self {
        self.limit_keys = Some(limit_keys);
        self
    }

    /// Unique keys; without this list a job may have none.
    #[must_use]
    pub fn unique_keys(mut self, unique_keys: Vec<String>) -> Self {
        self.unique_keys = Some(unique_keys);
        self
    }

    /// The highest priority. Default 5.
    #[must_use]
    pub fn max_priority(mut self, max_priority: i16) -> Self {
        self.max_priority = Some(max_priority);
        self
    }

    /// The longest delay. Any by default.
    #[must_use]
    pub fn max_delay(mut self, max_delay: Duration) -> Self {
        self.max_delay = Some(max_delay);
        self
    }
}
