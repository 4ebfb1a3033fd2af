//! Part 4: what happened to every job. Everything is read from the database.

use std::fmt::Write as _;

use jobwright::admin::{JobFilter, JobState, Page};

use super::stage::Stage;
use super::takeover::Takeover;
use super::{flood, orders, takeover};
use crate::failure::Failure;
use crate::output::{print, table};

/// The figures of one part of the demo.
struct Account {
    part: &'static str,
    sent: u64,
    /// Jobs with an effect in the ledger.
    done: u64,
    dead: u64,
    /// Rows in the ledger: one for each effect.
    effects: u64,
    attempts: u64,
}

impl Account {
    async fn of(stage: &Stage, part: &'static str, sent: u64) -> Result<Self, Failure> {
        let ask =
            async |what: &str| stage.number(&format!("select {what} from {{ledger}} where part = '{part}'")).await;
        let filter = JobFilter::state(JobState::Dead).queue(part.to_owned());
        let dead = stage.messages.admin().list(&filter, &Page::new(100_000)).await?;
        let spent: u64 = dead.iter().map(|job| u64::from(job.attempt)).sum();
        Ok(Self {
            part,
            sent,
            done: ask("count(distinct job)").await?,
            dead: stage.queue(part).await?.dead.get(),
            effects: ask("count(*)").await?,
            attempts: spent + ask("cast(coalesce(sum(cast(attempt as bigint)), 0) as bigint)").await?,
        })
    }

    /// Jobs that are neither done nor dead. A negative number would mean both done and dead.
    fn unaccounted(&self) -> i64 {
        self.sent as i64 - self.done as i64 - self.dead as i64
    }

    /// Effects beyond the first of each job.
    fn doubled(&self) -> u64 {
        self.effects - self.done
    }

    fn row(&self) -> [String; 7] {
        let numbers = [self.sent, self.done, self.dead].map(|n| n.to_string());
        let [sent, done, dead] = numbers;
        let (unaccounted, attempts) = (self.unaccounted().to_string(), self.attempts.to_string());
        [self.part.to_owned(), sent, done, dead, unaccounted, attempts, self.doubled().to_string()]
    }
}

pub(super) async fn run(stage: &Stage, (first, flooded): (u64, u64), taken: &Takeover) -> Result<(), Failure> {
    let accounts = [
        Account::of(stage, orders::QUEUE, first).await?,
        Account::of(stage, flood::QUEUE, flooded).await?,
        Account::of(stage, takeover::QUEUE, taken.sent).await?,
    ];
    let by = async |worker: u32, attempt: u32| {
        let mut number = 0;
        for id in &taken.orphans {
            let whose = format!("job = '{id}' and worker = '{worker}' and attempt = '{attempt}'");
            number += stage.number(&format!("select count(*) from {{ledger}} where {whose}")).await?;
        }
        Ok::<_, Failure>(number)
    };
    let survived = by(std::process::id(), 2).await?;
    // A server executes a commit that reached it just before the client was killed.
    let last_words = by(taken.killed, 1).await?;
    let mut text = String::from("4. The account of all jobs, asked from the database:\n\n");
    let header = ["part", "sent", "done", "dead letters", "unaccounted", "attempts", "effects twice"];
    text += &table(header, accounts.iter().map(Account::row));
    // Writing to a string can't fail.
    let _ = writeln!(
        text,
        "\ntaken over from the killed worker: {survived} of the {} it had claimed, each in its second attempt",
        taken.orphans.len()
    );
    if last_words > 0 {
        let _ = writeln!(text, "committed by the killed worker with its last breath: {last_words}");
    }
    let kept = accounts.iter().all(|account| account.unaccounted() == 0 && account.doubled() == 0);
    if !kept || survived + last_words != taken.orphans.len() as u64 {
        print(text)?;
        return Err(Failure::Failed("the account does not balance: this is a bug, please report it".to_owned()));
    }
    text += "Every job is accounted for, and every effect happened exactly once.\n\n";
    print(text)
}
