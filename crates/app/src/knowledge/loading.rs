//! The embedding model that the configuration names, loaded on a thread of its own, so that the rest of the start can go
//! on. Knows no record.

use super::machine::TokioMachine;
use super::service::{self, Opened};
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use windlass_config::{Config, EmbedderKind};
use windlass_knowledge::embed::{Embedder, LocalModel, ModelError, Protocol};
use windlass_knowledge::{EmbedderPresence, Offloaded};

/// `None` where records are found by their words alone.
pub(super) type Loaded = Option<Arc<dyn Embedder>>;

pub(super) struct Loading {
    state: Mutex<LoadState>,
    is_problem_said: AtomicBool,
}

enum LoadState {
    Running(JoinHandle<Result<Loaded, ModelError>>),
    /// The error is one line that names the problem.
    Done(Result<Loaded, String>),
}

impl Loading {
    /// Needs to be called inside the asynchronous runtime.
    pub(super) fn begin(config: &Config, machine: &Arc<TokioMachine>) -> Result<Self, Failure> {
        let kind = config.knowledge.embedder;
        let folder = LocalModel::folder(&config.folders.data);
        let is_wanted = match kind {
            EmbedderKind::None => false,
            EmbedderKind::Auto => folder.is_dir(),
            EmbedderKind::Local => true,
            EmbedderKind::OpenAi => {
                return Ok(Self::done(service::open(config, Protocol::OpenAi)?));
            }
            EmbedderKind::Gemini => {
                return Ok(Self::done(service::open(config, Protocol::Gemini)?));
            }
        };
        if !is_wanted {
            return Ok(Self::of(LoadState::Done(Ok(None))));
        }
        let machine = machine.clone();
        let running = Handle::current().spawn_blocking(move || match LocalModel::open(&folder) {
            Ok(model) => Ok(Some(
                Arc::new(Offloaded::new(model, machine)) as Arc<dyn Embedder>
            )),
            // The configuration does not name the model, so the search goes on by words alone, with a warning.
            Err(error) if kind == EmbedderKind::Auto => {
                tracing::warn!(%error, "records are found by their words alone");
                Ok(None)
            }
            Err(error) => Err(error),
        });
        Ok(Self::of(LoadState::Running(running)))
    }

    fn of(state: LoadState) -> Self {
        Self {
            state: Mutex::new(state),
            is_problem_said: AtomicBool::new(false),
        }
    }

    fn done(service: Opened) -> Self {
        Self::of(LoadState::Done(match service {
            Opened::Service(embedder) => Ok(Some(embedder)),
            Opened::NoKey(variable) => Err(format!(
                "the embedding service needs a key: set {variable}, or knowledge.embedder_url to a service without one"
            )),
        }))
    }

    /// Waits until the model is there. If a named model cannot be had, the search goes on without it, and the log says why, once.
    pub(super) async fn at_hand(&self) -> EmbedderPresence {
        match self.loaded().await {
            Ok(Some(embedder)) => EmbedderPresence::Present(embedder),
            Ok(None) => EmbedderPresence::NotWanted,
            Err(problem) => {
                if !self.is_problem_said.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%problem, "records are found by their words alone");
                }
                EmbedderPresence::Missing
            }
        }
    }

    /// The same for callers that need the model.
    pub(super) async fn embedder(&self) -> Result<Loaded, Failure> {
        self.loaded().await.map_err(Failure::Failed)
    }

    async fn loaded(&self) -> Result<Loaded, String> {
        let mut state = self.state.lock().await;
        let loaded = match &mut *state {
            LoadState::Done(loaded) => loaded.clone(),
            LoadState::Running(running) => match running.await {
                Ok(loaded) => loaded.map_err(|error| error.to_string()),
                Err(error) => Err(format!("the embedding model was not loaded: {error}")),
            },
        };
        *state = LoadState::Done(loaded.clone());
        loaded
    }
}
