//! The output of `windlass kb` for people. Knows no file and no search.

use crate::printer::Printer;
use serde_json::{Value, json};
use windlass_contract::handler::{Record, SearchAnswer};
use windlass_knowledge::{IngestReport, KnowledgeBase, Stats};

pub(super) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

pub(super) fn index(base: &KnowledgeBase, report: &IngestReport) {
    for problem in &report.problems {
        Printer.problem(&problem.to_string());
    }
    if report.problems_untold > 0 {
        Printer.problem(&format!("and {} more", report.problems_untold));
    }
    for warning in &report.warnings {
        Printer.problem(&format!("warning: {warning}"));
    }
    if report.warnings_untold > 0 {
        Printer.problem(&format!("and {} more warnings", report.warnings_untold));
    }
    for notice in &report.notices {
        Printer.problem(notice);
    }
    let changes = &report.changes;
    Printer.result(&format!(
        "{}: {} added, {} changed, {} renamed, {} removed, {} unchanged",
        counted(report.records, "record"),
        counted(changes.added, "file"),
        changes.changed,
        changes.renamed,
        changes.removed,
        changes.unchanged,
    ));
    if !report.left_out.is_empty() {
        Printer.result(&format!("files without records: {}", report.left_out));
    }
    Printer.result(&match base.model_id() {
        Some(model) => format!(
            "hybrid, by words and by meaning with {model}: {}, {} newly embedded",
            counted(report.passages, "passage"),
            report.embedded
        ),
        None => "lexical, by words alone: no embedding model is configured".to_owned(),
    });
}

/// `namespace` is the searched one.
pub(super) fn answer(answer: &SearchAnswer, namespace: &str) {
    if answer.hits.is_empty() {
        let nothing = format!("nothing found in the namespace {namespace}");
        Printer.result(&match answer.other_namespaces.as_slice() {
            [] => nothing,
            [only] => format!("{nothing}; {only} has something: add --namespace {only}"),
            [first, ..] => format!(
                "{nothing}; {} have something: add --namespace {first}",
                answer.other_namespaces.join(", ")
            ),
        });
    }
    for hit in &answer.hits {
        let record = &hit.record;
        Printer.result(&format!(
            "{:.3}  {}  {}",
            hit.score, record.id, record.title
        ));
        if let Some(snippet) = &hit.snippet {
            let text: Vec<&str> = snippet.text.split_whitespace().collect();
            Printer.result(&format!("       {}", text.join(" ")));
        }
        Printer.result(&format!("       {}", record.source_path));
    }
    let model = answer
        .model
        .as_ref()
        .map_or_else(String::new, |model| format!(", {model}"));
    let degraded = answer
        .degraded
        .as_ref()
        .map_or_else(String::new, |reason| format!(", {reason}"));
    Printer.result(&format!("{}{model}{degraded}", answer.retrieval));
}

pub(super) fn answer_json(answer: &SearchAnswer) -> Value {
    json!({
        "results": answer.hits.iter().map(|hit| json!({
            "id": hit.record.id,
            "type": hit.record.record_type,
            "namespace": hit.record.namespace,
            "title": hit.record.title,
            "score": hit.score,
            "snippet": hit.snippet,
            "url": hit.record.url,
            "source_path": hit.record.source_path,
            "last_updated": hit.record.last_updated,
        })).collect::<Vec<_>>(),
        "retrieval": answer.retrieval,
        "model": answer.model,
        "degraded": answer.degraded,
        "other_namespaces": answer.other_namespaces,
    })
}

pub(super) fn record(record: &Record) {
    Printer.result(&format!("{}  {}", record.id, record.title));
    let line = |name: &str, text: &str| {
        if !text.is_empty() {
            Printer.result(&format!("{name}: {text}"));
        }
    };
    line("namespace", &record.namespace);
    line("aliases", &record.aliases.join(", "));
    line("tags", &record.tags.join(", "));
    line("url", record.url.as_deref().unwrap_or_default());
    line(
        "updated",
        record.last_updated.as_deref().unwrap_or_default(),
    );
    line("source", &record.source_path);
    Printer.result("");
    Printer.result(&record.body);
}

pub(super) fn stats(stats: &Stats) {
    Printer.result(&counted(stats.records, "record"));
    for (name, counts) in [("namespace", &stats.by_namespace), ("type", &stats.by_type)] {
        for (value, count) in counts {
            Printer.result(&format!("  {name} {value}: {count}"));
        }
    }
    Printer.result(&match &stats.model {
        Some(model) => format!(
            "{}: {}, {model}",
            stats.retrieval,
            counted(stats.vectors, "vector")
        ),
        None => format!("{}: no embedding model", stats.retrieval),
    });
}
