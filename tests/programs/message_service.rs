//! A message service of our own: it writes an audit of what is sent, in the sender's transaction.

use jobwright::{
    DatabaseConfig, FlushInto, MessageService, MessageServices, NewJob, Result, Sqlite, Written, async_trait,
};

use crate::programs::Directory;

/// Writes a row of the audit for each message, and passes all messages on.
struct Audit(Box<dyn MessageService<Sqlite>>);

#[async_trait]
impl MessageService<Sqlite> for Audit {
    fn inner(&self) -> Option<&dyn MessageService<Sqlite>> {
        Some(&*self.0)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<Sqlite>> {
        Some(&mut *self.0)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, Sqlite>) -> Result<Written> {
        let transaction = into.transaction().await?;
        for job in self.0.pending() {
            transaction.execute("insert into audit (kind) values (?1)", (job.kind.clone(),)).await?;
        }
        self.0.flush(into).await
    }
}

/// Returns the kinds in the audit, in the order in which they were sent.
async fn audited(messages: &MessageServices<Sqlite>) -> Result<String> {
    let mut cx = messages.begin();
    let sql = "select coalesce(group_concat(kind, ' '), '') from (select kind from audit order by id)";
    let kinds: String = cx.transaction().await?.query_row(sql, (), |row| row.get(0)).await?;
    cx.rollback().await?;
    Ok(kinds)
}

#[tokio::test]
async fn only_committed_sends_are_audited() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = Directory::new()?;
    let messages = MessageServices::sqlite(&DatabaseConfig::url(directory.url())).await?;
    let mut cx = messages.begin();
    cx.transaction().await?.execute("create table audit (id integer primary key, kind text not null)", ()).await?;
    cx.commit().await?;
    let messages = messages.wrap(Audit);

    let mut cx = messages.begin();
    cx.send(NewJob::json("lost", &1))?;
    cx.rollback().await?;
    assert_eq!(audited(&messages).await?, "");

    let mut cx = messages.begin();
    cx.send(NewJob::json("first", &1))?;
    cx.send(NewJob::json("second", &2).queue("mail"))?;
    cx.commit().await?;
    messages.send(NewJob::json("third", &3)).await?;
    assert_eq!(audited(&messages).await?, "first second third");
    Ok(())
}
