//! The log of a worker, written to stderr by a thread of its own.
//!
//! Whoever reads the log may stand still: a terminal after Ctrl-S, a container's log driver, a stuck `| tee`. A line that is written
//! directly then stops the task that logs it, and after a few lines the whole node, which keeps its jobs and renews its lease. So lines wait
//! in memory for the thread that writes them. When there are too many, further lines are dropped and counted, and the log says how many
//! are missing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How many bytes may wait. A burst of failures has a line for each job.
const MOST: usize = 4 * 1024 * 1024;
/// How long the end of the program waits for what is left.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes lines, and never waits.
#[derive(Clone)]
pub(crate) struct Log {
    orders: Sender<Order>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The bytes that wait.
    waiting: AtomicUsize,
    /// Lines that were dropped and are not reported yet.
    dropped: AtomicU64,
}

enum Order {
    Line(Vec<u8>),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

impl Log {
    /// Starts a thread that writes to `out`.
    pub(crate) fn to(out: impl io::Write + Send + 'static) -> io::Result<Self> {
        let (orders, inbox) = channel();
        let state = Arc::<State>::default();
        let shared = state.clone();
        std::thread::Builder::new().name("jobwright-log".to_owned()).spawn(move || write(out, &inbox, &shared))?;
        Ok(Self { orders, state })
    }

    /// Waits until everything so far is written, but not for a reader that stands still. Returns whether it is.
    pub(crate) fn drain(&self) -> bool {
        let (answer, written) = sync_channel(1);
        self.orders.send(Order::Flush(answer)).is_ok() && written.recv_timeout(PATIENCE).is_ok()
    }
}

impl io::Write for Log {
    /// Takes a whole line: that is how events are written.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let State { waiting, dropped } = &*self.state;
        if waiting.fetch_add(line.len(), Ordering::Relaxed) + line.len() > MOST {
            waiting.fetch_sub(line.len(), Ordering::Relaxed);
            dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            // Fails only if the thread is gone.
            let _ = self.orders.send(Order::Line(line.to_vec()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Writes lines until no log is left. Nobody can be told of an error: the reader has gone, or the disk is full.
fn write(mut out: impl io::Write, inbox: &Receiver<Order>, state: &State) {
    loop {
        let order = match inbox.try_recv() {
            Ok(order) => order,
            // Lines were dropped behind all that waited, so their number belongs here.
            Err(TryRecvError::Empty) => {
                report(&mut out, state);
                let Ok(order) = inbox.recv() else { return };
                order
            }
            Err(TryRecvError::Disconnected) => return,
        };
        match order {
            Order::Line(line) => {
                let _ = out.write_all(&line);
                state.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            Order::Flush(answer) => {
                report(&mut out, state);
                let _ = out.flush();
                let _ = answer.try_send(());
            }
        }
    }
}

fn report(out: &mut impl io::Write, state: &State) {
    let dropped = state.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        let now = jiff::Timestamp::now();
        let _ = writeln!(out, "{now}  WARN {dropped} lines of this log are missing: its reader took them too slowly");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Mutex;
    use std::time::Instant;

    use super::*;

    /// A reader that takes nothing while a test holds its lock.
    #[derive(Clone, Default)]
    struct Reader(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stalled_reader_blocks_no_one_and_learns_how_much_it_missed() {
        let reader = Reader::default();
        let mut log = Log::to(reader.clone()).unwrap();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        let held = reader.0.lock().unwrap();
        for _ in 0..5 * 1024 {
            log.write_all(&line).unwrap();
        }
        let began = Instant::now();
        assert!(!log.drain());
        assert!(began.elapsed() < 10 * PATIENCE, "the end does not wait for it either");
        drop(held);
        log.orders.send(Order::Line(b"the last\n".to_vec())).unwrap();
        let (answer, written) = sync_channel(1);
        log.orders.send(Order::Flush(answer)).unwrap();
        written.recv_timeout(Duration::from_secs(60)).unwrap();
        let text = String::from_utf8(reader.0.lock().unwrap().clone()).unwrap();
        let kept = text.lines().filter(|line| line.starts_with('x')).count();
        // The thread may hold one more in its hands.
        assert!((4096..=4097).contains(&kept), "{kept}");
        let missing = format!("{} lines of this log are missing", 5 * 1024 - kept);
        assert!(text.contains(&missing), "{}", &text[text.len() - 300..]);
        assert!(text.contains("the last\n"));
    }
}
