//! `#[async_trait]` on a command, by habit.
//! says: lifetime parameters or bounds on method `execute` do not match the trait declaration

use jobwright::{Command, JobContext, JobError, Outcome, async_trait};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

#[async_trait]
impl Command for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, _: &mut JobContext<'_>) -> Result<Outcome, JobError> {
        Ok(Outcome::Done)
    }
}

fn main() {}
