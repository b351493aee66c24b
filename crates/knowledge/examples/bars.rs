//! Measures the bars of the knowledge base on records of made-up words: `cargo run --release -p windlass-knowledge --example
//! bars -- RECORDS [MODEL_FOLDER]`. Each question is asked five times and its quickest answer counts, so that what else
//! the machine does is left out, but for questions that have to be encoded; the rest is processor time, which the kernel may count in ticks of milliseconds.

#![expect(clippy::print_stdout, reason = "a measurement prints")]
#![expect(clippy::disallowed_methods, reason = "a measurement takes time")]

use std::cell::Cell;
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use windlass_knowledge::embed::{EmbedError, Embedder, LocalModel, Model, Purpose};
use windlass_knowledge::{KnowledgeBase, Observer, Options};
use windlass_tool::handler::{CapabilityFuture, GetRequest, Knowledge, Record, SearchRequest};
use windlass_tool::id::UserId;
use windlass_tool::kind::Mode;

const QUESTIONS: usize = 1_000;
const ATTEMPTS: usize = 5;
/// A question that is asked again is not encoded again.
const ONCE: usize = 1;
const WORDS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().unwrap_or_default().parse()?;
    let model = arguments.next();
    let chance = Chance::default();
    println!("start: {:.1} MB resident", resident_mb());
    let records: Vec<Record> = (0..count).map(|number| record(number, &chance)).collect();

    let begun = processor_ms();
    let base = KnowledgeBase::from_records(records)?;
    println!(
        "{count} records indexed by words: {:.0} ms, {:.1} MB resident",
        processor_ms() - begun,
        resident_mb()
    );
    measure("lexical", &base, (20, ATTEMPTS), &chance)?;
    measure_get(&base, count)?;
    drop(base);

    let embedder: Arc<dyn Embedder> = Arc::new(ByChance(Model {
        id: "by chance".to_owned(),
        hash: String::new(),
        dimension: 384,
    }));
    // Made again, for two bases at a time would be counted as one.
    let records: Vec<Record> = (0..count).map(|number| record(number, &chance)).collect();
    let base = index(records, embedder)?;
    measure("hybrid, engine only", &base, (20, ATTEMPTS), &chance)?;
    println!("with vectors: {:.1} MB resident", resident_mb());

    if let Some(folder) = model {
        let begun = processor_ms();
        let model = LocalModel::open(folder.as_ref())?;
        println!(
            "model loaded beside them: {:.0} ms, {:.1} MB resident",
            processor_ms() - begun,
            resident_mb()
        );
        drop(base);
        // Made-up words take about four tokens each.
        let some: Vec<Record> = (0..1_000)
            .map(|number| Record {
                title: chance.words(3),
                body: chance.words(22),
                ..record(number, &chance)
            })
            .collect();
        let begun = processor_ms();
        let base = index(some, Arc::new(model))?;
        println!(
            "1,000 records of 100 tokens embedded: {:.1} s",
            (processor_ms() - begun) / 1e3
        );
        measure(
            "hybrid, 1,000 records, question of 20 tokens, encoder included",
            &base,
            (5, ONCE),
            &chance,
        )?;
    }
    Ok(())
}

fn index(
    records: Vec<Record>,
    embedder: Arc<dyn Embedder>,
) -> Result<KnowledgeBase, Box<dyn std::error::Error>> {
    let options = Options {
        embedder: Some(embedder),
        ..Options::default()
    };
    let mut observer = Observer {
        clock_ms: &|| 0,
        progress: &mut |_| (),
    };
    let indexed = now(KnowledgeBase::index_records(
        records,
        &options,
        &mut observer,
    ));
    Ok(indexed?.0)
}

fn measure(
    name: &str,
    base: &KnowledgeBase,
    (words, attempts): (usize, usize),
    chance: &Chance,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let request = SearchRequest {
            query: chance.words(words),
            namespace: None,
            record_type: None,
            tags: Vec::new(),
            updated_from: None,
            updated_to: None,
            top_k: 3,
            snippets: true,
            user_id: UserId::new("user"),
            mode: Mode::Voice,
        };
        times.push(quickest(attempts, || {
            now(base.search(request.clone())).map(|_| ())
        })?);
    }
    println!("{name}: {}", percentiles(times));
    Ok(())
}

fn measure_get(base: &KnowledgeBase, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(QUESTIONS);
    for number in 0..QUESTIONS {
        let request = GetRequest {
            id: format!("doc:r{}", number * 7_919 % count.max(1)),
            namespace: None,
            user_id: UserId::new("user"),
        };
        times.push(quickest(ATTEMPTS, || {
            now(base.get(request.clone())).map(|_| ())
        })?);
    }
    println!("get: {}", percentiles(times));
    Ok(())
}

/// Milliseconds of the quickest of some attempts.
fn quickest<E>(attempts: usize, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut quickest = f64::INFINITY;
    for _ in 0..attempts {
        let begun = Instant::now();
        work()?;
        quickest = quickest.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(quickest)
}

fn percentiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    format!(
        "mean {mean:.3} ms, p50 {:.3} ms, p99 {:.3} ms",
        at(0.50),
        at(0.99)
    )
}

fn record(number: usize, chance: &Chance) -> Record {
    Record {
        id: format!("doc:r{number}"),
        namespace: "public".to_owned(),
        record_type: "doc".to_owned(),
        title: chance.words(4),
        body: format!("{}.", chance.words(75)),
        ..Record::default()
    }
}

/// Words that are as unevenly frequent as those of a language, and always the same.
struct Chance(Cell<u64>);

impl Default for Chance {
    fn default() -> Self {
        Self(Cell::new(1))
    }
}

impl Chance {
    fn number(&self) -> u64 {
        let state = self.0.get();
        let next = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        next >> 33
    }

    fn words(&self, count: usize) -> String {
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn word(&self) -> String {
        const SYLLABLES: [&str; 16] = [
            "ka", "lo", "mi", "ne", "ru", "so", "ta", "vi", "bra", "den", "fol", "gar", "hin",
            "jor", "pel", "stu",
        ];
        // The square of a share of chance prefers small numbers.
        let share = (self.number() % 10_000) as f64 / 10_000.0;
        let mut rank = (share * share * share * WORDS as f64) as u64 + 16;
        let mut word = String::new();
        while rank > 0 {
            word.push_str(SYLLABLES[(rank % 16) as usize]);
            rank /= 16;
        }
        word
    }
}

/// Vectors that cost nothing, so that the engine alone is measured.
struct ByChance(Model);

impl Embedder for ByChance {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        let vectors = texts
            .iter()
            .map(|text| {
                let seed = text.bytes().fold(1_u64, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(u64::from(byte))
                });
                let chance = Chance(Cell::new(seed));
                (0..384)
                    .map(|_| (chance.number() % 2_000) as f32 / 1_000.0 - 1.0)
                    .collect()
            })
            .collect();
        Box::pin(ready(Ok(vectors)))
    }

    fn batch_size(&self) -> usize {
        256
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

/// The processor time of this process so far: the first number of `/proc/self/schedstat`, in nanoseconds.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds: f64 = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default();
    nanoseconds / 1e6
}

fn resident_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_default();
    kilobytes / 1e3
}
