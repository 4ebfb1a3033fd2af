/// Names of exchanges and queues, all with the prefix of the configuration. See broker/README.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// With this prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// Deliveries of a queue to executors of ours.
    pub fn deliveries(&self, queue: &str) -> String {
        format!("{}.q.{queue}", self.prefix)
    }

    /// Jobs of a queue for external workers.
    pub fn external(&self, queue: &str) -> String {
        format!("{}.x.{queue}", self.prefix)
    }

    /// Where foreign producers submit jobs.
    pub fn submit(&self) -> String {
        format!("{}.submit", self.prefix)
    }

    /// Where submissions go that can't be taken in.
    pub fn rejected(&self) -> String {
        format!("{}.submit.rejected", self.prefix)
    }

    /// Where reports go that can't be recorded.
    pub fn rejected_reports(&self) -> String {
        format!("{}.reply.rejected", self.prefix)
    }

    /// Where external workers report.
    pub fn reply(&self) -> String {
        format!("{}.reply", self.prefix)
    }

    /// Topic exchange of events.
    pub fn events(&self) -> String {
        format!("{}.event", self.prefix)
    }

    /// Routing key of an event.
    pub fn event(&self, kind: &str) -> String {
        format!("{}.event.{kind}", self.prefix)
    }

    /// A queue that nobody declares: what is sent there comes back.
    pub(super) fn nowhere(&self) -> String {
        format!("{}.nowhere", self.prefix)
    }

    /// Exchange and queue of deliveries and handed-out jobs that nobody can use.
    pub fn dead(&self) -> String {
        format!("{}.dead", self.prefix)
    }
}
