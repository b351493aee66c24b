//! Threads and time for the knowledge base: tokio's.

use std::time::Duration;
use tokio::runtime::Handle;
use windlass_contract::handler::CapabilityFuture;
use windlass_knowledge::Machine;

pub(crate) struct TokioMachine(Handle);

impl TokioMachine {
    /// The machine of the runtime that calls.
    pub(crate) fn current() -> Self {
        Self(Handle::current())
    }
}

impl Machine for TokioMachine {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        // The waiting caller learns it if a shutdown throws the work away.
        drop(self.0.spawn_blocking(work));
    }

    fn after(&self, milliseconds: u64) -> CapabilityFuture<()> {
        let _inside = self.0.enter();
        Box::pin(tokio::time::sleep(Duration::from_millis(milliseconds)))
    }
}
