//! An executor that is dropped where it was started.
//! says: unused `CommandExecutor` that must be used
//! says: dropping an executor stops it

#![deny(unused_must_use)]

use jobwright::{ExecutorBuilder, Result};

pub async fn start(builder: ExecutorBuilder) -> Result<()> {
    builder.start().await?;
    Ok(())
}

fn main() {}
