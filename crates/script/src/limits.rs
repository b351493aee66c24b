//! Limits of one call, and the number of calls that one worker runs. The host chooses; the defaults are those of its
//! configuration.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes for one call: its context, its sources and everything that it allocates.
    pub memory_bytes_max: usize,
    /// Total computing time of a call. Waiting does not count.
    pub compute_max: Duration,
    /// Bytes of the answer's JSON, and of each request and message of a call.
    pub message_bytes_max: usize,
    /// Bytes that a call writes on the console.
    pub console_bytes_max: usize,
    /// Calls at one time. Each has a thread.
    pub calls_max: usize,
    /// Contexts that are made before their call comes.
    pub spares: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 16 * 1024 * 1024,
            compute_max: Duration::from_secs(2),
            message_bytes_max: 1024 * 1024,
            console_bytes_max: 64 * 1024,
            calls_max: 256,
            spares: 4,
        }
    }
}

/// Requests of one call that wait for an answer.
pub(crate) const REQUESTS_OPEN_MAX: usize = 64;
/// Timers of one call that wait for their time.
pub(crate) const TIMERS_MAX: usize = 1_000;
/// Bytes of the engine's own stack. A thread's is larger, for the natives.
pub(crate) const STACK_BYTES_MAX: usize = 512 * 1024;
pub(crate) const THREAD_STACK_BYTES: usize = 4 * 1024 * 1024;
/// Time in which a cancelled call has to notice its cancellation.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_millis(200);
/// Computing time for the judgement of one handler.
pub(crate) const JUDGE_MAX: Duration = Duration::from_secs(2);
/// Bytes of a line from the host: sources of a tool, or the answer to a request.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Versions of tools that a worker keeps.
pub(crate) const SCRIPTS_MAX: usize = 4_096;
