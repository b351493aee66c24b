//! The signals that ask a program to end.

use crate::failure::Failure;
use std::time::Duration;
use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The signals that end a server.
pub(super) struct Signals {
    terminate: Terminate,
    interrupt: Interrupt,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            terminate: Terminate::new()?,
            interrupt: Interrupt::new()?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.terminate.next() => {}
            () = self.interrupt.next() => {}
        }
    }
}

/// The signals that have come, heard on a thread of their own: whatever hangs elsewhere, the process ends in time.
pub(super) struct HeardApart(watch::Receiver<u32>);

/// The time that the program's last steps take after its own time to end is over.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl HeardApart {
    /// `patience` is how long the program may take to end once it was asked to.
    pub(super) fn new(patience: Duration) -> Result<Self, Failure> {
        let cannot = |error| Failure::Failed(format!("signals cannot be received: {error}"));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let (said, heard) = watch::channel(0);
        let listen = async move {
            signals.next().await;
            said.send_replace(1);
            tokio::select! {
                () = signals.next() => { said.send_replace(2); }
                () = tokio::time::sleep(patience) => {}
            }
            tokio::time::sleep(LAST_WORDS).await;
            tracing::error!("something holds the program: it was ended without waiting for it");
            std::process::exit(1);
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(listen))
            .map_err(cannot)?;
        Ok(Self(heard))
    }

    /// Waits until so many have come.
    pub(super) async fn come(&mut self, count: u32) {
        if self.0.wait_for(|come| *come >= count).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signal that Ctrl-C sends. If it comes while no one waits, the next waiter gets it.
pub(super) struct Interrupt {
    #[cfg(unix)]
    interrupt: Signal,
}

impl Interrupt {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        {
            let _ = self.interrupt.recv().await;
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The signal that asks a program to end, and that no user at a terminal sends; never arrives on a system without it.
pub(super) struct Terminate {
    #[cfg(unix)]
    terminate: Signal,
}

impl Terminate {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        {
            let _ = self.terminate.recv().await;
        }
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::Failed(format!("signals cannot be received: {error}")))
}
