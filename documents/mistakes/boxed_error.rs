//! An error that may not leave its thread.
//! says: ?

use std::error::Error;

use jobwright::{Command, JobContext, JobError, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

fn print(order: i64) -> Result<(), Box<dyn Error>> {
    Err(format!("no printer for {order}").into())
}

impl Command for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
        print(self.order)?;
        Ok(Outcome::Done)
    }
}

fn main() {}
