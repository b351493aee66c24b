//! The signals that ask a program to end.

use crate::failure::Failure;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that end a server.
pub(super) struct Signals {
    terminate: Terminate,
    #[cfg(unix)]
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            terminate: Terminate::new()?,
            #[cfg(unix)]
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.terminate.next() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        tokio::select! {
            () = self.terminate.next() => {}
            heard = tokio::signal::ctrl_c() => if heard.is_err() {
                std::future::pending::<()>().await;
            }
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
