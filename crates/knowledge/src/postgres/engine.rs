//! A base in a database as tools see it. Understands a question, has the database find candidates, and ranks them like the base in
//! memory. Knows no table.

use super::connection::{Link, Pool, PostgresSettings};
use super::error::PostgresError;
use super::lexicon::{self, Lexicon};
use super::statement::{self, Found, Question, Scope};
use super::{ModelKey, schema};
use crate::access::Access;
use crate::catalogue::{self, Filter};
use crate::dense::Questions;
use crate::fusion::{CANDIDATES_MIN, HITS_MAX, Retrieval};
use crate::index::Vocabulary;
use crate::lookup::{NEAR_IDS_MAX, WantedId, add_near};
use crate::options::Options;
use crate::query::{self, QueryWords, Understanding};
use crate::record;
use crate::search::without_model;
use crate::snippet;
use crate::stats::Stats;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use windlass_contract::handler::{
    CapabilityFuture, Facets, GetRequest, Hit, Knowledge, KnowledgeError, Record, SearchAnswer,
    SearchRequest,
};

/// A base in PostgreSQL. Clones share it. Needs to be used inside tokio.
#[derive(Clone)]
pub struct PostgresBase(Arc<Engine>);

struct Engine {
    pool: Arc<Pool>,
    lexicon: RwLock<Arc<Lexicon>>,
    questions: Option<Questions>,
    model_key: Option<ModelKey>,
    exact_max: usize,
    access: Access,
    embedder_is_missing: bool,
}

impl PostgresBase {
    /// Connects, makes missing tables, and reads the parts that are kept in memory. Uses only these options: who may read, the model and
    /// its patience.
    pub async fn open(
        settings: &PostgresSettings,
        options: &Options,
    ) -> Result<Self, PostgresError> {
        let pool = Pool::new(settings)?;
        let embedder = options.embedder.embedder();
        let model_key = embedder.map(|embedder| ModelKey::of(embedder.model()));
        let mut link = pool.connect().await?;
        schema::prepare(&mut link, pool.schema()).await?;
        let lexicon = Lexicon::load(&mut link, model_key.as_ref()).await?;
        let questions = embedder.map(|embedder| {
            Questions::new(embedder.clone(), options.machine.clone(), options.patience)
        });
        Ok(Self(Arc::new(Engine {
            pool,
            lexicon: RwLock::new(Arc::new(lexicon)),
            questions,
            model_key,
            exact_max: settings.exact_max,
            access: options.access.clone(),
            embedder_is_missing: options.embedder.is_missing(),
        })))
    }

    /// Reads the changes of the database since the last time; whether there were any.
    pub async fn refresh(&self) -> Result<bool, PostgresError> {
        let engine = &*self.0;
        let known = engine.lexicon().generation;
        let model = engine.model_key.as_ref();
        let mut attempts = engine.pool.attempts().await?;
        let lexicon = loop {
            let newer = newer(attempts.link(), known, model).await;
            match attempts.settle(newer).await? {
                Ok(Some(lexicon)) => break lexicon,
                Ok(None) => return Ok(false),
                Err(again) => attempts = again,
            }
        };
        *engine
            .lexicon
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(lexicon);
        Ok(true)
    }

    /// The namespace that is searched where an anonymous request names none.
    pub fn default_namespace(&self) -> String {
        catalogue::default_namespace(&self.0.lexicon().facets, &self.0.access, None).to_owned()
    }

    /// The base in numbers, as the database has it now.
    pub async fn stats(&self) -> Result<Stats, PostgresError> {
        self.0.stats().await
    }
}

impl Knowledge for PostgresBase {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        let engine = self.0.clone();
        Box::pin(async move { engine.search(&request).await })
    }

    /// A request without a namespace finds the record in any namespace, because an id is unique in the whole base.
    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        let engine = self.0.clone();
        Box::pin(async move { engine.get(&request).await })
    }

    fn facets(&self) -> Facets {
        self.0.lexicon().facets.clone()
    }
}

impl Engine {
    fn lexicon(&self) -> Arc<Lexicon> {
        self.lexicon
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, KnowledgeError> {
        let lexicon = self.lexicon();
        let namespace = catalogue::readable(
            &lexicon.facets,
            &self.access,
            request.namespace.as_deref(),
            &request.reader,
        )?;
        let filter = Filter::of(request, vec![namespace])?;
        let scope = Scope::of(&filter);
        let understanding = self.understand(&lexicon, &request.query, &scope).await?;
        let questions = self.questions.as_ref().filter(|_| lexicon.has_vectors);
        let (vector, degraded) = match questions {
            Some(questions) if !request.query.trim().is_empty() => {
                match questions.vector(&understanding.text, request.mode).await {
                    Ok(vector) => (Some(vector), None),
                    Err(cause) => (None, Some(cause.as_str().to_owned())),
                }
            }
            Some(_) => (None, None),
            None => (None, self.embedder_is_missing.then(without_model)),
        };
        let retrieval = match &vector {
            Some(_) => Retrieval::Hybrid,
            None => Retrieval::Lexical,
        };
        let count = request.top_k.min(HITS_MAX);
        let question = Question {
            terms: &understanding.terms,
            vector: self.model_key.as_ref().zip(vector.as_deref()),
            exact_max: lexicon.has_index.then_some(self.exact_max),
            named: named(&lexicon, &understanding),
            scope,
            candidates: count.max(CANDIDATES_MIN),
        };
        let ranked = self
            .rank(&lexicon, &question, retrieval, count)
            .await
            .map_err(unavailable)?;
        let other_namespaces = match ranked.is_empty() {
            true => self.other_namespaces(&lexicon, request, namespace).await?,
            false => Vec::new(),
        };
        let hits = self
            .hits(ranked, request, &lexicon, &understanding)
            .await
            .map_err(unavailable)?;
        Ok(SearchAnswer {
            hits,
            retrieval: retrieval.as_str().to_owned(),
            model: vector.and_then(|_| Some(questions?.model().id.clone())),
            degraded,
            other_namespaces,
        })
    }

    /// The other namespaces whose records have words of the question, the best first.
    async fn other_namespaces(
        &self,
        lexicon: &Lexicon,
        request: &SearchRequest,
        searched: &str,
    ) -> Result<Vec<String>, KnowledgeError> {
        let others = catalogue::others(&lexicon.facets, &self.access, searched, &request.reader);
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let filter = Filter::of(request, others)?;
        let scope = Scope::of(&filter);
        let understanding = self.understand(lexicon, &request.query, &scope).await?;
        let question = Question {
            terms: &understanding.terms,
            vector: None,
            exact_max: None,
            named: [Vec::new(), Vec::new()],
            scope,
            candidates: CANDIDATES_MIN,
        };
        let found = async {
            let ranked = self
                .rank(lexicon, &question, Retrieval::Lexical, CANDIDATES_MIN)
                .await?;
            let contents = self.contents(&ranked).await?;
            Ok((ranked, contents))
        };
        let (ranked, contents) = found.await.map_err(unavailable)?;
        let records = ranked
            .iter()
            .filter_map(|(found, _)| contents.get(&found.number));
        Ok(catalogue::named_namespaces(
            records.map(|record| record.namespace.as_str()),
        ))
    }

    /// Understands a question like a base with only the words of the records that may be found.
    async fn understand(
        &self,
        lexicon: &Lexicon,
        query: &str,
        scope: &Scope<'_>,
    ) -> Result<Understanding, KnowledgeError> {
        let asked = QueryWords::of(query, lexicon);
        let hidden: HashSet<String> = match scope.is_everything(lexicon) {
            true => HashSet::new(),
            false => {
                let terms = statement::few_of(lexicon, asked.terms());
                self.hidden(&terms, scope).await.map_err(unavailable)?
            }
        };
        let is_known = |term: &str| Ok(!hidden.contains(term));
        query::understand(asked, lexicon, &lexicon.names, &is_known)
            .map_err(crate::search::unavailable)
    }

    /// The terms that occur in no record that may be found.
    async fn hidden(
        &self,
        terms: &[&str],
        scope: &Scope<'_>,
    ) -> Result<HashSet<String>, PostgresError> {
        if terms.is_empty() {
            return Ok(HashSet::new());
        }
        let mut attempts = self.pool.attempts().await?;
        loop {
            let hidden = statement::hidden(attempts.link(), terms, scope).await;
            match attempts.settle(hidden).await? {
                Ok(hidden) => return Ok(hidden),
                Err(again) => attempts = again,
            }
        }
    }

    /// The best records with their scores, the best first; equal ones by their ids.
    async fn rank(
        &self,
        lexicon: &Lexicon,
        question: &Question<'_>,
        retrieval: Retrieval,
        count: usize,
    ) -> Result<Vec<(Found, f64)>, PostgresError> {
        let is_blank = question.terms.is_empty()
            && question.vector.is_none()
            && question.named.iter().all(Vec::is_empty);
        if count == 0 || is_blank {
            return Ok(Vec::new());
        }
        let mut attempts = self.pool.attempts().await?;
        let found = loop {
            let found = statement::find(attempts.link(), lexicon, question).await;
            match attempts.settle(found).await? {
                Ok(found) => break found,
                Err(again) => attempts = again,
            }
        };
        let mut scored: Vec<(Found, f64)> = found
            .into_iter()
            .map(|found| {
                let score = found.evidence.score(retrieval);
                (found, score)
            })
            .collect();
        scored.sort_by(|left, right| {
            let by_score = right.1.total_cmp(&left.1);
            by_score.then_with(|| left.0.id.cmp(&right.0.id))
        });
        scored.truncate(count);
        Ok(scored)
    }

    async fn hits(
        &self,
        ranked: Vec<(Found, f64)>,
        request: &SearchRequest,
        lexicon: &Lexicon,
        understanding: &Understanding,
    ) -> Result<Vec<Hit>, PostgresError> {
        if ranked.is_empty() {
            return Ok(Vec::new());
        }
        let mut contents = self.contents(&ranked).await?;
        let mut analyser = lexicon.indexing().clone();
        Ok(ranked
            .into_iter()
            .filter_map(|(found, score)| {
                let record = contents.remove(&found.number)?;
                let snippet = request
                    .snippets
                    .then(|| {
                        let terms = &understanding.terms;
                        // The database does not return the closest passage.
                        snippet::best(&record.body, terms, &mut analyser, || None)
                    })
                    .flatten();
                Some(Hit {
                    record: Arc::new(record),
                    score,
                    snippet,
                })
            })
            .collect())
    }

    /// The contents of the found records, by their numbers.
    async fn contents(
        &self,
        ranked: &[(Found, f64)],
    ) -> Result<HashMap<i64, Record>, PostgresError> {
        let found: Vec<Found> = ranked.iter().map(|(found, _)| found.clone()).collect();
        let mut attempts = self.pool.attempts().await?;
        loop {
            let contents = statement::fetch(attempts.link(), &found).await;
            match attempts.settle(contents).await? {
                Ok(contents) => return Ok(contents.into_iter().collect()),
                Err(again) => attempts = again,
            }
        }
    }

    async fn get(
        &self,
        request: &GetRequest,
    ) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
        let lexicon = self.lexicon();
        let reader = &request.reader;
        let namespace = match &request.namespace {
            Some(name) => Some(catalogue::readable(
                &lexicon.facets,
                &self.access,
                Some(name),
                reader,
            )?),
            None => None,
        };
        let is_in_reach = |of_record: &str| match namespace {
            Some(namespace) => of_record == namespace,
            None => self.access.may_read(reader, of_record),
        };
        // A record's id never holds a zero byte, and the database takes none in a text.
        let found = match request.id.contains('\0') {
            true => None,
            false => self
                .record(&record::id(&request.id))
                .await
                .map_err(unavailable)?,
        };
        match found.filter(|record| is_in_reach(&record.namespace)) {
            Some(record) => Ok(Ok(record)),
            None => {
                let near = self.near_ids(&lexicon, &request.id, &is_in_reach).await?;
                Ok(Err(near))
            }
        }
    }

    /// The ids that may have been meant, suggested like those of the base in memory.
    async fn near_ids(
        &self,
        lexicon: &Lexicon,
        id: &str,
        is_in_reach: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Vec<String>, KnowledgeError> {
        let wanted = WantedId::of(id);
        let mut ids = wanted.spelt_almost_so(lexicon.ids(is_in_reach));
        let namespaces = lexicon.facets.namespaces.iter().map(String::as_str);
        let scope = Scope {
            namespaces: namespaces.filter(|name| is_in_reach(name)).collect(),
            record_type: None,
            tags: &[],
            from: None,
            to: None,
        };
        let understanding = self.understand(lexicon, &wanted.words(), &scope).await?;
        let question = Question {
            terms: &understanding.terms,
            vector: None,
            exact_max: None,
            named: [Vec::new(), Vec::new()],
            scope,
            candidates: NEAR_IDS_MAX,
        };
        let ranked = self
            .rank(lexicon, &question, Retrieval::Lexical, NEAR_IDS_MAX)
            .await
            .map_err(unavailable)?;
        for (found, _) in ranked {
            add_near(&mut ids, &found.id);
        }
        Ok(ids)
    }

    async fn record(&self, id: &str) -> Result<Option<Record>, PostgresError> {
        let mut attempts = self.pool.attempts().await?;
        loop {
            let found = statement::get(attempts.link(), id).await;
            match attempts.settle(found).await? {
                Ok(found) => return Ok(found),
                Err(again) => attempts = again,
            }
        }
    }

    async fn stats(&self) -> Result<Stats, PostgresError> {
        let mut attempts = self.pool.attempts().await?;
        let model = self.model_key.as_ref().map(|key| key.text.as_str());
        let counts = loop {
            let counts = statement::counts(attempts.link(), model).await;
            match attempts.settle(counts).await? {
                Ok(counts) => break counts,
                Err(again) => attempts = again,
            }
        };
        let questions = self.questions.as_ref().filter(|_| counts.vectors > 0);
        Ok(Stats {
            records: counts.by_type.values().sum(),
            by_namespace: counts.by_namespace,
            by_type: counts.by_type,
            retrieval: match questions {
                Some(_) => Retrieval::Hybrid.as_str(),
                None => Retrieval::Lexical.as_str(),
            },
            model: questions.map(|questions| questions.model().id.clone()),
            vectors: counts.vectors,
        })
    }
}

/// The lexicon of a base, if it has changed since a generation.
async fn newer(
    link: &mut Link,
    known: i64,
    model: Option<&ModelKey>,
) -> Result<Option<Lexicon>, PostgresError> {
    match lexicon::generation(link).await? {
        generation if generation == known => Ok(None),
        _ => Lexicon::load(link, model).await.map(Some),
    }
}

/// The ids of the records whose whole name is the question, as it is written and by its terms.
fn named<'a>(lexicon: &'a Lexicon, understanding: &Understanding) -> [Vec<&'a str>; 2] {
    let bearers = lexicon
        .names
        .bearers(&understanding.asked, &understanding.sequence);
    bearers.map(|bearers| {
        let ids = bearers
            .into_iter()
            .filter_map(|ordinal| lexicon.id(ordinal));
        ids.collect()
    })
}

/// The database's message is for the caller's log, not for a model.
fn unavailable(error: PostgresError) -> KnowledgeError {
    KnowledgeError::Unavailable(error.to_string())
}
