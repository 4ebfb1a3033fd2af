//! The input and output of a program.

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

use super::group::Group;

/// Most bytes that a program may write to stdout.
pub(super) const STDOUT_MOST: usize = 1024 * 1024;
/// How much of the end of stderr is kept.
pub(super) const STDERR_KEPT: usize = 4 * 1024;

/// The output of a program.
#[derive(Default)]
pub(super) struct Written {
    pub(super) stdout: Vec<u8>,
    /// Whether it wrote more than is allowed.
    pub(super) too_much: bool,
    pub(super) stderr: Vec<u8>,
}

/// The three pipes of a program.
pub(super) struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes {
    pub(super) fn take(child: &mut Child) -> Self {
        Self { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    /// Feeds the payload and reads both outputs to their end, concurrently: no pipe may fill up while another is served.
    pub(super) async fn talk(self, payload: &[u8], written: &mut Written, group: &Group) {
        let Self { stdin, stdout, stderr } = self;
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read its input.
                let _ = stdin.write_all(payload).await;
                let _ = stdin.shutdown().await;
            }
        };
        let out = async {
            if let Some(stdout) = stdout {
                read_limited(stdout, &mut written.stdout, &mut written.too_much, group).await;
            }
        };
        let err = async {
            if let Some(stderr) = stderr {
                read_tail(stderr, &mut written.stderr).await;
            }
        };
        tokio::join!(feed, out, err);
    }
}

async fn read_limited(mut stdout: impl AsyncRead + Unpin, into: &mut Vec<u8>, too_much: &mut bool, group: &Group) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = stdout.read(&mut chunk).await {
        if into.len() + n > STDOUT_MOST {
            *too_much = true;
            group.signal(Signal::SIGKILL);
            return;
        }
        into.extend_from_slice(&chunk[..n]);
    }
}

/// Keeps the end; uses at most twice its size in memory.
async fn read_tail(mut stderr: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        into.extend_from_slice(&chunk[..n]);
        if into.len() > 4 * STDERR_KEPT {
            into.drain(..into.len() - 2 * STDERR_KEPT);
        }
    }
}
