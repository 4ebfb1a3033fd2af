//! An error that may not leave its thread.
//! says: `?` couldn't convert the error: `dyn StdError: Send` is not satisfied
//! says: required for `JobError` to implement `From<Box<dyn StdError>>`

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

    async fn execute(self, _: &mut JobContext<'_>) -> Result<Outcome, JobError> {
        print(self.order)?;
        Ok(Outcome::Done)
    }
}

fn main() {}
