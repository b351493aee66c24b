//! The signals that ask a program to end.

use crate::failure::Failure;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that end a server.
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

/// The one that Ctrl-C sends. One that comes while nobody waits is heard by whoever waits next.
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

/// The one that whoever sits at the terminal does not send; never where the system has none.
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
