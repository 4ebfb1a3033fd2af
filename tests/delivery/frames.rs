//! A proxy that understands AMQP frames, for faults that no network has: single lost confirms, refusals, channels that end with an error.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Class and method of the frames that matter here.
const CHANNEL_CLOSE: [u8; 4] = [0, 20, 0, 40];
const CHANNEL_CLOSE_OK: [u8; 4] = [0, 20, 0, 41];
const CHANNEL_OPEN: [u8; 4] = [0, 20, 0, 10];
const CONFIRM_SELECT: [u8; 4] = [0, 85, 0, 10];
const CANCEL: [u8; 4] = [0, 60, 0, 30];
const DELIVER: [u8; 4] = [0, 60, 0, 60];
const ACK: [u8; 4] = [0, 60, 0, 80];
const NACK: [u8; 4] = [0, 60, 0, 120];

/// What happens to the broker's confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Confirms {
    Pass,
    /// They do not arrive.
    Lost,
    /// They arrive as refusals.
    Nacked,
    /// They arrive as refusals, until a connection that publishes opens another channel.
    NackedHere,
    /// They arrive when this changes.
    Held,
}

/// The event at which a channel or a subscription ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The next confirm.
    Confirm,
    /// The next delivery.
    Delivery,
    /// The next delivery, but it arrives, and only the subscription ends: the broker cancels it.
    Cancel,
}

/// Stands between a client and the broker.
pub(crate) struct Frames {
    pub(crate) address: SocketAddr,
    rules: Arc<Rules>,
    task: JoinHandle<()>,
}

struct Rules {
    confirms: AtomicU8,
    trigger: Mutex<Option<Trigger>>,
    /// The number of frames that were changed or dropped.
    hits: AtomicU64,
    changed: Notify,
}

impl Frames {
    pub(crate) async fn start(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let rules = Arc::new(Rules {
            confirms: AtomicU8::new(0),
            trigger: Mutex::default(),
            hits: AtomicU64::new(0),
            changed: Notify::new(),
        });
        let shared = rules.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(&upstream).await {
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    tokio::spawn(connection(client, server, shared.clone()));
                }
            }
        });
        Self { address, rules, task }
    }

    pub(crate) fn confirms(&self, confirms: Confirms) {
        self.rules.confirms.store(confirms as u8, Ordering::SeqCst);
        self.rules.changed.notify_waiters();
    }

    /// Ends the channel of the next such frame with 406, as the broker does after an error, or cancels its subscription. Works once.
    pub(crate) fn close_channel_at(&self, trigger: Trigger) {
        *self.rules.trigger.lock().unwrap() = Some(trigger);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.rules.hits.load(Ordering::SeqCst)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Channels that are being closed, and the ends that have not confirmed yet.
#[derive(Default)]
struct Closing(Mutex<HashMap<u16, Agreed>>);

#[derive(Clone, Copy, Default)]
struct Agreed {
    client: bool,
    server: bool,
}

impl Closing {
    /// Whether a frame belongs to a channel that this end has not closed yet, so that it must not pass.
    fn swallows(&self, frame: &Frame, from_server: bool) -> bool {
        let mut channels = self.0.lock().unwrap();
        let Some(agreed) = channels.get_mut(&frame.channel()) else { return false };
        let side = if from_server { &mut agreed.server } else { &mut agreed.client };
        if *side {
            return false;
        }
        *side = frame.is(CHANNEL_CLOSE_OK);
        if agreed.client && agreed.server {
            channels.remove(&frame.channel());
        }
        true
    }
}

async fn connection(client: TcpStream, server: TcpStream, rules: Arc<Rules>) {
    let (mut from_client, to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let (to_client, to_server) = (tokio::sync::Mutex::new(to_client), tokio::sync::Mutex::new(to_server));
    let held = Mutex::new(Vec::new());
    let closing = Closing::default();
    let upwards = async {
        let mut hello = [0; 8];
        from_client.read_exact(&mut hello).await.ok()?;
        to_server.lock().await.write_all(&hello).await.ok()?;
        let mut publishes = false;
        loop {
            let frame = Frame::read(&mut from_client).await?;
            publishes |= frame.is(CONFIRM_SELECT);
            if publishes && frame.is(CHANNEL_OPEN) {
                let (here, pass) = (Confirms::NackedHere as u8, Confirms::Pass as u8);
                let _ = rules.confirms.compare_exchange(here, pass, Ordering::SeqCst, Ordering::SeqCst);
            }
            if !closing.swallows(&frame, false) {
                frame.write(&mut *to_server.lock().await).await?;
            }
        }
    };
    let downwards = async {
        let mut cancel: Option<Frame> = None;
        loop {
            let mut frame = Frame::read(&mut from_server).await?;
            if closing.swallows(&frame, true) {
                continue;
            }
            let pulled = {
                let mut trigger = rules.trigger.lock().unwrap();
                trigger.take_if(|trigger| frame.is(if *trigger == Trigger::Confirm { ACK } else { DELIVER }))
            };
            if pulled == Some(Trigger::Cancel) {
                cancel = Some(Frame::cancel(&frame));
            } else if pulled.is_some() {
                rules.hits.fetch_add(1, Ordering::SeqCst);
                let close = Frame::close(frame.channel());
                closing.0.lock().unwrap().insert(frame.channel(), Agreed::default());
                close.write(&mut *to_server.lock().await).await?;
                close.write(&mut *to_client.lock().await).await?;
                continue;
            }
            if frame.is(ACK) {
                let confirms = rules.confirms.load(Ordering::SeqCst);
                if confirms != Confirms::Pass as u8 {
                    rules.hits.fetch_add(1, Ordering::SeqCst);
                }
                if confirms == Confirms::Lost as u8 {
                    continue;
                }
                if confirms == Confirms::Held as u8 {
                    held.lock().unwrap().push(frame);
                    continue;
                }
                if confirms == Confirms::Nacked as u8 || confirms == Confirms::NackedHere as u8 {
                    frame.0[7..11].copy_from_slice(&NACK);
                }
            }
            frame.write(&mut *to_client.lock().await).await?;
            // Follows the properties: our deliveries have no body.
            if frame.0[0] == 2
                && let Some(cancel) = cancel.take_if(|cancel| cancel.channel() == frame.channel())
            {
                rules.hits.fetch_add(1, Ordering::SeqCst);
                cancel.write(&mut *to_client.lock().await).await?;
            }
        }
    };
    let late = async {
        loop {
            rules.changed.notified().await;
            let frames: Vec<Frame> = std::mem::take(&mut *held.lock().unwrap());
            for frame in frames {
                frame.write(&mut *to_client.lock().await).await?;
            }
        }
    };
    let _: Option<()> = tokio::select! {
        end = upwards => end,
        end = downwards => end,
        end = late => end,
    };
}

/// Type, channel, size, payload, end.
struct Frame(Vec<u8>);

impl Frame {
    async fn read(from: &mut OwnedReadHalf) -> Option<Self> {
        let mut bytes = vec![0; 7];
        from.read_exact(&mut bytes).await.ok()?;
        let size = u32::from_be_bytes(bytes[3..7].try_into().ok()?) as usize;
        bytes.resize(7 + size + 1, 0);
        from.read_exact(&mut bytes[7..]).await.ok()?;
        Some(Self(bytes))
    }

    async fn write(&self, to: &mut OwnedWriteHalf) -> Option<()> {
        to.write_all(&self.0).await.ok()
    }

    fn channel(&self) -> u16 {
        u16::from_be_bytes([self.0[1], self.0[2]])
    }

    fn is(&self, method: [u8; 4]) -> bool {
        self.0[0] == 1 && self.0.get(7..11) == Some(&method)
    }

    /// Builds `channel.close` with 406.
    fn close(channel: u16) -> Self {
        let text = b"PRECONDITION_FAILED - made up by a test";
        let mut payload = CHANNEL_CLOSE.to_vec();
        payload.extend(406_u16.to_be_bytes());
        payload.push(text.len() as u8);
        payload.extend(text);
        payload.extend([0; 4]);
        Self::method(channel, &payload)
    }

    /// Builds `basic.cancel` for the subscription that a delivery belongs to.
    fn cancel(delivery: &Self) -> Self {
        let tag = &delivery.0[11..12 + delivery.0[11] as usize];
        Self::method(delivery.channel(), &[&CANCEL, tag, &[1]].concat())
    }

    fn method(channel: u16, payload: &[u8]) -> Self {
        let mut bytes = vec![1];
        bytes.extend(channel.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes.push(0xce);
        Self(bytes)
    }
}
