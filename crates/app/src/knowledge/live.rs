//! The base that is searched now: one that is put in its place as a whole whenever the records change. Readers take no
//! lock, and a search that has begun goes on with the base that it began with.

use arc_swap::ArcSwap;
use std::path::Path;
use windlass_knowledge::{IngestLimits, KnowledgeBase};
use windlass_tool::compile::{Vocabularies, Vocabulary};
use windlass_tool::handler::{
    CapabilityFuture, Facets, GetRequest, Knowledge, KnowledgeError, Record, SearchAnswer,
    SearchRequest,
};
use windlass_tool::id::ToolId;

pub(crate) struct LiveKnowledge(ArcSwap<KnowledgeBase>);

impl LiveKnowledge {
    pub(crate) fn new(base: KnowledgeBase) -> Self {
        Self(ArcSwap::from_pointee(base))
    }

    /// The types and namespaces of the base, for the tools that take one of them.
    pub(crate) fn vocabularies(&self) -> Vocabularies {
        vocabularies(&self.0.load())
    }

    pub(crate) fn replace(&self, base: KnowledgeBase) {
        self.0.store(std::sync::Arc::new(base));
    }
}

fn vocabularies(base: &KnowledgeBase) -> Vocabularies {
    let Facets { types, namespaces } = base.facets();
    let namespace = Vocabulary {
        pointer: "/properties/namespace",
        values: namespaces,
        default: Some(base.default_namespace().to_owned()),
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
/// none; whoever serves it says so.
pub(crate) fn vocabularies_of_folder(folder: &Path) -> Vocabularies {
    KnowledgeBase::open(folder, &IngestLimits::default())
        .map(|(base, _)| vocabularies(&base))
        .unwrap_or_default()
}

impl Knowledge for LiveKnowledge {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        self.0.load().search(request)
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        self.0.load().get(request)
    }

    fn facets(&self) -> Facets {
        self.0.load().facets()
    }
}
