/// Names of exchanges and queues, all with the configured prefix. See broker/README.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// Creates names with this prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Returns the queue for deliveries of a queue to jobwright's executors.
    pub fn deliveries(&self, queue: &str) -> String {
        format!("{}.q.{queue}", self.prefix)
    }

    /// Returns the queue for jobs of a queue for external workers.
    pub fn external(&self, queue: &str) -> String {
        format!("{}.x.{queue}", self.prefix)
    }

    /// Returns the queue to which external producers submit jobs.
    pub fn submit(&self) -> String {
        format!("{}.submit", self.prefix)
    }

    /// Returns the queue for submissions that can't be taken in.
    pub fn rejected(&self) -> String {
        format!("{}.submit.rejected", self.prefix)
    }

    /// Returns the queue for reports that can't be recorded.
    pub fn rejected_reports(&self) -> String {
        format!("{}.reply.rejected", self.prefix)
    }

    /// Returns the queue to which external workers report.
    pub fn reply(&self) -> String {
        format!("{}.reply", self.prefix)
    }

    /// Returns the topic exchange of events.
    pub fn events(&self) -> String {
        format!("{}.event", self.prefix)
    }

    /// Returns the routing key of an event.
    pub fn event(&self, kind: &str) -> String {
        format!("{}.event.{kind}", self.prefix)
    }

    /// Returns a queue name that is never declared: messages sent to it are returned.
    pub(super) fn nowhere(&self) -> String {
        format!("{}.nowhere", self.prefix)
    }

    /// Returns the exchange that marks to which installation all of these belong.
    pub fn owner(&self) -> String {
        format!("{}.owner", self.prefix)
    }

    /// Returns the alternate exchange of that mark, for an installation whose id begins with these digits.
    pub(super) fn owned_by(&self, digits: &str) -> String {
        format!("{}.owner.{digits}", self.prefix)
    }

    /// Returns the exchange and queue for deliveries and handed-out jobs that can't be used.
    pub fn dead(&self) -> String {
        format!("{}.dead", self.prefix)
    }
}
