//! Starts programs that end with this process, however it ends.
//!
//! A killed worker can't stop its programs, and its jobs run again elsewhere: the old programs must not go on beside them. Linux sends a
//! signal to a process whose parent dies, if that process asks for it. So a program is started through this executable ([`enter`]), which
//! asks for the signal and then becomes the program. On other systems programs are started directly.
//!
//! The kernel treats the death of the *thread* that started a process as the death of its parent. So a single thread starts all programs,
//! and it lives as long as the process.

use std::ffi::OsStr;
use std::io;
use std::process::{ExitCode, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc;

use jobwright::JobId;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// First argument of a call that is to become another program.
const WORD: &str = "__on-a-leash";
/// Exit code of a call that could not become the program; its stderr says why.
const REFUSED: u8 = 127;
/// The running executable, even if its file was replaced or removed since.
const OURSELVES: &str = "/proc/self/exe";

/// Recognizes that a program was not started.
pub(super) struct Leash {
    /// A secret that only the intermediate call knows, so that no program can be mistaken for it.
    secret: Option<String>,
}

impl Leash {
    /// Returns a command for this program, and the means to recognize that it could not be started.
    pub(super) fn command(program: &str) -> (Command, Self) {
        if !possible() {
            return (Command::new(program), Self { secret: None });
        }
        let secret = JobId::new().to_string();
        let mut command = Command::new(OURSELVES);
        command.args([WORD, &std::process::id().to_string(), &secret, program]);
        (command, Self { secret: Some(secret) })
    }

    /// Returns why the program was not started, if that is how it ended.
    pub(super) fn refusal(&self, status: ExitStatus, stderr: &[u8]) -> Option<io::Error> {
        if status.code() != Some(REFUSED.into()) {
            return None;
        }
        let said = std::str::from_utf8(stderr).ok()?.strip_prefix(self.secret.as_deref()?)?;
        Some(io::Error::from_raw_os_error(said.trim().parse().ok()?))
    }
}

/// Starts the command on the long-lived thread.
pub(super) async fn start(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<io::Result<mpsc::Sender<Order>>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        let serve = move || inbox.into_iter().for_each(Order::carry_out);
        std::thread::Builder::new().name("jobwright-start".to_owned()).spawn(serve)?;
        Ok(orders)
    });
    let gone = || io::Error::other("the thread that starts programs has ended");
    let (answer, answered) = oneshot::channel();
    let order = Order { command, runtime: Handle::current(), answer };
    starter
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?
        .send(order)
        .map_err(|_| gone())?;
    answered.await.map_err(|_| gone())?
}

struct Order {
    command: Command,
    /// The runtime that waits for its end.
    runtime: Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

impl Order {
    fn carry_out(mut self) {
        let _entered = self.runtime.enter();
        // The receiver may be gone; then the program is killed by its drop.
        let _ = self.answer.send(self.command.spawn());
    }
}

fn possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| cfg!(target_os = "linux") && std::fs::symlink_metadata(OURSELVES).is_ok())
}

/// Becomes another program if this call is meant to. Returns only if that failed (with the exit code), or if it is an ordinary call
/// (`None`).
#[cfg(target_os = "linux")]
pub(crate) fn enter() -> Option<ExitCode> {
    use std::os::unix::process::CommandExt as _;

    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::signal::Signal;
    use nix::unistd::getppid;

    let mut words = std::env::args_os().skip(1);
    if words.next().as_deref() != Some(OsStr::new(WORD)) {
        return None;
    }
    let (Some(parent), Some(secret), Some(program)) = (words.next(), words.next(), words.next()) else {
        return Some(ExitCode::from(2));
    };
    let asked = set_pdeathsig(Signal::SIGKILL);
    // The parent may have died before the signal was requested.
    if parent.to_str() != Some(getppid().to_string().as_str()) {
        return Some(ExitCode::FAILURE);
    }
    let error = match asked {
        Ok(()) => std::process::Command::new(program).args(words).exec(),
        Err(error) => error.into(),
    };
    crate::output::say(format!("{}{}", secret.to_string_lossy(), error.raw_os_error().unwrap_or_default()));
    Some(ExitCode::from(REFUSED))
}

/// On this system, calls never become another program.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enter() -> Option<ExitCode> {
    None
}
