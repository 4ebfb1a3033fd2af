//! A handler that ends with `Ok(())`.
//! says: expected `Result<Outcome, JobError>`, found `Result<(), JobError>`

use jobwright::{Command, JobContext, JobError};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

impl Command for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, _: &mut JobContext<'_>) -> Result<(), JobError> {
        Ok(())
    }
}

fn main() {}
