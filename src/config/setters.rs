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

    /// How jobs are run.
    #[must_use]
    pub fn executor(mut self, executor: ExecutorConfig) -> Self {
        self.executor = executor;
        self
    }

    /// What is remembered of jobs that ended.
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
    /// `postgres://user:password@host,host/database?option=value`, or `sqlite:FILE` for the embedded store. Default
    /// `sqlite:jobwright.db`. What is special in user and password is percent-encoded.
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

    /// Connections for contexts. The engine has three of its own beside these. Default 8.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Connect through a pgbouncer in transaction mode: no named statements, no session settings, polling instead of LISTEN.
    #[must_use]
    pub fn pgbouncer(mut self, pgbouncer: bool) -> Self {
        self.pgbouncer = pgbouncer;
        self
    }

    /// Deadline for one call: getting a connection, a statement of ours, a commit. Default 30 s.
    #[must_use]
    pub fn call_timeout(mut self, call_timeout: Duration) -> Self {
        self.call_timeout = call_timeout;
        self
    }

    /// Deadline for making a connection to one server; `connect_timeout` in the URL wins. Default 5 s.
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
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What is remembered of jobs that end through these connections. In a file it is a section of its own ([`Config::history`]).
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

    /// How long a node's heartbeat lasts: after the death of a node its jobs run elsewhere within about one and a half
    /// leases. 1 s or more; default 30 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a shutdown waits for running handlers before it cancels them. Default 30 s. For programs to pass on: the
    /// library is told by [`CommandExecutor::shutdown`](crate::CommandExecutor::shutdown).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// How long a handler may go on after its job was cancelled, to tidy up, before it is dropped. 0 to 1 h; default 5 s.
    #[must_use]
    pub fn cancel_grace(mut self, cancel_grace: Duration) -> Self {
        self.cancel_grace = cancel_grace;
        self
    }

    /// Longest time between two looks at the tables when nothing wakes the executor. 10 ms or more; default 5 s.
    #[must_use]
    pub fn poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// How often a handler that lost a conflict in the database is run again at once, within its attempt. Default 3; 0 makes a
    /// conflict an ordinary failure.
    #[must_use]
    pub fn conflict_retries(mut self, conflict_retries: u32) -> Self {
        self.conflict_retries = conflict_retries;
        self
    }

    /// A job whose node died this often while it ran becomes a dead letter, whatever attempts remain: it may be what kills them.
    /// 1 to 10; default 3. 0 = never; for nodes that die for reasons of their own, such as machines that may be taken away at any
    /// time.
    #[must_use]
    pub fn quarantine_after(mut self, quarantine_after: u32) -> Self {
        self.quarantine_after = quarantine_after;
        self
    }
}

impl HistoryConfig {
    /// Which ends. Each process keeps the ends it records itself, so all should be told the same. Default off.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// For how long; older ones are removed by executors, a few thousand at a time. Default 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How long results are kept that handlers store, unless they say otherwise. Default 1 day.
    #[must_use]
    pub fn results(mut self, results: Duration) -> Self {
        self.results = results;
        self
    }

    /// How long it is remembered who steered what (the audit); `None` (`"forever"`) = for ever. Older entries are removed by executors. Default
    /// 365 days.
    #[must_use]
    pub fn audit(mut self, audit: impl Into<Option<Duration>>) -> Self {
        self.audit = audit.into();
        self
    }

    /// How long dead letters are kept; executors remove older ones. Default `None` (`"forever"`): each waits until somebody tries it again or
    /// deletes it.
    #[must_use]
    pub fn dead_letters(mut self, dead_letters: impl Into<Option<Duration>>) -> Self {
        self.dead_letters = dead_letters.into();
        self
    }
}

impl BrokerConfig {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS; several as `amqp://user:password@a,b/vhost`, or as URLs with
    /// commas between them. Default: no broker.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(Secret::new(url));
        self
    }

    /// Fail to connect when the broker does not answer, instead of working DB-only until it does. Default `false`.
    #[must_use]
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// First part of the names of all exchanges and queues: letters, digits, `.`, `_` and `-`, at most 40 bytes. Default
    /// `jobwright`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Declare the queues that are needed when they are missing. Needs the right to configure them; without it, run
    /// `jobwright broker apply` once. Default `true`.
    #[must_use]
    pub fn declare(mut self, declare: bool) -> Self {
        self.declare = declare;
        self
    }

    /// What queues are made of. Default quorum.
    #[must_use]
    pub fn queue_type(mut self, queue_type: QueueType) -> Self {
        self.queue_type = queue_type;
        self
    }

    /// Most messages of one queue that wait in the broker; what goes beyond waits in the table. One that delivers jobs to executors names up to
    /// 32. 1 to 1,000,000; default 1000.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Most messages that wait to be taken in, to be recorded, or to be looked at after they were refused, in each queue for these: the broker
    /// refuses more. 0: no limit. Default 100,000.
    #[must_use]
    pub fn submit_depth(mut self, submit_depth: u32) -> Self {
        self.submit_depth = submit_depth;
        self
    }

    /// The same in bytes of their bodies. Default 1 GiB.
    #[must_use]
    pub fn submit_bytes(mut self, submit_bytes: u64) -> Self {
        self.submit_bytes = submit_bytes;
        self
    }

    /// Take in the jobs that foreign producers submit. Default `true`.
    #[must_use]
    pub fn intake(mut self, intake: bool) -> Self {
        self.intake = intake;
        self
    }

    /// Send results also to clients that wait without a queue of their own (direct reply-to): once, to who is still there. Senders need it
    /// too. Default `false`.
    #[must_use]
    pub fn direct_reply(mut self, direct_reply: bool) -> Self {
        self.direct_reply = direct_reply;
        self
    }

    /// Where results may go: names of queues, or beginnings of names such as `answers.*`. Default: to any queue that is not named like one
    /// of an installation's own, by `.submit`, `.reply`, `.dead` or `.rejected` at its end.
    #[must_use]
    pub fn reply_to(mut self, reply_to: impl Into<Option<Vec<String>>>) -> Self {
        self.reply_to = reply_to.into();
        self
    }

    /// Most of them that this process takes in each second, over time. 0, the default: no limit.
    #[must_use]
    pub fn intake_rate(mut self, intake_rate: u32) -> Self {
        self.intake_rate = intake_rate;
        self
    }

    /// The same in bytes: 65,536 or more. 0, the default: no limit.
    #[must_use]
    pub fn intake_bytes(mut self, intake_bytes: u32) -> Self {
        self.intake_bytes = intake_bytes;
        self
    }

    /// Who may submit what, by the broker's users, who then have to say who they are (property `user_id`, which the broker checks). Default:
    /// everybody whom the broker lets write to the queue may submit everything.
    #[must_use]
    pub fn submit_rules(mut self, submit_rules: impl Into<Option<SubmitRules>>) -> Self {
        self.submit_rules = submit_rules.into();
        self
    }

    /// Deadline for making a connection to one broker, and for a call. Default 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long a publish waits for the broker's confirm until it counts as unknown. Default 10 s.
    #[must_use]
    pub fn confirm_timeout(mut self, confirm_timeout: Duration) -> Self {
        self.confirm_timeout = confirm_timeout;
        self
    }

    /// Take reports of external workers only with the token that their job came with (header `reportToken`). `false`: from anybody who may write to
    /// the queue for them, for the time of a change. Default `true`.
    #[must_use]
    pub fn report_tokens(mut self, report_tokens: bool) -> Self {
        self.report_tokens = report_tokens;
        self
    }

    /// AMQP heartbeat: a connection that is silent for twice as long is given up. 1 s to 10 min, whole seconds; default 10 s.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }
}

impl SubmitRule {
    /// Kinds of jobs.
    #[must_use]
    pub fn kinds(mut self, kinds: impl Into<Option<Vec<String>>>) -> Self {
        self.kinds = kinds.into();
        self
    }

    /// Queues.
    #[must_use]
    pub fn queues(mut self, queues: impl Into<Option<Vec<String>>>) -> Self {
        self.queues = queues.into();
        self
    }

    /// Tenants; with this, a job needs one.
    #[must_use]
    pub fn tenants(mut self, tenants: impl Into<Option<Vec<String>>>) -> Self {
        self.tenants = tenants.into();
        self
    }
}
