//! An executor that is dropped where it was started.
//! says: unused `CommandExecutor` that must be used

#![deny(unused_must_use)]

use jobwright::{ExecutorBuilder, Result};

async fn start(builder: ExecutorBuilder) -> Result<()> {
    builder.start().await?;
    Ok(())
}

fn main() {}
