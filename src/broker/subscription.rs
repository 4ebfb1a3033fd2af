//! Receives from one queue, across reconnections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::acks::{Acks, Answer, Frame, Outstanding};
use super::declare;
use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::message::Incoming;
use super::mode_tracker::Side;
use super::prefetch_window::PrefetchWindow;
use crate::backoff::Reconnect;

/// Longest delay between two attempts to consume.
const RESUBSCRIBE: Duration = Duration::from_secs(5);
/// How long answers still go out after the subscription was dropped.
const GRACE: Duration = Duration::from_secs(2);
/// How long attempts to consume may fail, while the broker is up, before operators are told. Restarts and elections take less.
const TOLERATED: Duration = Duration::from_secs(20);
/// The most answers put into frames together.
const ANSWERS: usize = 10_000;

/// Messages of one queue. After a drop it takes no more, and answers still go out for a short time.
#[derive(Debug)]
pub struct Subscription {
    inbox: Arc<Inbox>,
    acks: Acks,
    dropped: CancellationToken,
}

/// Messages that have arrived and were not taken yet. The prefetch bounds their number, but not their size.
#[derive(Debug, Default)]
struct Inbox {
    messages: Mutex<(VecDeque<Incoming>, bool)>,
    news: Notify,
}

impl Inbox {
    fn put(&self, message: Incoming) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).0.push_back(message);
        self.news.notify_one();
    }

    /// Takes out messages that are no longer needed.
    fn clear(&self) -> VecDeque<Incoming> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    fn close(&self) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.news.notify_one();
    }
}

impl Subscription {
    pub(super) fn start(hub: &Arc<Hub>, queue: String, prefetch: u16, careful: Option<usize>) -> Self {
        let inbox = Arc::new(Inbox::default());
        let (acks, answers) = mpsc::unbounded_channel();
        let dropped = CancellationToken::new();
        let task = Task {
            hub: hub.clone(),
            queue,
            prefetch: prefetch.max(1),
            careful,
            inbox: inbox.clone(),
            answers,
            dropped: dropped.clone(),
        };
        hub.workers.spawn(task.run());
        Self { inbox, acks: Acks(acks), dropped }
    }

    /// Waits for messages and takes up to `most`. 0: the broker handle is gone, and no more messages will come.
    pub async fn recv_many(&mut self, into: &mut Vec<Incoming>, most: usize) -> usize {
        loop {
            {
                let mut inbox = self.inbox.messages.lock().unwrap_or_else(PoisonError::into_inner);
                let taken = inbox.0.len().min(most.max(1));
                if taken > 0 {
                    into.extend(inbox.0.drain(..taken));
                    return taken;
                }
                if inbox.1 {
                    return 0;
                }
            }
            // A notification sent before this wait is kept, because there is only one waiter.
            self.inbox.news.notified().await;
        }
    }

    /// Returns the handle for answering.
    pub fn acks(&self) -> Acks {
        self.acks.clone()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.dropped.cancel();
    }
}

struct Task {
    hub: Arc<Hub>,
    queue: String,
    prefetch: u16,
    /// The size limit of a careful subscription: one message at a time while redelivered or larger ones arrive.
    careful: Option<usize>,
    inbox: Arc<Inbox>,
    answers: mpsc::UnboundedReceiver<Answer>,
    dropped: CancellationToken,
}

/// A channel with its consumer and unanswered messages.
struct Attended {
    channel: Channel,
    consumer: Consumer,
    outstanding: Outstanding,
    prefetch_window: PrefetchWindow,
}

/// Since when a queue can't be consumed although the broker is up.
#[derive(Default)]
struct Trouble {
    since: Option<Instant>,
    told: bool,
}

impl Trouble {
    /// Takes in a failed attempt. Returns whether operators should now hear of it, for the first time.
    fn is_news(&mut self, up: bool, started: Instant) -> bool {
        if !up {
            self.since = None;
            return false;
        }
        let long = self.since.get_or_insert(started).elapsed() >= TOLERATED;
        long && !std::mem::replace(&mut self.told, true)
    }
}

/// How a channel ended.
enum SubscriptionEnd {
    /// The subscription is no longer wanted.
    Done,
    Broken(Failure),
}

impl Task {
    async fn run(mut self) {
        let mut delays = Reconnect::new(RESUBSCRIBE);
        let mut sessions = self.hub.line(Side::Consume).subscribe();
        let mut trouble = Trouble::default();
        while !self.over() {
            let started = Instant::now();
            let ended = match self.consume().await {
                Ok(mut attended) => {
                    trouble = Trouble::default();
                    let ended = self.attend(&mut attended).await;
                    // Useless now: the broker will deliver them again, to any consumer.
                    self.inbox.clear();
                    ended
                }
                Err(failure) => {
                    if trouble.is_news(self.hub.mode_tracker.is_up(), started) {
                        self.warn_of(&failure);
                    }
                    SubscriptionEnd::Broken(failure)
                }
            };
            let SubscriptionEnd::Broken(failure) = ended else { break };
            tracing::debug!("no messages from {}: {}", self.queue, failure.text());
            if matches!(failure, Failure::Missing(_)) && self.hub.config.declare {
                match declare::ensure_queue(&self.hub, &self.queue).await {
                    Ok(()) if started.elapsed() > RESUBSCRIBE => continue,
                    Ok(()) => {}
                    Err(error) => tracing::debug!("{error}"),
                }
            }
            if started.elapsed() > RESUBSCRIBE {
                delays.reset();
            }
            sessions.mark_unchanged();
            tokio::select! {
                () = tokio::time::sleep(delays.next_delay()) => {}
                // A new connection is worth an immediate try.
                _ = sessions.wait_for(Option::is_some), if sessions.borrow().is_none() => {}
                () = self.dropped.cancelled() => {}
                () = self.hub.stop.cancelled() => {}
            }
        }
        self.inbox.close();
    }

    fn warn_of(&self, failure: &Failure) {
        tracing::warn!(
            queue = self.queue,
            "broker {} is up, but nothing could be received from this queue for {TOLERATED:?} ({}); jobs for executors are claimed from the \
             table meanwhile",
            self.hub.addresses,
            failure.text()
        );
    }

    fn over(&self) -> bool {
        self.dropped.is_cancelled() || self.hub.stop.is_cancelled()
    }

    async fn consume(&self) -> Result<Attended, Failure> {
        let channel = self.hub.session(Side::Consume)?.channel().await?;
        let outstanding = Outstanding::new(self.hub.number());
        let mut prefetch_window = PrefetchWindow::new(self.prefetch, self.careful);
        let consumer = self.consumer(&channel, prefetch_window.next(&outstanding)).await?;
        Ok(Attended { channel, consumer, outstanding, prefetch_window })
    }

    async fn consumer(&self, channel: &Channel, prefetch: u16) -> Result<Consumer, Failure> {
        let rpc = self.hub.rpc();
        // It applies to consumers that start after it.
        within(rpc, channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
        let options = BasicConsumeOptions::default();
        let call = channel.basic_consume(short(&self.queue)?, "".into(), options, FieldTable::default());
        within(rpc, call).await
    }

    /// Replaces the consumer, after receiving everything on its way to the old one.
    async fn follow(&self, attended: &mut Attended) -> Result<(), Failure> {
        let old = attended.consumer.tag();
        within(self.hub.rpc(), attended.channel.basic_cancel(old, BasicCancelOptions::default())).await?;
        while let Some(delivery) = within(self.hub.rpc(), async { attended.consumer.next().await.transpose() }).await? {
            self.receive(delivery, attended);
        }
        let prefetch = attended.prefetch_window.next(&attended.outstanding);
        attended.consumer = self.consumer(&attended.channel, prefetch).await?;
        Ok(())
    }

    /// Receives and answers until the channel ends.
    async fn attend(&mut self, attended: &mut Attended) -> SubscriptionEnd {
        let mut answers = Vec::new();
        loop {
            answers.clear();
            tokio::select! {
                delivery = attended.consumer.next() => match delivery {
                    Some(Ok(delivery)) => self.receive(delivery, attended),
                    Some(Err(error)) => return SubscriptionEnd::Broken(Failure::from(error)),
                    // The broker cancelled the consumer: the queue is gone, or moved to another node.
                    None => {
                        let _ = within(CLOSING, attended.channel.close(200, "OK".into())).await;
                        return SubscriptionEnd::Broken(Failure::Missing("the broker cancelled the subscription".to_owned()));
                    }
                },
                // The task itself holds no sender: when all are gone, no more answers come.
                some = self.answers.recv_many(&mut answers, ANSWERS), if !self.answers.is_closed() || !self.answers.is_empty() => {
                    if some > 0
                        && let Err(failure) = self.answer(&attended.channel, attended.outstanding.frames(answers.drain(..))).await
                    {
                        return SubscriptionEnd::Broken(failure);
                    }
                }
                () = self.dropped.cancelled() => break,
                () = self.hub.stop.cancelled() => break,
            }
            if attended.prefetch_window.is_due(&attended.outstanding)
                && let Err(failure) = self.follow(attended).await
            {
                return SubscriptionEnd::Broken(failure);
            }
        }
        self.wind_up(attended).await;
        SubscriptionEnd::Done
    }

    fn receive(&self, delivery: Delivery, attended: &mut Attended) {
        self.hub.counters.received(delivery.redelivered);
        attended.prefetch_window.came(delivery.redelivered, delivery.data.len());
        self.inbox.put(Incoming {
            tag: attended.outstanding.delivered(delivery.delivery_tag),
            properties: delivery.properties,
            body: delivery.data,
            redelivered: delivery.redelivered,
            received: Instant::now(),
        });
    }

    async fn answer(&self, channel: &Channel, frames: Vec<Frame>) -> Result<(), Failure> {
        let calls = frames.into_iter().map(async |frame| match frame {
            Frame::Ack { tag, multiple } => channel.basic_ack(tag, BasicAckOptions { multiple }).await,
            Frame::Reject(tag) => channel.basic_reject(tag, BasicRejectOptions { requeue: true }).await,
        });
        let all = async { join_all(calls).await.into_iter().collect::<lapin::Result<Vec<_>>>() };
        within(self.hub.rpc(), all).await.map(drop)
    }

    /// Sends the remaining answers, and closes the channel. The broker takes back the unanswered messages.
    async fn wind_up(&mut self, attended: &mut Attended) {
        let Attended { channel, consumer, outstanding, .. } = attended;
        let end = tokio::time::Instant::now() + GRACE;
        let _ = within(CLOSING, channel.basic_cancel(consumer.tag(), BasicCancelOptions::default())).await;
        if self.dropped.is_cancelled() {
            for message in self.inbox.clear() {
                outstanding.forget(message.tag);
            }
        }
        let mut answers = Vec::new();
        while !outstanding.is_empty() {
            answers.clear();
            match tokio::time::timeout_at(end, self.answers.recv_many(&mut answers, ANSWERS)).await {
                Ok(1..) => {
                    if self.answer(channel, outstanding.frames(answers.drain(..))).await.is_err() {
                        break;
                    }
                }
                Ok(0) | Err(_) => break,
            }
        }
        let _ = within(CLOSING, channel.close(200, "OK".into())).await;
    }
}
