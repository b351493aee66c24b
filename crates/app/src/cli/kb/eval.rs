//! `windlass kb eval`: relevance and latency over a test collection. Knows no measure; it prints them.

use super::arguments::EvalArguments;
use super::progress::Bar;
use super::{Bench, Format, expect_file};
use crate::failure::Failure;
use crate::printer::Printer;
use std::time::Instant;
use windlass_knowledge::eval::{Collection, CollectionFiles, Evaluation, Measures, evaluate};
use windlass_knowledge::{KnowledgeBase, Observer, Options, Patience};

/// Vectors of collections have a folder of their own, because they would crowd out those of the records.
const FOLDER: &str = "evaluation";

pub(super) fn run(arguments: &EvalArguments) -> Result<(), Failure> {
    for path in [&arguments.corpus, &arguments.queries, &arguments.qrels] {
        expect_file(path, "name a file of JSON Lines")?;
    }
    let bench = Bench::open(&arguments.place)?;
    let collection = Collection::read(&CollectionFiles {
        corpus: arguments.corpus.clone(),
        queries: arguments.queries.clone(),
        qrels: arguments.qrels.clone(),
    })
    .map_err(Failure::of)?;
    bench.runtime.block_on(bench.maker.demand_model())?;
    let options = Options {
        data: Some(bench.config.folders.data.join(FOLDER)),
        // Each way to search is given its time, because only the quality is measured.
        patience: Patience {
            voice_ms: 60_000,
            text_ms: 60_000,
        },
        ..bench.runtime.block_on(bench.maker.options())
    };
    let mut bar = Bar::of("passages");
    let begun = Instant::now();
    let clock_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut observer = Observer {
        clock_ms: &clock_ms,
        progress: &mut |progress| bar.show(progress),
    };
    let (records, _) = collection.records();
    let indexing = KnowledgeBase::index_records(records, &options, &mut observer);
    let (base, _) = bench.runtime.block_on(indexing).map_err(Failure::of)?;
    drop(bar);
    let clock_ms = || begun.elapsed().as_secs_f64() * 1_000.0;
    let evaluation = bench
        .runtime
        .block_on(evaluate(&collection, &base, &clock_ms))
        .map_err(Failure::of)?;
    match Printer.format() {
        Format::Text => print(&collection, &base, &evaluation),
        Format::Json => Printer.result(&serde_json::to_string(&evaluation).map_err(Failure::of)?),
    }
    Ok(())
}

fn print(collection: &Collection, base: &KnowledgeBase, evaluation: &Evaluation) {
    let model = base.model_id().unwrap_or("none");
    Printer.result(&format!(
        "{} documents, {} questions, model: {model}",
        collection.documents.len(),
        collection.questions.len()
    ));
    Printer.result("          nDCG@10  recall@10  MRR@10");
    for (name, measures) in [
        ("lexical", Some(evaluation.lexical)),
        ("dense", evaluation.dense),
        ("hybrid", evaluation.hybrid),
    ] {
        let row = match measures {
            Some(Measures {
                ndcg,
                recall,
                reciprocal_rank,
            }) => format!("{name:<8}  {ndcg:>7.3}  {recall:>9.3}  {reciprocal_rank:>6.3}"),
            None => format!("{name:<8}        –          –       –"),
        };
        Printer.result(&row);
    }
    let latency = evaluation.latency_ms;
    Printer.result(&format!(
        "latency: p50 {:.2} ms, p99 {:.2} ms",
        latency.p50, latency.p99
    ));
}
