//! The engines that have to do the same: the one in memory, and the one in PostgreSQL where the test set-up has started a
//! server. A test that is given to each of them is the contract between them.

use crate::support::{index_records, now};
use windlass_contract::handler::{
    CapabilityFuture, Facets, GetRequest, Knowledge, KnowledgeError, Record, SearchAnswer,
    SearchRequest,
};
use windlass_knowledge::{KnowledgeBase, Options};

/// Where a base is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Memory,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// A base of any engine.
pub(crate) enum Base {
    Memory(KnowledgeBase),
    #[cfg(feature = "postgres")]
    Postgres(crate::postgres::server::Published),
}

/// Gives a test to each engine.
pub(crate) fn each_engine(test: impl Fn(Engine)) {
    test(Engine::Memory);
    #[cfg(feature = "postgres")]
    if crate::postgres::server::is_there() {
        test(Engine::Postgres);
    }
}

impl Engine {
    pub(crate) fn base(self, records: Vec<Record>) -> Base {
        self.base_with(records, &Options::default())
    }

    pub(crate) fn base_with(self, records: Vec<Record>, options: &Options) -> Base {
        let base = index_records(records, options);
        match self {
            Self::Memory => Base::Memory(base),
            #[cfg(feature = "postgres")]
            Self::Postgres => {
                Base::Postgres(crate::postgres::server::Published::of(&base, options))
            }
        }
    }
}

impl Base {
    pub(crate) fn default_namespace(&self) -> String {
        match self {
            Self::Memory(base) => base.default_namespace().to_owned(),
            #[cfg(feature = "postgres")]
            Self::Postgres(published) => published.base.default_namespace(),
        }
    }

    pub(crate) fn stats(&self) -> windlass_knowledge::Stats {
        match self {
            Self::Memory(base) => base.stats(),
            #[cfg(feature = "postgres")]
            Self::Postgres(published) => published.wait(published.base.stats()).unwrap(),
        }
    }

    fn knowledge(&self) -> &dyn Knowledge {
        match self {
            Self::Memory(base) => base,
            #[cfg(feature = "postgres")]
            Self::Postgres(published) => &published.base,
        }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match self {
            Self::Memory(_) => now(future),
            #[cfg(feature = "postgres")]
            Self::Postgres(published) => published.wait(future),
        }
    }
}

/// Every future is ready at once, as those of the engine in memory are.
impl Knowledge for Base {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        let answer = self.wait(self.knowledge().search(request));
        Box::pin(std::future::ready(answer))
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        let answer = self.wait(self.knowledge().get(request));
        Box::pin(std::future::ready(answer))
    }

    fn facets(&self) -> Facets {
        self.knowledge().facets()
    }
}
