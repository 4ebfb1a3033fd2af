//! What came from the broker, on its way to the store in parts.
//!
//! A batch that the store does not take is halved, down to the one message that is to blame: a statement may be refused for it, may take too
//! long for it, or may even end the server. Order is kept: producers rely on it within a group.

use std::ops::Range;
use std::time::Duration;

use super::BATCH;
use crate::backoff::Reconnect;
use crate::broker::Incoming;
use crate::error::{Error, ErrorKind, Result, warn_of};
use crate::job::Limits;

/// Most bytes in one call to the store, and in one publish of what is put aside, unless a single message has more.
const MOST: usize = 8 * 1024 * 1024;
/// Bytes in hand, if each message has as many as it may. More only if a tenth of this is less than one message may have.
const IN_HAND: usize = 64 * 1024 * 1024;
/// How often one message may go with a deadline or a connection, which costs others something too.
const TRIES: u32 = 3;
/// How often it may be put off in another way, such as by a conflict.
const PUT_OFF: u32 = 8;
/// Longest pause between two tries.
const PAUSE: Duration = Duration::from_secs(2);

/// Messages that a node has in hand of what exists nowhere else, so many that the largest legal ones come to 64 MiB, but at least 10 and at
/// most 500. The broker's own limit for a message (`max_message_size`) is what it may really cost: the protocol knows no bound in bytes.
pub(super) fn prefetch(limits: Limits) -> u16 {
    let count = (IN_HAND / limits.payload.max(1)).clamp(10, BATCH);
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Cuts a list so that no part has more than [`MOST`] bytes.
pub(super) fn cut<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
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

/// What came for the first time together, then each that came before by itself: what ended an executor once may do so again, and those
/// that are done by then are done with.
pub(super) fn batches(messages: Vec<Incoming>) -> Vec<Vec<Incoming>> {
    let (again, first): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message.redelivered);
    let mut parts = cut(first, Incoming::weight);
    parts.extend(again.into_iter().map(|message| vec![message]));
    parts
}

/// The same for what has waited since, in its order.
pub(super) fn in_order<T>(items: Vec<T>, message: impl Fn(&T) -> &Incoming) -> Vec<Vec<T>> {
    let bytes = |message: &Incoming| if message.redelivered { usize::MAX } else { message.weight().max(1) };
    cut(items, |item| bytes(message(item)))
}

/// Gives items `0..count` to the store, all at once if it takes them. `done` is told in their order of each part that was taken, and of each
/// item that is not: the database refuses it, or fails over and over because of it and answers in between. `alive` asks the database
/// something small that needs the same tables: as long as it does not answer that either, nobody is to blame.
pub(super) async fn in_parts<T, F, A>(
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
    // The next one is the last.
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
        if error.is_retryable() {
            warn_of!(error, what, count = part.len(), "the store did not take what came from the broker; trying again");
            until_answered(&mut delays, &mut alive).await;
            failed += 1;
        }
        if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            todo.push((middle..part.end, 0));
            todo.push((part.start..middle, 0));
        } else if error.is_retryable() && failed < patience(&error) {
            todo.push((part, failed));
        } else {
            done(part, Err(error));
        }
    }
}

/// Waits out an outage.
async fn until_answered<A: Future<Output = Result<()>>>(delays: &mut Reconnect, alive: &mut impl FnMut() -> A) {
    loop {
        tokio::time::sleep(delays.next_delay()).await;
        match alive().await {
            Err(error) if error.is_retryable() => tracing::debug!(%error, "the store does not answer"),
            // What is wrong for good is said by the next try.
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
