//! Stores whose time a test can let pass.

use std::time::Duration;

use crate::error::Result;
use crate::store::schedules::TravelledSchedules;
use crate::store::{AnyStore, Postgres, Store};

mod sealed {
    use std::time::Duration;

    pub trait Travel {
        fn travel(&self, by: Duration) -> impl Future<Output = crate::Result<()>> + Send;
    }
}

/// A store whose time a test can let pass.
pub trait TestStore: Store + sealed::Travel {}

impl<S: Store + sealed::Travel> TestStore for S {}

/// Lets time pass for timers and rates, which are moved, and for schedules, whose clock is put forward.
pub(super) async fn travel<S: TestStore>(store: &S, schedules: &TravelledSchedules, by: Duration) -> Result<()> {
    store.travel(by).await?;
    schedules.travel(by);
    Ok(())
}

impl sealed::Travel for Postgres {
    async fn travel(&self, by: Duration) -> Result<()> {
        Self::travel(self, by).await
    }
}

#[cfg(feature = "sqlite")]
impl sealed::Travel for crate::Sqlite {
    async fn travel(&self, by: Duration) -> Result<()> {
        Self::travel(self, by).await
    }
}

#[cfg(feature = "sqlx-0_8")]
impl sealed::Travel for crate::sqlx_0_8::Sqlx {
    async fn travel(&self, by: Duration) -> Result<()> {
        self.postgres().travel(by).await
    }
}

#[cfg(feature = "sqlx-0_9")]
impl sealed::Travel for crate::sqlx_0_9::Sqlx {
    async fn travel(&self, by: Duration) -> Result<()> {
        self.postgres().travel(by).await
    }
}

impl sealed::Travel for AnyStore {
    async fn travel(&self, by: Duration) -> Result<()> {
        match self {
            Self::Postgres(store) => store.travel(by).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.travel(by).await,
        }
    }
}
