//! The base that is searched now. One in memory is put in its place as a whole whenever the records change: readers take no
//! lock, and a search that has begun goes on with the base that it began with. One in a database changes there.

use super::{documents, operators_access};
use crate::failure::Failure;
use arc_swap::ArcSwap;
use std::sync::Arc;
use windlass_compile::{Vocabularies, Vocabulary};
use windlass_config::Config;
use windlass_contract::handler::{
    CapabilityFuture, Facets, GetRequest, Knowledge, KnowledgeError, KnowledgeReader, Record,
    SearchAnswer, SearchRequest,
};
use windlass_contract::id::ToolId;
use windlass_knowledge::{KnowledgeBase, Options, Stats};

pub(crate) enum LiveKnowledge {
    Memory(ArcSwap<KnowledgeBase>),
    #[cfg(feature = "postgres")]
    Postgres(windlass_knowledge::postgres::PostgresBase),
}

impl LiveKnowledge {
    pub(crate) fn new(base: KnowledgeBase) -> Self {
        Self::Memory(ArcSwap::from_pointee(base))
    }

    /// The types and namespaces of the base, for the tools that take one of them.
    pub(crate) fn vocabularies(&self) -> Vocabularies {
        vocabularies(self.facets(), self.default_namespace())
    }

    /// The namespace of a search that names none.
    pub(crate) fn default_namespace(&self) -> String {
        match self {
            Self::Memory(base) => base.load().default_namespace().to_owned(),
            #[cfg(feature = "postgres")]
            Self::Postgres(base) => base.default_namespace(),
        }
    }

    /// The base in numbers.
    pub(crate) async fn stats(&self) -> Result<Stats, Failure> {
        match self {
            Self::Memory(base) => Ok(base.load().stats()),
            #[cfg(feature = "postgres")]
            Self::Postgres(base) => base.stats().await.map_err(Failure::of),
        }
    }

    /// Whether a base in memory has no record.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Memory(base) => base.load().is_empty(),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
        }
    }

    /// The readable records of a base in memory, in the order of their ids, after the given id. Empty for a base in a database: its
    /// records are found by searching.
    pub(crate) fn listed(
        &self,
        reader: &KnowledgeReader,
        after: Option<&str>,
        count: usize,
    ) -> Vec<Arc<Record>> {
        match self {
            Self::Memory(base) => {
                let base = base.load();
                let records = base.readable(reader);
                let behind = records.filter(|record| after.is_none_or(|id| *record.id > *id));
                behind.take(count).cloned().collect()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Vec::new(),
        }
    }

    /// Puts a base in memory in the place of the one before it.
    pub(crate) fn replace(&self, new: KnowledgeBase) {
        match self {
            Self::Memory(base) => base.store(Arc::new(new)),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {}
        }
    }
}

fn vocabularies(facets: Facets, default_namespace: String) -> Vocabularies {
    let Facets { types, namespaces } = facets;
    let namespace = Vocabulary {
        pointer: "/properties/namespace",
        values: namespaces,
        default: Some(default_namespace),
    };
    let record_type = Vocabulary {
        pointer: "/properties/filters/properties/type",
        values: types,
        default: None,
    };
    let tool = |id| ToolId::parse(id).expect("the ids of our own tools are good");
    Vocabularies::from([
        (tool("kb_search"), vec![namespace.clone(), record_type]),
        (tool("kb_get"), vec![namespace]),
    ])
}

/// The words of a folder of records, for tools that are compiled before any base is served. A folder that cannot be read has
/// none; the server that opens it says so.
pub(crate) fn vocabularies_of_folder(config: &Config) -> Vocabularies {
    let options = Options {
        access: operators_access(config),
        documents: documents().unwrap_or_default(),
        ..Options::default()
    };
    KnowledgeBase::open(&*config.folders.knowledge, &options)
        .map(|(base, _)| vocabularies(base.facets(), base.default_namespace().to_owned()))
        .unwrap_or_default()
}

impl Knowledge for LiveKnowledge {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        match self {
            Self::Memory(base) => base.load().search(request),
            #[cfg(feature = "postgres")]
            Self::Postgres(base) => base.search(request),
        }
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        match self {
            Self::Memory(base) => base.load().get(request),
            #[cfg(feature = "postgres")]
            Self::Postgres(base) => base.get(request),
        }
    }

    fn facets(&self) -> Facets {
        match self {
            Self::Memory(base) => base.load().facets(),
            #[cfg(feature = "postgres")]
            Self::Postgres(base) => base.facets(),
        }
    }
}
