//! The embedding model that the configuration names, loaded on a thread of its own while whoever needs it does what it can
//! do without. Knows no record.

use super::machine::TokioMachine;
use super::service;
use crate::failure::Failure;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use windlass_knowledge::Offloaded;
use windlass_knowledge::embed::{Embedder, LocalModel, ModelError, Protocol};
use windlass_runtime::config::{Config, EmbedderKind};

/// None where records are found by their words alone.
type Loaded = Option<Arc<dyn Embedder>>;

pub(super) struct Loading(Mutex<State>);

enum State {
    Running(JoinHandle<Result<Loaded, ModelError>>),
    /// With the one line that says what is wrong.
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
            return Ok(Self(Mutex::new(State::Done(Ok(None)))));
        }
        let machine = machine.clone();
        let running = Handle::current().spawn_blocking(move || match LocalModel::open(&folder) {
            Ok(model) => Ok(Some(
                Arc::new(Offloaded::new(model, machine)) as Arc<dyn Embedder>
            )),
            // Nobody asked for the model by name, so that words have to do; what is wrong is said.
            Err(error) if kind == EmbedderKind::Auto => {
                tracing::warn!(%error, "records are found by their words alone");
                Ok(None)
            }
            Err(error) => Err(error),
        });
        Ok(Self(Mutex::new(State::Running(running))))
    }

    fn done(embedder: Arc<dyn Embedder>) -> Self {
        Self(Mutex::new(State::Done(Ok(Some(embedder)))))
    }

    /// Waits until the model is there.
    pub(super) async fn embedder(&self) -> Result<Loaded, Failure> {
        let mut state = self.0.lock().await;
        let loaded = match &mut *state {
            State::Done(loaded) => loaded.clone(),
            State::Running(running) => match running.await {
                Ok(loaded) => loaded.map_err(|error| error.to_string()),
                Err(error) => Err(format!("the embedding model was not loaded: {error}")),
            },
        };
        *state = State::Done(loaded.clone());
        loaded.map_err(Failure::Failed)
    }
}
