//! One context of the engine with its limits, and the clock that stops it. A context runs one call: the next call finds nothing
//! of it.

use crate::limits::{CANCEL_GRACE, Limits, STACK_BYTES_MAX};
use crate::modules::Imports;
use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Runtime};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Sandbox {
    pub(crate) context: Context,
    pub(crate) imports: Imports,
    pub(crate) clock: Rc<Clock>,
}

impl Sandbox {
    pub(crate) fn new(limits: &Limits) -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(limits.memory_bytes_max);
        // A context with its shims takes 264 KiB. It would cross the engine's own threshold, 256 KiB, while it is made and has no garbage.
        runtime.set_gc_threshold(limits.memory_bytes_max / 4);
        runtime.set_max_stack_size(STACK_BYTES_MAX);
        let imports = Imports::default();
        runtime.set_loader(imports.clone(), imports.clone());
        let clock = Rc::new(Clock::new(limits.compute_max));
        let asked = clock.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || asked.stops())));
        let context = Context::full(&runtime)?;
        Ok(Self {
            context,
            imports,
            clock,
        })
    }
}

/// The reason why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The script computed for longer than it may.
    Compute,
    /// The call's deadline has passed, or the call was cancelled.
    Deadline,
}

/// Says when a script has to stop. The engine asks it while the script computes.
pub(crate) struct Clock {
    /// Computing time that is left.
    compute_left: Cell<Duration>,
    /// The time since which the script computes, if it does.
    running_since: Cell<Option<Instant>>,
    deadline: Cell<Option<Instant>>,
    cancelled: Cell<Option<Arc<AtomicBool>>>,
    stopped: Cell<Option<Stop>>,
}

impl Clock {
    fn new(compute_max: Duration) -> Self {
        Self {
            compute_left: Cell::new(compute_max),
            running_since: Cell::new(None),
            deadline: Cell::new(None),
            cancelled: Cell::new(None),
            stopped: Cell::new(None),
        }
    }

    /// `cancelled` is given only for a call that its cancellation may stop.
    pub(crate) fn begin(&self, deadline: Option<Instant>, cancelled: Option<Arc<AtomicBool>>) {
        self.deadline.set(deadline);
        self.cancelled.set(cancelled);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Leaves a cancelled call the time to notice its cancellation.
    pub(crate) fn hurry(&self) {
        let soon = Instant::now() + CANCEL_GRACE;
        let deadline = self.deadline.get().map_or(soon, |own| own.min(soon));
        self.deadline.set(Some(deadline));
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped.get()
    }

    /// Runs code of the script, and subtracts its duration from the computing time.
    pub(crate) fn computing<T>(&self, run: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        self.running_since.set(Some(begun));
        let result = run();
        self.running_since.set(None);
        let left = self.compute_left.get().saturating_sub(begun.elapsed());
        self.compute_left.set(left);
        result
    }

    pub(crate) fn stops(&self) -> bool {
        if self.stopped.get().is_some() {
            return true;
        }
        let now = Instant::now();
        if let Some(cancelled) = self.cancelled.take() {
            if cancelled.load(Ordering::Acquire) {
                self.hurry();
            } else {
                self.cancelled.set(Some(cancelled));
            }
        }
        let running = self.running_since.get().map(|since| now - since);
        let stop = if running.is_some_and(|running| running >= self.compute_left.get()) {
            Some(Stop::Compute)
        } else if self.deadline.get().is_some_and(|deadline| now >= deadline) {
            Some(Stop::Deadline)
        } else {
            None
        };
        self.stopped.set(stop);
        stop.is_some()
    }
}

/// An exception as its author would see it.
pub(crate) struct Thrown {
    pub(crate) message: String,
    pub(crate) stack: String,
}

/// The value of an engine's operation, or its exception. Nothing stays pending in the context.
pub(crate) fn caught<'js, T>(ctx: &Ctx<'js>, result: rquickjs::Result<T>) -> Result<T, Thrown> {
    result.catch(ctx).map_err(|error| match error {
        CaughtError::Exception(exception) => {
            let name: Option<String> = exception.as_object().get("name").ok();
            let message = exception.message().unwrap_or_default();
            Thrown {
                message: format!("{}: {message}", name.as_deref().unwrap_or("Error")),
                stack: exception.stack().unwrap_or_default(),
            }
        }
        CaughtError::Value(value) => Thrown {
            message: format!("threw {}", value.type_name()),
            stack: String::new(),
        },
        CaughtError::Error(error) => Thrown {
            message: error.to_string(),
            stack: String::new(),
        },
    })
}
