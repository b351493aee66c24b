//! Relevance as a test: public collections and how well their questions must be answered.

use crate::support::{local_model, now};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_knowledge::eval::{Collection, CollectionFiles, evaluate};
use windlass_knowledge::{KnowledgeBase, Observer, Options};

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

/// Embeds 1,400 abstracts when it first runs in a target folder; from then on their vectors are at hand.
#[test]
fn words_and_meaning_together_reach_their_bar_on_cranfield() {
    let (Some(collection), Some(model)) = (cranfield(), local_model()) else {
        return;
    };
    let (records, _) = collection.records();
    let options = Options {
        embedder: Some(Arc::new(model)),
        data: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cranfield")),
        ..Options::default()
    };
    let mut observer = Observer {
        clock_ms: &|| 0,
        progress: &mut |_| (),
    };
    let (base, report) = now(KnowledgeBase::index_records(
        records,
        &options,
        &mut observer,
    ))
    .unwrap();
    assert_eq!(base.vector_count(), report.passages);
    let evaluation = now(evaluate(&collection, &base, &|| 0.0)).unwrap();
    println!("{}", serde_json::to_string(&evaluation).unwrap());
    assert!(evaluation.hybrid.unwrap().ndcg >= 0.430, "{evaluation:?}");
    assert!(evaluation.lexical.ndcg >= 0.385, "{evaluation:?}");
}
