//! The machine's resources for the base: threads and time. The base takes neither itself; the program that runs the base gives both.

use crate::embed::{EmbedError, Embedder, LocalModel, Model, Purpose};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use windlass_contract::handler::CapabilityFuture;

/// Threads and time.
pub trait Machine: Send + Sync {
    /// Runs work that computes for milliseconds where it delays no other task.
    fn run(&self, work: Box<dyn FnOnce() + Send>);

    /// Completes after so many milliseconds.
    fn after(&self, milliseconds: u64) -> CapabilityFuture<()>;
}

/// A local model that computes on the machine's threads and leaves the caller's thread free.
#[derive(Clone)]
pub struct Offloaded {
    model: LocalModel,
    machine: Arc<dyn Machine>,
}

impl Offloaded {
    pub fn new(model: LocalModel, machine: Arc<dyn Machine>) -> Self {
        Self { model, machine }
    }
}

impl Embedder for Offloaded {
    fn model(&self) -> &Model {
        self.model.model()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        let answer = Arc::new(Mutex::new(PendingVectors::default()));
        let model = self.model.clone();
        let sender = Sender(answer.clone());
        self.machine.run(Box::new(move || {
            let vectors = texts.iter().map(|text| model.embed_one(text)).collect();
            sender.send(Ok(vectors));
        }));
        Box::pin(poll_fn(move |context| {
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            match answer.vectors.take() {
                Some(vectors) => Poll::Ready(vectors),
                None => {
                    answer.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }

    fn batch_size(&self) -> usize {
        self.model.batch_size()
    }

    fn token_count(&self, text: &str) -> usize {
        self.model.token_count(text)
    }
}

#[derive(Default)]
struct PendingVectors {
    vectors: Option<Result<Vec<Vec<f32>>, EmbedError>>,
    waker: Option<Waker>,
}

/// Answers exactly once, also where the work was dropped or panicked.
struct Sender(Arc<Mutex<PendingVectors>>);

impl Sender {
    fn send(&self, vectors: Result<Vec<Vec<f32>>, EmbedError>) {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.vectors = Some(vectors);
        if let Some(waker) = answer.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The waiting caller holds the only other handle. Without it no caller waits, or the answer was given.
        let is_answered = {
            let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            answer.vectors.is_some()
        };
        if !is_answered && Arc::strong_count(&self.0) > 1 {
            self.send(Err(EmbedError::Transient(
                "the work was thrown away before it was done".to_owned(),
            )));
        }
    }
}
