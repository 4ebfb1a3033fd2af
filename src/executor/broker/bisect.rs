//! Messages from the broker on their way to the store, in parts.
//!
//! A batch that the store refuses is halved, down to the one message that is to blame. A statement may be refused because of it, may take
//! too long because of it, or may even crash the server. The order is kept: producers rely on it within a group.

use std::ops::Range;
use std::time::Duration;

use crate::backoff::Reconnect;
use crate::broker::Incoming;
use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::executor::broker::mode::BATCH;
use crate::job::Limits;

/// The most bytes in one call to the store, and in one publish of rejected messages, unless a single message has more.
const MOST: usize = 8 * 1024 * 1024;
/// The bytes in memory if each message has its largest legal size. It is exceeded only if a tenth of this is less than the largest message.
const IN_HAND: usize = 64 * 1024 * 1024;
/// How often one message may hit a deadline or lose a connection, which also costs other messages something.
const TRIES: u32 = 3;
/// How often it may fail in another retryable way, such as by a conflict.
const PUT_OFF: u32 = 8;
/// Longest pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// Returns how many unstored messages a node may have in flight: as many as come to 64 MiB at the largest legal size, but at least 10 and
/// at most 500. The broker's own limit for a message (`max_message_size`) is what one may really cost: the protocol knows no bound in
/// bytes.
pub(crate) fn prefetch(limits: Limits) -> u16 {
    let count = (IN_HAND / limits.payload.max(1)).clamp(10, BATCH);
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Cuts a list so that no part has more than [`MOST`] bytes.
pub(crate) fn cut<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for item in items {
        let size = bytes(&item);
        match parts.last_mut() {
            Some(part) if size <= room => part.push(item),
            _ => {
                room = MOST;
                parts.push(vec![item]);
            }
        }
        room = room.saturating_sub(size);
    }
    parts
}

/// Returns the messages that were delivered for the first time together, then each redelivered one alone. A message that crashed an
/// executor once may do so again, and the others are stored by then.
pub(crate) fn batches(messages: Vec<Incoming>) -> Vec<Vec<Incoming>> {
    let (again, first): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.redelivered);
    let mut parts = cut(first, Incoming::weight);
    parts.extend(again.into_iter().map(|message| vec![message]));
    parts
}

/// Does the same for messages that have waited since, in their order.
pub(crate) fn in_order<T>(items: Vec<T>, message: impl Fn(&T) -> &Incoming) -> Vec<Vec<T>> {
    let bytes = |message: &Incoming| if message.redelivered { usize::MAX } else { message.weight().max(1) };
    cut(items, |item| bytes(message(item)))
}

/// Gives items `0..count` to the store, all at once if it accepts them.
///
/// Calls `done` in order: for each part that was accepted, and for each item that was not. An item is not accepted if the database refuses
/// it, or if it fails repeatedly while the database answers in between. `alive` asks the database something small that needs the same
/// tables. While that gets no answer either, no item is to blame.
///
/// An item that waits for another transaction is not accepted at the first try, and delays no other item: the caller has to give it to the
/// store again, because it did not fail (`Error::is_undecided`).
pub(crate) async fn in_parts<T, F, A>(
    what: &'static str,
    count: usize,
    mut call: impl FnMut(Range<usize>) -> F,
    mut alive: impl FnMut() -> A,
    mut done: impl FnMut(Range<usize>, Result<T>),
) where
    F: Future<Output = Result<T>>,
    A: Future<Output = Result<()>>,
{
    let mut delays = Reconnect::new(PAUSE);
    let mut told = false;
    // A stack: the last entry is the next one.
    let mut todo = vec![(0..count, 0)];
    while let Some((part, failed)) = todo.pop() {
        if part.is_empty() {
            continue;
        }
        let error = match call(part.clone()).await {
            Ok(answer) => {
                delays.reset();
                done(part, Ok(answer));
                continue;
            }
            Err(error) => error,
        };
        let mut failed = failed;
        if error.refuses_all() {
            // No message is to blame, and none is lost: they wait until something changes there. A reason that is told elsewhere leaves the warning to a
            // later one.
            if !error.is_already_logged() && !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    %error,
                    what,
                    "the database refuses all messages from the broker; they wait until it accepts them"
                );
            } else {
                tracing::debug!(%error, what, "the database still refuses all messages from the broker");
            }
            tokio::time::sleep(delays.next_delay()).await;
            todo.push((part, failed));
            continue;
        }
        let undecided = error.is_undecided();
        if error.is_retryable() && !undecided {
            warn_of!(
                error,
                what,
                count = part.len(),
                "the store did not accept messages from the broker; trying again"
            );
            until_answered(&mut delays, &mut alive).await;
            failed += 1;
        }
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            todo.push((middle..part.end, 0));
            todo.push((part.start..middle, 0));
        } else if error.is_retryable() && !undecided && failed < patience(&error) {
            todo.push((part, failed));
        } else {
            done(part, Err(error));
        }
    }
}

/// Waits until the outage is over.
async fn until_answered<A: Future<Output = Result<()>>>(delays: &mut Reconnect, alive: &mut impl FnMut() -> A) {
    loop {
        tokio::time::sleep(delays.next_delay()).await;
        match alive().await {
            Err(error) if error.is_retryable() => tracing::debug!(%error, "the store does not answer"),
            // The next try reports a permanent error.
            _ => return,
        }
    }
}

fn patience(error: &Error) -> u32 {
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::Unreachable | ErrorKind::CommitUnknown => TRIES,
        _ => PUT_OFF,
    }
}

#[cfg(test)]
mod tests;
