//! Publishes with confirms: one task, one channel, a window.
//!
//! The client library's confirms have to be read with care. A message that was returned is attached to *some* confirm: one that the same
//! frame of the broker resolved, or an earlier one. So returned messages are matched by their own properties. A mandatory message that was
//! confirmed counts as routed only when every confirm that could still carry its return has been seen. That is so when the window is empty,
//! or when a call that was sent later was answered, because the client handles the broker's frames in their order.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use lapin::options::{BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, PublisherConfirm};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::failure::{Failure, short, within};
use super::hub::Hub;
use super::message::{Outgoing, Published};
use super::mode_tracker::Side;
use crate::backoff::Reconnect;

/// The most messages that were sent and are unanswered.
const WINDOW: usize = 2000;
/// Longest pause after the failure of a channel.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// The messages of one caller.
#[derive(Debug)]
pub(super) struct PublishBatch {
    pub(super) messages: Vec<Outgoing>,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Vec<Published>>,
}

/// Identifies the message that a return is about.
type Key = (String, String, String);

/// A waiting caller.
struct Caller {
    outcomes: Vec<Published>,
    open: usize,
    answer: oneshot::Sender<Vec<Published>>,
}

/// One message of a caller.
#[derive(Clone)]
struct Item {
    caller: u64,
    index: usize,
    deadline: Instant,
    /// The key of a mandatory message.
    key: Option<Key>,
}

/// A message with names that AMQP can carry.
struct Ready {
    exchange: ShortString,
    routing_key: ShortString,
    message: Outgoing,
}

struct Sent {
    item: Item,
    confirm: PublisherConfirm,
}

/// Publishes batches until the handle is gone.
pub(super) async fn run(hub: Arc<Hub>, mut batches: mpsc::UnboundedReceiver<PublishBatch>) {
    let mut publisher = Publisher {
        hub,
        channel: None,
        delays: Reconnect::new(PAUSE),
        not_before: Instant::now(),
        callers: HashMap::new(),
        next_caller: 0,
        waiting: VecDeque::new(),
        sent: VecDeque::new(),
        confirmed: Vec::new(),
        fenced: Vec::new(),
        returned: HashMap::new(),
        fence: None,
    };
    publisher.run(&mut batches).await;
}

struct Publisher {
    hub: Arc<Hub>,
    /// The channel, with the number of its connection.
    channel: Option<(u64, Channel)>,
    delays: Reconnect,
    not_before: Instant,
    callers: HashMap<u64, Caller>,
    next_caller: u64,
    /// Not sent yet.
    waiting: VecDeque<(Item, Ready)>,
    /// Sent, in that order, and not confirmed.
    sent: VecDeque<Sent>,
    /// Confirmed, but a return may still be on its way.
    confirmed: Vec<(Item, Published)>,
    /// The same, from before the call that is under way (the fence).
    fenced: Vec<(Item, Published)>,
    returned: HashMap<Key, usize>,
    fence: Option<BoxFuture<'static, Result<(), Failure>>>,
}

impl Publisher {
    async fn run(&mut self, batches: &mut mpsc::UnboundedReceiver<PublishBatch>) {
        let stop = self.hub.stop.clone();
        let mut open = true;
        while open || !self.callers.is_empty() {
            let room = self.waiting.len() + self.sent.len() < WINDOW;
            let timer = self.next_deadline();
            tokio::select! {
                batch = batches.recv(), if open && room => match batch {
                    Some(batch) => {
                        self.take(batch);
                        while self.waiting.len() < WINDOW && let Ok(batch) = batches.try_recv() {
                            self.take(batch);
                        }
                    }
                    None => open = false,
                },
                outcome = next(&mut self.sent, &mut self.fence) => self.seen(outcome),
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => self.expire(),
                () = stop.cancelled(), if open => {
                    // Messages handed in before are still answered.
                    batches.close();
                    while let Ok(batch) = batches.try_recv() {
                        self.take(batch);
                    }
                    open = false;
                }
            }
            self.send().await;
            self.settle();
            self.count_unconfirmed();
        }
    }

    fn take(&mut self, batch: PublishBatch) {
        let PublishBatch { messages, deadline, answer } = batch;
        if messages.is_empty() {
            let _ = answer.send(Vec::new());
            return;
        }
        let caller = self.next_caller;
        self.next_caller += 1;
        let outcomes = vec![Published::NotSent; messages.len()];
        self.callers.insert(caller, Caller { outcomes, open: messages.len(), answer });
        for (index, mut message) in messages.into_iter().enumerate() {
            let key = message.mandatory.then(|| key(&mut message));
            let item = Item { caller, index, deadline, key };
            match (short(&message.exchange), short(&message.routing_key)) {
                (Ok(exchange), Ok(routing_key)) => {
                    self.waiting.push_back((item, Ready { exchange, routing_key, message }));
                }
                // No queue can have such a name.
                _ => self.outcome(&item, Published::Returned),
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sent = self.sent.front().map(|sent| sent.item.deadline);
        let held = self.fenced.first().or(self.confirmed.first()).map(|(item, _)| item.deadline);
        let waiting = self.waiting.front().map(|(item, _)| item.deadline);
        [sent, held, waiting].into_iter().flatten().min()
    }

    /// Sends the messages that fit into the window.
    async fn send(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if !self.hub.mode_tracker.is_up() {
            return self.refuse_waiting();
        }
        if self.sent.is_empty()
            && self.confirmed.is_empty()
            && self.fenced.is_empty()
            && self.hub.renew.swap(false, Ordering::Relaxed)
        {
            self.leave_channel();
        }
        if self.channel.as_ref().is_some_and(|(_, channel)| !channel.status().connected()) {
            self.broken("the broker closed the channel");
        }
        let channel = match &self.channel {
            Some((_, channel)) => channel.clone(),
            None => {
                if Instant::now() < self.not_before {
                    return self.refuse_waiting();
                }
                match open(&self.hub).await {
                    Ok(opened) => self.channel.insert(opened).1.clone(),
                    Err(failure) => {
                        self.broken(&failure.text());
                        return self.refuse_waiting();
                    }
                }
            }
        };
        let room = WINDOW.saturating_sub(self.sent.len()).min(self.waiting.len());
        if room == 0 {
            return;
        }
        let wave: Vec<_> = self.waiting.drain(..room).collect();
        let deadline = wave[0].0.deadline;
        // All of them are handed to the client in their order before the first wait.
        let writes = join_all(wave.iter().map(|(_, Ready { exchange, routing_key, message })| {
            let options = BasicPublishOptions { mandatory: message.mandatory, ..BasicPublishOptions::default() };
            channel.basic_publish(
                exchange.clone(),
                routing_key.clone(),
                options,
                &message.body,
                message.properties.clone(),
            )
        }));
        let written = tokio::time::timeout_at(deadline, writes).await;
        let mut broken = None;
        match written {
            Ok(results) => {
                for ((item, _), result) in wave.into_iter().zip(results) {
                    match result {
                        Ok(confirm) => self.sent.push_back(Sent { item, confirm }),
                        Err(error) => {
                            self.outcome(&item, Published::Unknown);
                            broken = Some(Failure::from(error).text());
                        }
                    }
                }
            }
            Err(_) => {
                for (item, _) in wave {
                    self.outcome(&item, Published::Unknown);
                }
                broken = Some("it could not be written in time".to_owned());
            }
        }
        if let Some(why) = broken {
            self.broken(&why);
        }
    }

    /// Closes the channel gracefully: nothing on it waits for an answer.
    fn leave_channel(&mut self) {
        let Some((_, channel)) = self.channel.take() else { return };
        let patience = self.hub.rpc();
        self.hub.workers.spawn(async move { drop(within(patience, channel.close(200, "renewed".into())).await) });
    }

    /// Takes in confirms, and the answer to the fence.
    fn seen(&mut self, seen: Seen) {
        // The confirms come first: all that are resolved by now precede the fence.
        let mut broken = None;
        for (item, confirmation) in seen.resolved {
            match confirmation {
                Ok(confirmation) => {
                    self.delays.reset();
                    let outcome = if confirmation.is_nack() { Published::Nacked } else { Published::Acked };
                    if let Confirmation::Ack(Some(message)) | Confirmation::Nack(Some(message)) = confirmation
                        && let Some(id) = message.properties.message_id()
                    {
                        let key = (message.exchange.to_string(), message.routing_key.to_string(), id.to_string());
                        *self.returned.entry(key).or_default() += 1;
                    }
                    if item.key.is_some() {
                        self.confirmed.push((item, outcome));
                    } else {
                        self.outcome(&item, outcome);
                    }
                }
                Err(error) => {
                    self.outcome(&item, Published::Unknown);
                    broken = Some(Failure::from(error).text());
                }
            }
        }
        match seen.fence {
            Some(Ok(())) => {
                let fenced = std::mem::take(&mut self.fenced);
                self.decide(fenced);
            }
            Some(Err(failure)) => broken = Some(failure.text()),
            None => {}
        }
        if let Some(why) = broken {
            self.broken(&why);
        }
    }

    /// Decides the messages that can be decided, or sends the call after which they can be.
    fn settle(&mut self) {
        if self.sent.is_empty() {
            self.fence = None;
            let mut all = std::mem::take(&mut self.fenced);
            all.append(&mut self.confirmed);
            self.decide(all);
            self.returned.clear();
        } else if self.fence.is_none()
            && !self.confirmed.is_empty()
            && let Some((_, channel)) = self.channel.clone()
        {
            self.fenced = std::mem::take(&mut self.confirmed);
            let deadline = self.hub.config.confirm_timeout;
            // Any call with an answer will do. This one changes nothing on a channel without consumers.
            self.fence =
                Some(async move { within(deadline, channel.basic_qos(0, BasicQosOptions::default())).await }.boxed());
        }
    }

    fn decide(&mut self, items: Vec<(Item, Published)>) {
        for (item, outcome) in items {
            let returned = item.key.as_ref().and_then(|key| self.returned.get_mut(key)).is_some_and(|count| {
                let any = *count > 0;
                *count = count.saturating_sub(1);
                any
            });
            // A nack says more: the message is in no queue, and not because there is none.
            let outcome = if returned && outcome == Published::Acked { Published::Returned } else { outcome };
            self.outcome(&item, outcome);
        }
    }

    /// Handles deadlines that have passed.
    fn expire(&mut self) {
        let now = Instant::now();
        while self.waiting.front().is_some_and(|(item, _)| item.deadline <= now) {
            if let Some((item, _)) = self.waiting.pop_front() {
                self.outcome(&item, Published::NotSent);
            }
        }
        let held = self.fenced.first().or(self.confirmed.first()).map(|(item, _)| item.deadline);
        let sent = self.sent.front().map(|sent| sent.item.deadline);
        if sent.into_iter().chain(held).any(|deadline| deadline <= now) {
            self.broken("a confirm did not come in time");
        }
    }

    /// Gives up the channel. Its unanswered messages are unknown, and so are those that were confirmed but may have been returned.
    fn broken(&mut self, why: &str) {
        let lost = self.sent.len() + self.confirmed.len() + self.fenced.len();
        tracing::debug!("the channel for publishing is closed: {why}; {lost} messages are in doubt");
        let lost_with_connection = self.channel.take().is_some_and(|(number, _)| {
            self.hub.line(Side::Publish).borrow().as_ref().is_none_or(|session| session.number != number)
        });
        self.fence = None;
        // A deleted exchange ends a channel too.
        self.hub.doubts.fetch_add(1, Ordering::Relaxed);
        let mut items: Vec<_> = self.sent.drain(..).map(|sent| sent.item).collect();
        items.extend(self.confirmed.drain(..).chain(self.fenced.drain(..)).map(|(item, _)| item));
        for item in items {
            self.outcome(&item, Published::Unknown);
        }
        self.returned.clear();
        // The pause is for channels that the broker closes. A new connection has its own pause.
        let pause = if lost_with_connection { std::time::Duration::ZERO } else { self.delays.next_delay() };
        self.not_before = Instant::now() + pause;
    }

    fn refuse_waiting(&mut self) {
        for (item, _) in std::mem::take(&mut self.waiting) {
            self.outcome(&item, Published::NotSent);
        }
    }

    fn count_unconfirmed(&self) {
        let unconfirmed = self.sent.len() + self.confirmed.len() + self.fenced.len();
        self.hub.counters.unconfirmed.store(unconfirmed as u64, Ordering::Relaxed);
    }

    fn outcome(&mut self, item: &Item, outcome: Published) {
        self.hub.counters.published(outcome);
        if outcome == Published::Returned {
            self.hub.doubts.fetch_add(1, Ordering::Relaxed);
        }
        let Some(caller) = self.callers.get_mut(&item.caller) else { return };
        caller.outcomes[item.index] = outcome;
        caller.open -= 1;
        if caller.open == 0
            && let Some(caller) = self.callers.remove(&item.caller)
        {
            // Counted before the caller goes on, because it may ask for the count.
            self.count_unconfirmed();
            let _ = caller.answer.send(caller.outcomes);
        }
    }
}

async fn open(hub: &Hub) -> Result<(u64, Channel), Failure> {
    let session = hub.session(Side::Publish)?;
    let channel = session.channel().await?;
    within(hub.rpc(), channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok((session.number, channel))
}

/// Returns what a return of this message would contain. Gives the message an id if it has none.
fn key(message: &mut Outgoing) -> Key {
    let id = match message.properties.message_id() {
        Some(id) => id.to_string(),
        None => {
            let id = uuid::Uuid::now_v7().to_string();
            message.properties = std::mem::take(&mut message.properties).with_message_id(id.as_str().into());
            id
        }
    };
    (message.exchange.clone(), message.routing_key.clone(), id)
}

/// The confirms since the last call.
struct Seen {
    resolved: Vec<(Item, lapin::Result<Confirmation>)>,
    fence: Option<Result<(), Failure>>,
}

/// Waits for confirms, or for the answer to the fence.
///
/// It polls the fence first and all confirms after that. So each confirm that the client resolved before the answer is returned with it.
async fn next(sent: &mut VecDeque<Sent>, fence: &mut Option<BoxFuture<'static, Result<(), Failure>>>) -> Seen {
    poll_fn(|cx| {
        let answered = fence.as_mut().and_then(|call| match call.as_mut().poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        });
        if answered.is_some() {
            *fence = None;
        }
        let mut resolved = Vec::new();
        for mut each in std::mem::take(sent) {
            match Pin::new(&mut each.confirm).poll(cx) {
                Poll::Ready(confirmation) => resolved.push((each.item, confirmation)),
                Poll::Pending => sent.push_back(each),
            }
        }
        if resolved.is_empty() && answered.is_none() {
            return Poll::Pending;
        }
        Poll::Ready(Seen { resolved, fence: answered })
    })
    .await
}
