//! The approximate index: made and dropped by the number of vectors, and as good as the comparison one by one.

use super::server::{Published, address, ask, is_there, settings, until, wait, write};
use crate::support::{index_records, record, request};
use std::future::ready;
use std::sync::Arc;
use windlass_contract::handler::{CapabilityFuture, Knowledge, Record, SearchRequest};
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::embed::{EmbedError, Embedder, Model, Purpose};
use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings};
use windlass_knowledge::{EmbedderPresence, KnowledgeBase, Options};

const RECORDS: usize = 3_000;
/// So many vectors are compared one by one in these tests.
const EXACT_MAX: usize = 200;
const SUBJECTS: usize = 40;
/// For each filter.
const QUESTIONS: i64 = 20;
const DIMENSION: usize = 64;
/// The least that a server takes.
const WORK_MEM: &str = "64kB";

/// A model for which texts of one subject lie close together, as those of a language do.
struct Clustered(Model);

impl Clustered {
    fn options(dimension: usize) -> Options {
        Options {
            embedder: EmbedderPresence::Present(Arc::new(Self(Model {
                id: "clustered".to_owned(),
                hash: "of clustered".to_owned(),
                dimension,
            }))),
            ..Options::default()
        }
    }
}

/// Numbers by chance, always the same for a seed.
fn numbers(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
}

impl Embedder for Clustered {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        let vector = |text: &String| {
            // The last word is a text's number.
            let number = text.rsplit(' ').next().and_then(|word| word.parse().ok());
            let number: u64 = number.unwrap_or_default();
            let subject = numbers(1_000_000 + number % SUBJECTS as u64);
            let own = numbers(number + 1);
            let mixed = subject.zip(own).take(self.0.dimension);
            let numbers: Vec<f32> = mixed.map(|(subject, own)| subject + 0.5 * own).collect();
            let length = numbers
                .iter()
                .map(|number| number * number)
                .sum::<f32>()
                .sqrt();
            numbers.iter().map(|number| number / length).collect()
        };
        Box::pin(ready(Ok(texts.iter().map(vector).collect())))
    }

    fn batch_size(&self) -> usize {
        256
    }
}

fn records(count: usize) -> Vec<Record> {
    (0..count)
        .map(|number| {
            // No word is shared with a question, so that vectors alone find it.
            let body = format!("xxx{number} {number}");
            let mut record = record(&format!("doc:r{number}"), "Untitled", &body);
            let half = if number % SUBJECTS < SUBJECTS / 2 {
                "low"
            } else {
                "high"
            };
            record.tags = vec![
                format!("third{}", number % 3),
                format!("few{}", number % 50),
                half.to_owned(),
            ];
            if number % SUBJECTS < 3 {
                record.tags.push("far".to_owned());
            }
            record.last_updated = Some(format!("20{:02}-05-05", number % 20));
            if number % 4 == 0 {
                record.record_type = "part".to_owned();
                record.id = format!("part:r{number}");
            }
            record
        })
        .collect()
}

fn base(count: usize) -> (KnowledgeBase, Options) {
    let options = Clustered::options(DIMENSION);
    (index_records(records(count), &options), options)
}

fn open(settings: &PostgresSettings, options: &Options) -> Published {
    Published {
        base: wait(PostgresBase::open(settings, options)).unwrap(),
        settings: settings.clone(),
    }
}

/// The address of a server that gives each step of a statement so much memory.
fn with_work_mem(address: &str, memory: &str) -> String {
    let mark = if address.contains('?') { '&' } else { '?' };
    format!("{address}{mark}options=-c%20work_mem%3D{memory}")
}

/// The ids of what is found.
fn found(base: &PostgresBase, request: SearchRequest) -> Vec<String> {
    let answer = wait(base.search(request)).unwrap();
    assert_eq!(answer.retrieval, "hybrid");
    let ids = answer.hits.iter().map(|hit| hit.record.id.clone());
    ids.collect()
}

/// How often the index was searched, as the database counts it: what a connection did is counted when it is used again a
/// second later.
fn searches(settings: &PostgresSettings) -> i64 {
    ask(
        settings,
        "SELECT coalesce(sum(idx_scan), 0)::bigint FROM (SELECT pg_stat_force_next_flush()) AS flush, \
         pg_stat_user_indexes WHERE schemaname = current_schema() AND indexrelname LIKE 'passages_near_%'",
    )
}

/// The indexes that can be searched, by their names.
fn indexes(settings: &PostgresSettings) -> String {
    ask(
        settings,
        "SELECT coalesce(string_agg(indexrelid::regclass::text, ' '), '') FROM pg_index \
         WHERE indrelid = 'passages'::regclass AND indisvalid AND indexrelid::regclass::text LIKE 'passages_near_%'",
    )
}

type Narrow = fn(&mut SearchRequest);

/// Filters that let many records through, and one that lets few. The subjects of the last three are some of all: a question
/// about one of the others has to go a long way to what passes.
const FILTERS: [(&str, bool, Narrow); 9] = [
    ("none", true, |_| ()),
    ("tag", true, |request| {
        request.tags = vec!["third1".to_owned()]
    }),
    ("type", true, |request| {
        request.record_type = Some("part".to_owned());
    }),
    ("dates", true, |request| {
        request.updated_from = Some("2015-01-01".to_owned());
    }),
    ("all", true, |request| {
        request.record_type = Some("doc".to_owned());
        request.tags = vec!["third0".to_owned()];
        request.updated_to = Some("2011-12-31".to_owned());
    }),
    ("few", false, |request| {
        request.tags = vec!["few7".to_owned()]
    }),
    ("low", true, |request| request.tags = vec!["low".to_owned()]),
    ("high", true, |request| {
        request.tags = vec!["high".to_owned()]
    }),
    ("far", true, |request| request.tags = vec!["far".to_owned()]),
];

#[test]
fn the_index_finds_what_a_comparison_one_by_one_finds() {
    if !is_there() {
        return;
    }
    let (base, options) = base(RECORDS);
    let mut settings = settings(address());
    settings.exact_max = EXACT_MAX;
    assert!(write(&settings, &base).unwrap().indexed);
    // With the memory of this `work_mem` alone, a search of so few vectors gives up as one of very many does with the usual one.
    let scarce = PostgresSettings {
        address: Sensitive(with_work_mem(&address(), WORK_MEM)),
        ..settings.clone()
    };
    let near = open(&scarce, &options);
    // The same base, asked by somebody who compares all vectors one by one.
    settings.exact_max = RECORDS;
    let exact = wait(PostgresBase::open(&settings, &options)).unwrap();
    // Questions that go along the index.
    let mut asked = 0;
    for (name, is_wide, filter) in FILTERS {
        let (mut right, mut wanted) = (0, 0);
        for question in 0..QUESTIONS {
            let mut request = request(&format!("question {}", 100_000 + question * 7));
            request.top_k = 10;
            filter(&mut request);
            let truth = found(&exact, request.clone());
            let ids = found(&near.base, request);
            asked += i64::from(is_wide);
            assert_eq!(ids.len(), truth.len(), "{name}");
            wanted += truth.len();
            right += truth.iter().filter(|id| ids.contains(id)).count();
        }
        let recall = right as f64 / wanted as f64;
        assert!(
            wanted == 200 && recall >= 0.99,
            "{name}: {recall} of {wanted}"
        );
        if is_wide {
            let all = asked;
            until(|| {
                let mut request = request("once more");
                filter(&mut request);
                found(&near.base, request);
                asked += 1;
                searches(&settings) >= all
            });
        }
        // No narrow search has used it, nor any search that compares one by one.
        assert!(searches(&settings) <= asked, "{name}");
    }
}

#[test]
fn the_index_is_there_for_many_vectors_and_for_no_few() {
    if !is_there() {
        return;
    }
    const FEW: usize = 300;
    let (base, options) = base(FEW);
    let mut settings = settings(address());
    let wanted = format!("passages_near_{DIMENSION}");
    for (exact_max, index) in [(FEW, ""), (FEW - 1, &wanted), (FEW - 1, &wanted), (FEW, "")] {
        settings.exact_max = exact_max;
        let report = write(&settings, &base).unwrap();
        assert_eq!(report.indexed, !index.is_empty(), "{exact_max}");
        assert_eq!(indexes(&settings), index, "{exact_max}");
    }
    // A program that serves the base uses the index, and goes on when it is gone.
    settings.exact_max = EXACT_MAX;
    let served = open(&settings, &options);
    let ask_it = || found(&served.base, request("question 7"));
    let before = ask_it();
    assert!(!before.is_empty());
    for (exact_max, is_near) in [(EXACT_MAX, true), (FEW, false)] {
        settings.exact_max = exact_max;
        write(&settings, &base).unwrap();
        assert!(wait(served.base.refresh()).unwrap(), "{exact_max}");
        assert_eq!(ask_it(), before, "{exact_max}");
        until(|| {
            assert_eq!(ask_it(), before, "{exact_max}");
            !is_near || searches(&settings) > 0
        });
    }
    // Another model has vectors of another length: the index over the former ones has nothing in it any more.
    settings.exact_max = EXACT_MAX;
    write(&settings, &base).unwrap();
    let other = index_records(records(FEW), &Clustered::options(32));
    assert!(write(&settings, &other).unwrap().indexed);
    assert_eq!(indexes(&settings), "passages_near_32");
    let without = index_records(records(FEW), &Options::default());
    assert!(!write(&settings, &without).unwrap().indexed);
    assert_eq!(indexes(&settings), "");
}

/// A build that was ended half-way leaves the base without its index, or with one that is no good.
#[test]
fn an_index_that_was_never_finished_is_made_again_and_searched_by_nobody() {
    if !is_there() {
        return;
    }
    const FEW: usize = 300;
    let (base, options) = base(FEW);
    let mut settings = settings(address());
    settings.exact_max = FEW;
    write(&settings, &base).unwrap();
    settings.exact_max = EXACT_MAX;

    // A process that is writing vectors lets no other build, and one that waits for that is ended.
    let name = format!("passages_near_{DIMENSION}");
    let (client, writer) = wait(async {
        let address = address();
        let connecting = tokio_postgres::connect(&address, tokio_postgres::NoTls);
        let (client, connection) = connecting.await.unwrap();
        (client, tokio::spawn(connection))
    });
    let schema = &settings.schema;
    let begin = format!("BEGIN; LOCK TABLE {schema}.passages IN ROW EXCLUSIVE MODE");
    wait(client.batch_execute(&begin)).unwrap();
    let end = format!(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks \
         WHERE relation = '{schema}.passages'::regclass AND NOT granted"
    );
    std::thread::scope(|scope| {
        let builder = scope.spawn(|| write(&settings, &base));
        until(|| {
            assert!(!builder.is_finished(), "nobody builds");
            !wait(client.query(&end, &[])).unwrap().is_empty()
        });
        let error = builder.join().unwrap().unwrap_err();
        assert!(matches!(error, PostgresError::Unreachable(_)), "{error}");
    });
    wait(client.batch_execute("ROLLBACK")).unwrap();
    assert_eq!(indexes(&settings), "");
    let served = open(&settings, &options);
    let ask_it = || found(&served.base, request("question 7"));
    let before = ask_it();
    assert!(!before.is_empty());

    // One that was made beside writers and broke off stays, and is not valid.
    let broken = format!("CREATE UNIQUE INDEX CONCURRENTLY {name} ON {schema}.passages ((0))");
    wait(client.batch_execute(&broken)).unwrap_err();
    let is_there = format!("SELECT to_regclass('{name}') IS NOT NULL");
    assert!(ask::<bool>(&settings, &is_there));
    assert_eq!(indexes(&settings), "");
    let again = open(&settings, &options);
    assert_eq!(found(&again.base, request("question 7")), before);
    assert_eq!(searches(&settings), 0);

    assert!(write(&settings, &base).unwrap().indexed);
    assert_eq!(indexes(&settings), name);
    assert!(wait(served.base.refresh()).unwrap());
    until(|| {
        assert_eq!(ask_it(), before);
        searches(&settings) > 0
    });
    writer.abort();
}
