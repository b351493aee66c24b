//! The knowledge base as the program runs it: made as the configuration says, kept current while the server runs. Knows no
//! ranking and no record's content.

pub(crate) mod assets;
mod database;
#[cfg(feature = "documents")]
mod documents;
mod live;
mod loading;
mod machine;
mod refresh;
mod service;

pub(crate) use database::{open as open_database, publish};
pub(crate) use live::{LiveKnowledge, vocabularies_of_folder};
pub(crate) use refresh::{KnowledgeChanges, Refresher};

use crate::failure::Failure;
use loading::Loading;
use machine::TokioMachine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use windlass_config::{Config, NamespaceReaders};
use windlass_contract::id::UserId;
use windlass_knowledge::{
    Access, DocumentReader, EmbedderPresence, Embedding, IngestLimits, IngestReport, KnowledgeBase,
    Observer, Options, Patience, Progress, Readers, Words,
};

/// The default of `folders.knowledge`.
const USUAL_FOLDER: &str = "kb";

/// Problems of records that the log tells one by one.
const PROBLEMS_LOGGED_MAX: usize = 20;

/// A folder of records and the parts that make a base of it. A clone is one more handle.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) folder: PathBuf,
    /// The options without the model, which may still be loading.
    options: Options,
    loading: Arc<Loading>,
    /// Vectors in a database that are compared one by one.
    #[cfg(feature = "postgres")]
    postgres_exact_max: usize,
    #[cfg(feature = "postgres")]
    postgres_root_certificate: Option<PathBuf>,
}

/// A server starts without records, too: if no other folder is named, the usual one is made, empty.
fn make_usual_folder(folder: &Path) {
    if folder == Path::new(USUAL_FOLDER) && std::fs::create_dir(folder).is_ok() {
        let folder = folder.display();
        tracing::warn!(%folder, "there was no folder of records, so that an empty one was made");
    }
}

/// The readers whose questions the base answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Users, each of whom reads the namespaces that the configuration grants.
    Users,
    /// The user of the command line on this machine, who could read the files as well.
    Operator,
}

impl Maker {
    /// Begins to load the model that the configuration names. Needs to be called inside the asynchronous runtime.
    pub(crate) fn new(config: &Config, audience: Audience) -> Result<Self, Failure> {
        let machine = Arc::new(TokioMachine::current());
        let knowledge = &config.knowledge;
        let data = config.folders.data.to_path_buf();
        Ok(Self {
            loading: Arc::new(Loading::begin(config, &machine)?),
            #[cfg(feature = "postgres")]
            postgres_exact_max: knowledge.postgres_exact_max.count(),
            #[cfg(feature = "postgres")]
            postgres_root_certificate: knowledge
                .postgres_root_certificate
                .as_deref()
                .map(Path::to_path_buf),
            folder: config.folders.knowledge.to_path_buf(),
            options: Options {
                limits: IngestLimits {
                    file_bytes_max: knowledge.file_bytes_max.get(),
                    data_file_bytes_max: knowledge.data_file_bytes_max.get(),
                    files_max: knowledge.files_max.count(),
                    records_max: knowledge.records_max.count(),
                    ..IngestLimits::default()
                },
                access: match audience {
                    Audience::Users => access(&knowledge.readers()),
                    Audience::Operator => operators_access(config),
                },
                documents: documents()?,
                embedder: EmbedderPresence::NotWanted,
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

    /// The options of the base with its model, for records that do not come from the folder.
    pub(crate) async fn options(&self) -> Options {
        Options {
            embedder: self.loading.at_hand().await,
            ..self.options.clone()
        }
    }

    /// Waits for the model of the configuration. An error if it cannot be loaded.
    pub(crate) async fn demand_model(&self) -> Result<(), Failure> {
        self.loading.embedder().await.map(drop)
    }

    /// Makes the base that users are served from, and logs the outcome.
    pub(crate) async fn make_for_users(&self) -> Result<(KnowledgeBase, IngestReport), Failure> {
        make_usual_folder(&self.folder);
        let (base, report) = self.make(Embedding::AtHand, &mut |_| ()).await?;
        log_report(self, &base, &report);
        Ok((base, report))
    }

    /// Makes the base. Reads files and computes on this thread, at first beside the loading of the model.
    pub(crate) async fn make(
        &self,
        embedding: Embedding,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(KnowledgeBase, IngestReport), Failure> {
        let words = Words::of_folder(&self.folder, &self.options).map_err(Failure::of)?;
        let options = Options {
            embedding,
            ..self.options().await
        };
        let begun = Instant::now();
        let clock_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut observer = Observer {
            clock_ms: &clock_ms,
            progress,
        };
        let made = words.into_base(&options, &mut observer).await;
        made.map_err(Failure::of)
    }
}

/// The reader of HTML pages and PDF files, in a build that has it.
fn documents() -> Result<Option<Arc<dyn DocumentReader>>, Failure> {
    #[cfg(feature = "documents")]
    let reader: Option<Arc<dyn DocumentReader>> = Some(Arc::new(
        documents::ExtractProcess::new().map_err(Failure::of)?,
    ));
    #[cfg(not(feature = "documents"))]
    let reader = None;
    Ok(reader)
}

/// All namespaces of the configuration, without their readers.
fn operators_access(config: &Config) -> Access {
    Access::open(config.knowledge.readers().into_keys())
}

fn access(namespaces: &BTreeMap<String, NamespaceReaders>) -> Access {
    let readers = namespaces
        .iter()
        .map(|(name, readers)| {
            let readers = match readers {
                NamespaceReaders::Everybody => Readers::Everybody,
                NamespaceReaders::SignedIn => Readers::SignedIn,
                NamespaceReaders::Roles(roles) => Readers::Roles(roles.clone()),
                NamespaceReaders::Owners(owners) => {
                    Readers::Owners(owners.iter().map(|id| UserId::new(id.as_str())).collect())
                }
            };
            (name.clone(), readers)
        })
        .collect();
    Access::new(readers)
}

/// Logs the outcome of reading the folder.
fn log_report(maker: &Maker, base: &KnowledgeBase, report: &IngestReport) {
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
    for warning in report.warnings.iter().take(PROBLEMS_LOGGED_MAX) {
        tracing::warn!(%warning, "a record lacks something");
    }
    let more = report.warnings.len().saturating_sub(PROBLEMS_LOGGED_MAX);
    let untold = more + report.warnings_untold;
    if untold > 0 {
        tracing::warn!(
            untold,
            "more records lack something; `windlass kb index` names them"
        );
    }
    if report.is_unreadable() {
        let files = &report.left_out;
        let folder = maker.folder.display();
        tracing::warn!(%files, %folder, "nothing in the folder of records could be read");
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
