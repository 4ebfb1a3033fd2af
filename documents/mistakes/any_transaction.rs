//! A command for PostgreSQL, run on a store that is chosen at run time.
//! says: no method named `execute` found for mutable reference `&mut AnyTransaction`

use jobwright::{AnyStore, Command, JobContext, JobError, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order: i64,
}

impl Command<AnyStore> for SendInvoice {
    const KIND: &'static str = "send-invoice";
    type State = ();

    async fn execute(self, cx: &mut JobContext<'_, (), AnyStore>) -> Result<Outcome, JobError> {
        let tx = cx.transaction().await?;
        tx.execute("update orders set invoiced = true where id = $1", &[&self.order]).await?;
        Ok(Outcome::Done)
    }
}

fn main() {}
