//! The knowledge base as the program runs it: made as the configuration says, kept current while the server runs. Knows no
//! ranking and no record's content.

mod database;
mod live;
mod machine;
mod refresh;
mod service;

pub(crate) use database::{open as open_database, publish};
pub(crate) use live::{LiveKnowledge, vocabularies_of_folder};
pub(crate) use refresh::Refresher;

use crate::failure::Failure;
use machine::TokioMachine;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use windlass_knowledge::embed::{Embedder, LocalModel, Protocol};
use windlass_knowledge::{
    Access, Embedding, IngestLimits, IngestReport, KnowledgeBase, Observer, OpenError, Options,
    Patience, Progress, Readers,
};
use windlass_runtime::config::{Config, EmbedderKind, NamespaceReaders};
use windlass_tool::id::UserId;

/// Problems of records that the log tells one by one.
const PROBLEMS_LOGGED_MAX: usize = 20;

/// A folder of records and what a base is made of it with. A clone is one more handle.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) folder: PathBuf,
    options: Options,
}

/// Whose questions the base answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Users, each of whom reads what the configuration gives to them.
    Users,
    /// Whoever runs the command line on this machine, and could read the files as well.
    Operator,
}

impl Maker {
    /// Loads the model that the configuration names. Needs to be called inside the asynchronous runtime.
    pub(crate) fn new(config: &Config, audience: Audience) -> Result<Self, Failure> {
        let machine = Arc::new(TokioMachine::current());
        let knowledge = &config.knowledge;
        let limits = &knowledge.limits;
        let data = config.folders.data.clone();
        Ok(Self {
            folder: config.folders.knowledge.clone(),
            options: Options {
                limits: IngestLimits {
                    file_bytes_max: limits.file_bytes_max.get(),
                    data_file_bytes_max: limits.data_file_bytes_max.get(),
                    files_max: limits.files_max.count(),
                    records_max: limits.records_max.count(),
                    ..IngestLimits::default()
                },
                access: match audience {
                    Audience::Users => access(&knowledge.namespaces),
                    Audience::Operator => Access::default(),
                },
                embedder: embedder(config, &machine)?,
                data: Some(data),
                machine: Some(machine),
                patience: Patience {
                    voice_ms: knowledge.wait_voice_ms.get(),
                    text_ms: knowledge.wait_text_ms.get(),
                },
                embedding: Embedding::All,
            },
        })
    }

    /// The options of the base, for records that do not come from the folder.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Makes the base. Reads files and computes on this thread.
    pub(crate) async fn make(
        &self,
        embedding: Embedding,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(KnowledgeBase, IngestReport), OpenError> {
        let options = Options {
            embedding,
            ..self.options.clone()
        };
        let begun = Instant::now();
        let clock_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut observer = Observer {
            clock_ms: &clock_ms,
            progress,
        };
        KnowledgeBase::index_folder(&self.folder, &options, &mut observer).await
    }
}

fn access(namespaces: &BTreeMap<String, NamespaceReaders>) -> Access {
    let readers = namespaces
        .iter()
        .map(|(name, readers)| {
            let readers = match readers {
                NamespaceReaders::Everybody => Readers::Everybody,
                NamespaceReaders::SignedIn => Readers::SignedIn,
                NamespaceReaders::Owners(owners) => {
                    Readers::Owners(owners.iter().map(|id| UserId::new(id.as_str())).collect())
                }
            };
            (name.clone(), readers)
        })
        .collect();
    Access::new(readers, Arc::new(crate::users::is_signed_in))
}

fn embedder(
    config: &Config,
    machine: &Arc<TokioMachine>,
) -> Result<Option<Arc<dyn Embedder>>, Failure> {
    let folder = LocalModel::folder(&config.folders.data);
    let is_wanted = match config.knowledge.embedder {
        EmbedderKind::None => false,
        EmbedderKind::Auto => folder.is_dir(),
        EmbedderKind::Local => true,
        EmbedderKind::OpenAi => return service::open(config, Protocol::OpenAi).map(Some),
        EmbedderKind::Gemini => return service::open(config, Protocol::Gemini).map(Some),
    };
    if !is_wanted {
        return Ok(None);
    }
    match LocalModel::open(&folder) {
        Ok(model) => Ok(Some(Arc::new(windlass_knowledge::Offloaded::new(
            model,
            machine.clone(),
        )))),
        // Nobody asked for the model by name, so that words have to do; what is wrong is said.
        Err(error) if config.knowledge.embedder == EmbedderKind::Auto => {
            tracing::warn!(%error, "records are found by their words alone");
            Ok(None)
        }
        Err(error) => Err(Failure::of(error)),
    }
}

/// Says in the log what became of the folder.
pub(crate) fn log_report(maker: &Maker, base: &KnowledgeBase, report: &IngestReport) {
    for problem in report.problems.iter().take(PROBLEMS_LOGGED_MAX) {
        tracing::warn!(%problem, "a record was left out");
    }
    let untold = report.problems.len().saturating_sub(PROBLEMS_LOGGED_MAX) + report.problems_untold;
    if untold > 0 {
        tracing::warn!(
            untold,
            "more records were left out; `windlass kb index` names them"
        );
    }
    for notice in &report.notices {
        tracing::warn!(notice, "the knowledge base was put right");
    }
    tracing::info!(
        records = report.records,
        retrieval = base.best_retrieval().as_str(),
        model = base.model_id(),
        folder = %maker.folder.display(),
        "knowledge base read"
    );
}
