//! A transaction of another program, which holds its locks until it is dropped.

pub(crate) struct OpenTransaction {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl OpenTransaction {
    /// Begins a transaction with this statement.
    pub(crate) fn with(statement: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime.block_on(async {
            let url = std::env::var("DATABASE_URL").unwrap();
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&format!("begin; {statement}")).await.unwrap();
            client
        });
        Self { runtime, client }
    }

    /// Returns how many locks are waited for that meet a condition: `w` is the lock, and `a` the activity of its session.
    pub(crate) fn waiting(&self, condition: &str) -> usize {
        let waits =
            format!("select from pg_locks w join pg_stat_activity a using (pid) where not w.granted and {condition}");
        self.runtime.block_on(self.client.query(&waits, &[])).unwrap().len()
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let _ = self.runtime.block_on(self.client.batch_execute("rollback"));
    }
}
