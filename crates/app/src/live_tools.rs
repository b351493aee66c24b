//! The tools and the knowledge base of a server, opened together, because tools take words from the base, and kept current
//! while it runs. Knows no session.

use crate::failure::Failure;
use crate::knowledge::{
    Audience, KnowledgeChanges, LiveKnowledge, Maker, Refresher, open_database,
};
use crate::provider;
use crate::toolbox::{Handlers, Toolbox, ToolboxError, Workshop};
use crate::voice_host::VoiceHost;
use crate::watch::{Changes, Watch};
use arc_swap::ArcSwap;
use std::sync::Arc;
use windlass_compile::Vocabularies;
use windlass_config::Config;

/// The tools and the knowledge base of a server, before anybody uses them.
pub(crate) struct LiveTools {
    pub(crate) knowledge: Arc<LiveKnowledge>,
    refresher: Refresher,
    pub(crate) workshop: Arc<Workshop>,
    pub(crate) toolbox: Arc<ArcSwap<Toolbox>>,
    changes: Changes,
    /// The vocabulary of the knowledge base, as the tools have it.
    words: Vocabularies,
}

impl LiveTools {
    pub(crate) async fn open(config: &Arc<Config>, handlers: Handlers) -> Result<Self, Failure> {
        let changes = Changes::new();
        let (knowledge, refresher) = serve_knowledge(config, changes.of_knowledge()).await?;
        let words = knowledge.vocabularies();
        let workshop = Workshop {
            knowledge: knowledge.clone(),
            profile: provider::profile_of(config),
            handlers,
            config: config.clone(),
        };
        let toolbox = workshop.open_with(&words).map_err(ToolboxError::reported)?;
        Ok(Self {
            knowledge,
            refresher,
            workshop: Arc::new(workshop),
            toolbox: Arc::new(ArcSwap::from_pointee(toolbox)),
            changes,
            words,
        })
    }

    /// Keeps the tools current for the host's sessions, for as long as the returned value is held.
    pub(crate) fn follow(
        self,
        host: &Arc<VoiceHost>,
        is_watching: bool,
    ) -> Result<(Option<Watch>, Refresher), Failure> {
        let (changes, host) = (self.changes, host.clone());
        let watch = changes.follow(self.workshop, host, self.words, is_watching);
        Ok((watch.map_err(Failure::of)?, self.refresher))
    }
}

/// The base as it can be searched at once, and the task that completes it and keeps it current.
async fn serve_knowledge(
    config: &Config,
    changes: KnowledgeChanges,
) -> Result<(Arc<LiveKnowledge>, Refresher), Failure> {
    let maker = Maker::new(config, Audience::Users)?;
    if let Some(address) = &config.knowledge.postgres {
        let (live, refresher) = open_database(address.sensitive(), &maker, changes).await?;
        return Ok((Arc::new(live), refresher));
    }
    let (base, report) = maker.make_for_users().await?;
    if report.missing > 0 {
        tracing::info!(
            missing = report.missing,
            "passages are embedded while the server runs; until then words find their records"
        );
    }
    let live = Arc::new(LiveKnowledge::new(base));
    let refresher = Refresher::start(
        maker,
        live.clone(),
        &report,
        config.knowledge.watch,
        changes,
    );
    Ok((live, refresher.map_err(Failure::of)?))
}
