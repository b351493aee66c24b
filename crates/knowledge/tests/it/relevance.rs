//! Relevance as a test: public collections and how well their questions must be answered.

use crate::support::{WordVectors, index_records, local_model, now};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_contract::handler::CapabilityFuture;
use windlass_knowledge::embed::{EmbedError, Embedder, Model, Purpose};
use windlass_knowledge::eval::{Collection, CollectionFiles, evaluate};
use windlass_knowledge::{EmbedderPresence, KnowledgeBase, Options};

/// The Cranfield collection, where this checkout has it beside it.
fn cranfield() -> Option<Collection> {
    let folder: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/ir/cranfield");
    if !folder.is_dir() {
        println!("skipped: there is no collection in {}", folder.display());
        return None;
    }
    let files = CollectionFiles {
        corpus: folder.join("corpus.jsonl"),
        queries: folder.join("queries.jsonl"),
        qrels: folder.join("qrels.jsonl"),
    };
    Some(Collection::read(&files).unwrap())
}

#[test]
fn words_alone_reach_their_bar_on_cranfield() {
    let Some(collection) = cranfield() else {
        return;
    };
    let (records, _) = collection.records();
    let base = KnowledgeBase::from_records(records).unwrap();
    let evaluation = now(evaluate(&collection, &base, &|| 0.0)).unwrap();
    println!("{}", serde_json::to_string(&evaluation).unwrap());
    assert!(evaluation.lexical.ndcg >= 0.385, "{evaluation:?}");
    assert_eq!((evaluation.dense, evaluation.hybrid), (None, None));
}

/// One document of five, and the questions that one of these answers. To embed all 1,400 takes minutes and shows no more; `windlass kb eval`
/// measures the whole.
fn sample(mut collection: Collection) -> Collection {
    let mut number = 0;
    collection.documents.retain(|_| {
        number += 1;
        number % 5 == 0
    });
    let documents = collection.documents.iter();
    let ids: HashSet<&str> = documents.map(|document| document.id.as_str()).collect();
    for judged in collection.judgements.values_mut() {
        judged.retain(|id, _| ids.contains(id.as_str()));
    }
    collection.judgements.retain(|_, judged| !judged.is_empty());
    let judgements = &collection.judgements;
    collection
        .questions
        .retain(|question| judgements.contains_key(&question.id));
    collection
}

#[test]
fn words_and_meaning_together_reach_their_bar_on_a_part_of_cranfield() {
    let (Some(collection), Some(model)) = (cranfield(), local_model()) else {
        return;
    };
    let collection = sample(collection);
    let options = Options {
        embedder: EmbedderPresence::Present(Arc::new(model)),
        ..Options::default()
    };
    let base = index_records(collection.records().0, &options);
    assert_eq!(collection.documents.len(), 280);
    assert!(base.vector_count() >= 280);
    let evaluation = now(evaluate(&collection, &base, &|| 0.0)).unwrap();
    println!("{}", serde_json::to_string(&evaluation).unwrap());
    assert!(evaluation.hybrid.unwrap().ndcg >= 0.540, "{evaluation:?}");
    assert!(evaluation.lexical.ndcg >= 0.485, "{evaluation:?}");
}

fn collection_of(corpus: &str, queries: &str, qrels: &str) -> Result<Collection, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    Collection::read(&CollectionFiles {
        corpus: file("corpus.jsonl", corpus),
        queries: file("queries.jsonl", queries),
        qrels: file("qrels.jsonl", qrels),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn ids_may_be_numbers_behind_a_byte_order_mark_and_stand_once() {
    let corpus = "\u{feff}{\"id\": 1, \"text\": \"Oak.\"}\n{\"id\": \"2\", \"text\": \"Ice.\"}\n";
    let queries = "\u{feff}{\"id\": 7, \"text\": \"oak\"}\n";
    let qrels = "{\"query\": \"7\", \"doc\": 1, \"rel\": 1}\n";
    let collection = collection_of(corpus, queries, qrels).unwrap();
    assert_eq!(collection.judgements["7"]["1"], 1);
    assert_eq!(collection.documents[0].id, "1");
    let twice = format!("{corpus}{{\"id\": \"1\", \"text\": \"Oak again.\"}}");
    let problem = collection_of(&twice, queries, qrels).unwrap_err();
    assert!(problem.contains("has the id \"1\" twice"), "{problem}");
    let twice = format!("{queries}{{\"id\": \"7\", \"text\": \"ice\"}}");
    let problem = collection_of(corpus, &twice, qrels).unwrap_err();
    assert!(problem.contains("has the id \"7\" twice"), "{problem}");
}

/// Takes a second for every question that it embeds.
struct Slow {
    words: WordVectors,
    clock_ms: Arc<AtomicU64>,
}

impl Embedder for Slow {
    fn model(&self) -> &Model {
        self.words.model()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        if purpose == Purpose::Query {
            self.clock_ms.fetch_add(1_000, Ordering::Relaxed);
        }
        self.words.embed(texts, purpose)
    }

    fn batch_size(&self) -> usize {
        self.words.batch_size()
    }
}

#[test]
fn the_latency_is_that_of_the_first_asking_with_the_model() {
    let collection = collection_of(
        "{\"id\": 1, \"text\": \"Oak.\"}\n",
        "{\"id\": 7, \"text\": \"oak\"}\n",
        "{\"query\": 7, \"doc\": 1, \"rel\": 1}\n",
    )
    .unwrap();
    let clock_ms = Arc::new(AtomicU64::new(0));
    let options = Options {
        embedder: EmbedderPresence::Present(Arc::new(Slow {
            words: WordVectors::new(),
            clock_ms: clock_ms.clone(),
        })),
        ..Options::default()
    };
    let base = index_records(collection.records().0, &options);
    let clock = || clock_ms.load(Ordering::Relaxed) as f64;
    let evaluation = now(evaluate(&collection, &base, &clock)).unwrap();
    assert_eq!(evaluation.latency_ms.p50, 1_000.0);
}
