//! Measures the bars of the knowledge base on records of made-up words: `cargo run --release -p windlass-knowledge --example
//! bars -- RECORDS [MODEL_FOLDER]`. Each question is asked five times and its quickest answer counts, so that what else
//! the machine does is left out, but for questions that have to be encoded; the rest is processor time, which the kernel may count in ticks of milliseconds.

#![expect(clippy::print_stdout, reason = "a measurement prints")]
#![expect(clippy::disallowed_methods, reason = "a measurement takes time")]

mod shared;

use shared::{ATTEMPTS, BySubject, Chance, percentiles, quickest, record, request, vector};
use std::future::{Future, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use windlass_contract::handler::{CapabilityFuture, GetRequest, Knowledge, Record};
use windlass_contract::id::UserId;
use windlass_knowledge::embed::{EmbedError, Embedder, LocalModel, Model, Purpose};
use windlass_knowledge::{EmbedderPresence, KnowledgeBase, Observer, Options};

const QUESTIONS: usize = 1_000;
/// A question that is asked again is not encoded again.
const ONCE: usize = 1;

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
    measure("lexical, 64 words", &base, (64, ATTEMPTS), &chance)?;
    measure_misspelt("lexical, 64 words, half misspelt", &base, &chance)?;
    measure_get(&base, count)?;
    drop(base);

    // Made again, for two bases at a time would be counted as one.
    let records: Vec<Record> = (0..count).map(|number| record(number, &chance)).collect();
    let base = index(records, Arc::new(BySubject::new()))?;
    measure("hybrid, engine only", &base, (20, ATTEMPTS), &chance)?;
    measure("hybrid, 64 words", &base, (64, ATTEMPTS), &chance)?;
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
        let model: Arc<dyn Embedder> = Arc::new(model);
        embed(&model, &chance)?;
        let records: Vec<Record> = (0..count).map(|number| record(number, &chance)).collect();
        let base = index(records, Arc::new(Questioned(model)))?;
        let name = "hybrid, question of 20 tokens, encoder included";
        measure(name, &base, (5, ONCE), &chance)?;
    }
    Ok(())
}

fn embed(model: &Arc<dyn Embedder>, chance: &Chance) -> Result<(), Box<dyn std::error::Error>> {
    // Made-up words take about four tokens each.
    let records: Vec<Record> = (0..1_000)
        .map(|number| Record {
            title: chance.words(3),
            body: chance.words(22),
            ..record(number, chance)
        })
        .collect();
    let begun = processor_ms();
    index(records, model.clone())?;
    println!(
        "1,000 records of 100 tokens embedded: {:.1} s",
        (processor_ms() - begun) / 1e3
    );
    Ok(())
}

fn index(
    records: Vec<Record>,
    embedder: Arc<dyn Embedder>,
) -> Result<KnowledgeBase, Box<dyn std::error::Error>> {
    let options = Options {
        embedder: EmbedderPresence::Present(embedder),
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
        let request = request(chance.words(words));
        times.push(quickest(attempts, || {
            now(base.search(request.clone())).map(|_| ())
        })?);
    }
    println!("{name}: {}", percentiles(times));
    Ok(())
}

fn measure_misspelt(
    name: &str,
    base: &KnowledgeBase,
    chance: &Chance,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let misspelt = chance.words(32).replace(' ', "x ");
        let request = request(format!("{misspelt} {}", chance.words(32)));
        times.push(quickest(ATTEMPTS, || {
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
            reader: UserId::new("user").into(),
        };
        times.push(quickest(ATTEMPTS, || {
            now(base.get(request.clone())).map(|_| ())
        })?);
    }
    println!("get: {}", percentiles(times));
    Ok(())
}

/// Embeds questions only: what passages would take is measured already.
struct Questioned(Arc<dyn Embedder>);

impl Embedder for Questioned {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        match purpose {
            Purpose::Query => self.0.embed(texts, purpose),
            Purpose::Passage => {
                Box::pin(ready(Ok(texts.iter().map(|text| vector(text)).collect())))
            }
        }
    }

    fn batch_size(&self) -> usize {
        256
    }

    fn token_count(&self, text: &str) -> usize {
        self.0.token_count(text)
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
