//! Whether a request was delivered. One that was given up before its first byte was written can't have reached the server.
//!
//! The client says only that a request failed, and not how far it got. So its connections are watched: the first byte of a request passes here after the
//! connection is open, with its TLS and through a proxy if there is one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport};

const UNWRITTEN: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

thread_local! {
    /// The request that this thread makes. The client blocks, so a request is on one thread from its beginning to its end.
    static CURRENT: RefCell<Option<Arc<Delivery>>> = const { RefCell::new(None) };
    /// How many connections this thread is opening, one within the other: that to a proxy comes first. What is written meanwhile is no request.
    static OPENING: Cell<usize> = const { Cell::new(0) };
}

/// How far a request has got.
#[derive(Debug, Default)]
pub(super) struct Delivery(AtomicU8);

impl Delivery {
    /// Returns a request that only opens a connection.
    pub(super) fn without_request() -> Self {
        Self(AtomicU8::new(GIVEN_UP))
    }

    /// Whether a part of it may have been written.
    pub(super) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) == BEGUN
    }

    /// Prevents that it is written, unless that has begun.
    pub(super) fn give_up(&self) {
        let _ = self.0.compare_exchange(UNWRITTEN, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Makes the request in `call`, on this thread.
    pub(super) fn during<T>(self: &Arc<Self>, call: impl FnOnce() -> T) -> T {
        CURRENT.set(Some(self.clone()));
        let made = call();
        CURRENT.set(None);
        made
    }

    /// Notes that it is about to be written. Returns whether it may be.
    fn begin(&self) -> bool {
        let before = self.0.compare_exchange(UNWRITTEN, BEGUN, Ordering::AcqRel, Ordering::Acquire);
        before.map_or_else(|before| before == BEGUN, |_| true)
    }
}

/// Whether the connection was open, and the request was given up then.
pub(super) fn is_given_up(error: &Error) -> bool {
    matches!(error, Error::Other(why) if why.is::<GivenUp>())
}

#[derive(Debug)]
struct GivenUp;

impl std::error::Error for GivenUp {}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was given up before it was written")
    }
}

/// Opens connections as the client does by default, and watches them.
#[derive(Debug, Default)]
pub(super) struct WatchingConnector(DefaultConnector);

impl Connector for WatchingConnector {
    type Out = WatchedTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<()>) -> Result<Option<Self::Out>, Error> {
        OPENING.set(OPENING.get() + 1);
        let opened = self.0.connect(details, chained);
        OPENING.set(OPENING.get() - 1);
        Ok(opened?.map(WatchedTransport))
    }
}

#[derive(Debug)]
pub(super) struct WatchedTransport(Box<dyn Transport>);

impl Transport for WatchedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let current = if OPENING.get() == 0 { CURRENT.with_borrow(Clone::clone) } else { None };
        if current.is_some_and(|delivery| !delivery.begin()) {
            return Err(Error::Other(Box::new(GivenUp)));
        }
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.0.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_begun_is_not_given_up_and_the_other_way_round() {
        let delivery = Delivery::default();
        assert!(!delivery.has_begun());
        assert!(delivery.begin() && delivery.begin() && delivery.has_begun());
        delivery.give_up();
        assert!(delivery.begin() && delivery.has_begun());

        let delivery = Delivery::default();
        delivery.give_up();
        assert!(!delivery.begin() && !delivery.has_begun());
        assert!(!Delivery::without_request().begin());
    }
}
