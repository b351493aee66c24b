//! Measures searches of a base in PostgreSQL, exact and through the approximate index, and how much of what a base in memory
//! finds is found through the index: `cargo run --release -p windlass-knowledge --features postgres --example bars_postgres -- RECORDS
//! postgres://user@host/database`. Records, questions and vectors are made up as in `bars`; they lie in a schema of their
//! own, which is dropped at the end.

#![expect(clippy::print_stdout, reason = "a measurement prints")]
#![expect(clippy::disallowed_methods, reason = "a measurement takes time")]

mod shared;

use shared::{ATTEMPTS, BySubject, Chance, percentiles, quickest, record, request};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;
use windlass_contract::handler::{Knowledge, Record, SearchRequest};
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::postgres::{PostgresBase, PostgresSettings, publish};
use windlass_knowledge::{EmbedderPresence, KnowledgeBase, Observer, Options};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Questions whose answers are compared.
const COMPARED: usize = 100;
/// Questions that are timed with an index, and without, which takes long.
const TIMED: usize = 200;
const TIMED_EXACT: usize = 20;
const SCHEMA: &str = "windlass_bars";
const WORDS_OF_QUESTION: usize = 20;
const FILTERS: [(&str, &[&str]); 3] = [
    ("no filter", &[]),
    ("a filter for half of the records", &["half1"]),
    ("a filter for a tenth of the records", &["tenth3"]),
];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().unwrap_or_default().parse()?;
    let address = arguments.next().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let bars = Bars {
        runtime,
        options: Options {
            embedder: EmbedderPresence::Present(Arc::new(BySubject::new())),
            ..Options::default()
        },
        address,
    };
    bars.drop_schema()?;
    println!("load of the machine: {}", load());
    let chance = Chance::default();
    let records: Vec<Record> = (0..count).map(|number| record(number, &chance)).collect();
    let base = bars.index(records)?;
    let truth = bars.truth(&base)?;
    let exact = bars.publish(&base, usize::MAX, "written and read back")?;
    bars.all(&exact, TIMED_EXACT, None)?;
    let near = bars.publish(
        &base,
        PostgresSettings::EXACT_MAX.min(count / 20),
        "index made and read back",
    )?;
    bars.all(&near, TIMED, Some(&truth))?;
    println!("load of the machine: {}", load());
    bars.drop_schema()
}

/// Programs that wanted a processor in the last minute, on average.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

struct Bars {
    runtime: Runtime,
    options: Options,
    address: String,
}

/// The ids that are to be found, for each filter and question.
type Truth = Vec<Vec<Vec<String>>>;

impl Bars {
    fn settings(&self, exact_max: usize) -> PostgresSettings {
        PostgresSettings {
            schema: SCHEMA.to_owned(),
            exact_max,
            ..PostgresSettings::new(Sensitive(self.address.clone()))
        }
    }

    fn index(&self, records: Vec<Record>) -> Outcome<KnowledgeBase> {
        let mut observer = Observer {
            clock_ms: &|| 0,
            progress: &mut |_| (),
        };
        let indexed = KnowledgeBase::index_records(records, &self.options, &mut observer);
        Ok(self.runtime.block_on(indexed)?.0)
    }

    fn publish(&self, base: &KnowledgeBase, exact_max: usize, what: &str) -> Outcome<PostgresBase> {
        let mut observer = Observer {
            clock_ms: &|| 0,
            progress: &mut |_| (),
        };
        let settings = self.settings(exact_max);
        let begun = Instant::now();
        let published = self
            .runtime
            .block_on(publish(&settings, base, &mut observer))?;
        println!(
            "{} records {what}: {:.1} s; index: {}",
            published.records,
            begun.elapsed().as_secs_f64(),
            published.indexed
        );
        let opened = PostgresBase::open(&settings, &self.options);
        Ok(self.runtime.block_on(opened)?)
    }

    /// What the base in memory finds, which compares all vectors one by one.
    fn truth(&self, base: &KnowledgeBase) -> Outcome<Truth> {
        let filters = FILTERS.iter();
        filters
            .map(|(_, tags)| self.by_vectors(base, tags))
            .collect()
    }

    /// Asks for vectors alone, by words that nobody knows.
    fn by_vectors(&self, base: &dyn Knowledge, tags: &[&str]) -> Outcome<Vec<Vec<String>>> {
        (0..COMPARED)
            .map(|number| self.found(base, &narrowed(format!("q{number}x{number}"), tags)))
            .collect()
    }

    /// Asks with each filter `questions` of words for the time that they take, and for vectors alone where it is known what
    /// should be found.
    fn all(&self, base: &PostgresBase, questions: usize, truth: Option<&Truth>) -> Outcome<()> {
        for (place, (name, tags)) in FILTERS.iter().enumerate() {
            let chance = Chance::default();
            let mut times = Vec::with_capacity(questions);
            for _ in 0..questions {
                let request = narrowed(chance.words(WORDS_OF_QUESTION), tags);
                times.push(quickest(ATTEMPTS, || {
                    self.found(base, &request).map(|_| ())
                })?);
            }
            let recall = match truth {
                Some(truth) => recall(&truth[place], &self.by_vectors(base, tags)?),
                None => String::new(),
            };
            println!("{name}: {}{recall}", percentiles(times));
        }
        Ok(())
    }

    fn found(&self, base: &dyn Knowledge, request: &SearchRequest) -> Outcome<Vec<String>> {
        let answer = self.runtime.block_on(base.search(request.clone()))?;
        let ids = answer.hits.iter().map(|hit| hit.record.id.clone());
        Ok(ids.collect())
    }

    fn drop_schema(&self) -> Outcome<()> {
        self.runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.address, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let statement = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
            client.batch_execute(&statement).await?;
            Ok(())
        })
    }
}

fn narrowed(query: String, tags: &[&str]) -> SearchRequest {
    SearchRequest {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        top_k: 10,
        ..request(query)
    }
}

fn recall(truth: &[Vec<String>], found: &[Vec<String>]) -> String {
    let wanted: usize = truth.iter().map(Vec::len).sum();
    let pairs = truth.iter().zip(found);
    let right: usize = pairs
        .map(|(truth, found)| truth.iter().filter(|id| found.contains(id)).count())
        .sum();
    format!(", recall at 10 {:.4}", right as f64 / wanted.max(1) as f64)
}
