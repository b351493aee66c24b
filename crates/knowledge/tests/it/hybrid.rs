//! Words and meaning together: how answers say what they are, filters, patience, and who may read what.

use crate::engines::each_engine;
use crate::support::{Fakes, WordVectors, get, now, record, request, search};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_contract::handler::{
    CapabilityFuture, KnowledgeError, KnowledgeReader, Record, SearchRequest,
};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;
use windlass_contract::rights::{Rights, Role};
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::embed::{
    EmbedError, HttpAnswer, HttpRequest, Protocol, RemoteModel, RemoteSettings, Transport,
};
use windlass_knowledge::embed::{Embedder, Purpose};
use windlass_knowledge::{
    Access, EmbedderPresence, KnowledgeBase, Machine, Observer, Options, Readers, RecordsError,
};

fn records() -> Vec<Record> {
    vec![
        record("doc:hull", "The hull", "Oak planks and greenheart."),
        record("doc:sails", "The sails", "Canvas on three masts."),
        Record {
            namespace: "studio".to_owned(),
            ..record("doc:engine", "The engine", "Steam at first, diesel later.")
        },
    ]
}

fn options(embedder: impl Embedder + 'static) -> Options {
    Options {
        embedder: EmbedderPresence::Present(Arc::new(embedder)),
        ..Options::default()
    }
}

#[test]
fn an_answer_says_how_it_was_found_and_with_what_model() {
    each_engine(|engine| {
        let base = engine.base_with(records(), &options(WordVectors::new()));
        let stats = base.stats();
        assert_eq!((stats.retrieval, stats.vectors), ("hybrid", 3));
        let answer = search(&base, request("oak planks")).unwrap();
        assert_eq!(answer.retrieval, "hybrid");
        assert_eq!(answer.model.as_deref(), Some("words"));
        assert_eq!(answer.degraded, None);
        assert_eq!(answer.hits[0].record.id, "doc:hull");
        assert!(
            answer
                .hits
                .iter()
                .all(|hit| hit.record.namespace == "public")
        );
        assert!(
            answer
                .hits
                .iter()
                .all(|hit| (0.0..=1.0).contains(&hit.score))
        );
    });
}

#[test]
fn a_base_tells_its_numbers() {
    each_engine(|engine| {
        let base = engine.base_with(records(), &options(WordVectors::new()));
        assert_eq!(
            serde_json::to_value(base.stats()).unwrap(),
            serde_json::json!({
                "records": 3,
                "byNamespace": {"public": 2, "studio": 1},
                "byType": {"doc": 3},
                "retrieval": "hybrid",
                "model": "words",
                "vectors": 3
            })
        );
    });
}

#[test]
fn filters_hold_for_meaning_as_for_words() {
    each_engine(|engine| {
        let base = engine.base_with(records(), &options(WordVectors::new()));
        let studio = SearchRequest {
            namespace: Some("studio".to_owned()),
            ..request("oak planks of the hull")
        };
        let found = search(&base, studio).unwrap();
        assert!(found.hits.iter().all(|hit| hit.record.id == "doc:engine"));
        let none = SearchRequest {
            record_type: Some("person".to_owned()),
            ..request("oak")
        };
        assert!(search(&base, none).unwrap().hits.is_empty());
    });
}

#[test]
fn without_a_vector_in_time_words_answer_and_say_so() {
    each_engine(|engine| {
        for (embedder, degraded) in [
            (
                WordVectors {
                    is_stuck: true,
                    ..WordVectors::new()
                },
                "dense_timeout",
            ),
            (
                WordVectors {
                    queries_fail: true,
                    ..WordVectors::new()
                },
                "dense_unavailable",
            ),
        ] {
            let options = Options {
                machine: Some(Arc::new(Fakes)),
                ..options(embedder)
            };
            let base = engine.base_with(records(), &options);
            for mode in [Mode::Voice, Mode::Text] {
                let answer = search(
                    &base,
                    SearchRequest {
                        mode,
                        ..request("oak")
                    },
                )
                .unwrap();
                assert_eq!(answer.retrieval, "lexical");
                assert_eq!(
                    (answer.model, answer.degraded.as_deref()),
                    (None, Some(degraded))
                );
                assert_eq!(answer.hits[0].record.id, "doc:hull");
            }
        }
    });
}

#[test]
fn a_question_is_embedded_once() {
    each_engine(|engine| {
        let embedder = WordVectors::new();
        let asked = embedder.queries.clone();
        let base = engine.base_with(records(), &options(embedder));
        for query in ["oak", "canvas", "oak", "oak"] {
            search(&base, request(query)).unwrap();
        }
        assert_eq!(*asked.lock().unwrap(), ["oak", "canvas"]);
    });
}

#[test]
fn a_misheard_name_is_put_right_before_the_question_is_embedded() {
    each_engine(|engine| {
        let embedder = WordVectors::new();
        let asked = embedder.queries.clone();
        let people = vec![
            record("person:otto", "Otto Sverdrup", "A captain."),
            record("doc:b", "Ships", "Ships."),
        ];
        let base = engine.base_with(people, &options(embedder));
        for query in [
            "who was Otto Sver drop?",
            "who was OttoSverdrup?",
            "who was Otto Sverdropp?",
        ] {
            let answer = search(&base, request(query)).unwrap();
            assert_eq!(answer.hits[0].record.id, "person:otto", "{query}");
        }
        assert_eq!(*asked.lock().unwrap(), ["who was Otto Sverdrup?"]);
    });
}

#[test]
fn a_namespace_is_read_by_those_it_was_given_to_and_does_not_exist_for_others() {
    each_engine(|engine| {
        let role = |name: &str| Role::parse(name).unwrap();
        let user = |name: &str| KnowledgeReader {
            user_id: UserId::new(name),
            rights: match name {
                "anonymous" => Rights::Anonymous,
                "signed-in-nurse" => Rights::signed_in([role("nurse")]),
                _ => Rights::signed_in([]),
            },
        };
        let rules =
            |readers: Readers| Access::new(BTreeMap::from([("studio".to_owned(), readers)]));
        let owners = Readers::Owners(BTreeSet::from([UserId::new("signed-in-owner")]));
        let nurses = Readers::Roles(BTreeSet::from([role("nurse"), role("doctor")]));
        for (readers, name, may_read) in [
            (Readers::Everybody, "anonymous", true),
            (Readers::SignedIn, "anonymous", false),
            (Readers::SignedIn, "signed-in-other", true),
            (owners.clone(), "signed-in-other", false),
            (nurses.clone(), "anonymous", false),
            (nurses.clone(), "signed-in-owner", false),
            (nurses, "signed-in-nurse", true),
            (owners, "signed-in-owner", true),
        ] {
            let options = Options {
                access: rules(readers),
                ..Options::default()
            };
            let base = engine.base_with(records(), &options);
            let studio = SearchRequest {
                namespace: Some("studio".to_owned()),
                reader: user(name),
                ..request("engine")
            };
            let found = search(&base, studio.clone()).map(|answer| answer.hits.len());
            let unknown = KnowledgeError::UnknownNamespace {
                name: "studio".to_owned(),
                readable: vec!["public".to_owned()],
            };
            assert_eq!(found, if may_read { Ok(1) } else { Err(unknown) }, "{name}");
            let got = now(windlass_contract::handler::Knowledge::get(
                &base,
                windlass_contract::handler::GetRequest {
                    id: "doc:engine".to_owned(),
                    namespace: None,
                    reader: user(name),
                },
            ));
            match (got.unwrap(), may_read) {
                (Ok(record), true) => assert_eq!(record.id, "doc:engine"),
                (Err(near), false) => assert!(!near.contains(&"doc:engine".to_owned()), "{near:?}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
            // What is everybody's stays so.
            assert!(get(&base, "doc:hull", None).unwrap().is_ok());
        }
    });
}

struct Service {
    answer: Result<HttpAnswer, String>,
    asked: std::sync::Mutex<Vec<HttpRequest>>,
}

impl Transport for Service {
    fn post(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, String>> {
        self.asked.lock().unwrap().push(request);
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

fn remote(protocol: Protocol, status: u16, body: &str) -> (Arc<Service>, RemoteModel) {
    let service = Arc::new(Service {
        answer: Ok(HttpAnswer {
            status,
            body: body.as_bytes().to_vec(),
            retry_after_ms: None,
        }),
        asked: std::sync::Mutex::default(),
    });
    let settings = RemoteSettings {
        protocol,
        address: "https://example.org/v1/".to_owned(),
        model: "m".to_owned(),
        dimension: 2,
    };
    let model = RemoteModel::new(settings, service.clone());
    (service, model)
}

fn embed(model: &RemoteModel) -> Result<Vec<Vec<f32>>, EmbedError> {
    now(model.embed(vec!["a".to_owned(), "b".to_owned()], Purpose::Query))
}

#[test]
fn services_are_asked_in_their_own_protocol() {
    let (service, model) = remote(
        Protocol::OpenAi,
        200,
        r#"{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}], "usage": {}}"#,
    );
    assert_eq!(embed(&model).unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    let asked = service.asked.lock().unwrap().remove(0);
    assert_eq!(asked.path, "/embeddings");
    let body: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"model": "m", "input": ["a", "b"], "dimensions": 2, "encoding_format": "float"})
    );

    let (service, model) = remote(
        Protocol::Gemini,
        200,
        r#"{"embeddings": [{"values": [1, 0]}, {"values": [0, 5]}]}"#,
    );
    assert_eq!(embed(&model).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    let asked = service.asked.lock().unwrap().remove(0);
    assert_eq!(asked.path, "/models/m:batchEmbedContents");
    let key = Sensitive("secret".to_owned());
    for (protocol, name, value) in [
        (Protocol::OpenAi, "authorization", "Bearer secret"),
        (Protocol::Gemini, "x-goog-api-key", "secret"),
    ] {
        let header = protocol.authorization(&key);
        assert_eq!((header.0, header.1.expose().as_str()), (name, value));
        assert!(!format!("{header:?}").contains("secret"));
    }
    let body: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(
        body["requests"][1],
        serde_json::json!({
            "model": "models/m",
            "content": {"parts": [{"text": "b"}]},
            "taskType": "RETRIEVAL_QUERY",
            "outputDimensionality": 2
        })
    );
}

#[test]
fn a_service_that_asks_for_patience_is_given_it() {
    for (after_ms, waits, is_embedded) in [
        (None, &[500, 1_000][..], true),
        (Some(200), &[500, 1_000], true),
        (Some(7_000), &[7_000, 7_000], true),
        (Some(86_400_000), &[], false),
    ] {
        let service = Arc::new(Patient {
            refusals: AtomicUsize::new(2),
            after_ms,
        });
        let settings = RemoteSettings {
            protocol: Protocol::OpenAi,
            address: "https://example.org/v1".to_owned(),
            model: "m".to_owned(),
            dimension: 2,
        };
        let machine = Arc::new(Waits::default());
        let options = Options {
            machine: Some(machine.clone()),
            ..options(RemoteModel::new(settings, service))
        };
        let made = index_one(record("doc:a", "A", "a"), &options);
        assert_eq!(made.is_ok(), is_embedded, "{after_ms:?}");
        assert_eq!(*machine.0.lock().unwrap(), waits, "{after_ms:?}");
    }
}

/// Refuses some times, then answers.
struct Patient {
    refusals: AtomicUsize,
    after_ms: Option<u64>,
}

impl Transport for Patient {
    fn post(&self, _request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, String>> {
        let left = self.refusals.load(Ordering::Relaxed);
        self.refusals
            .store(left.saturating_sub(1), Ordering::Relaxed);
        let body = r#"{"data": [{"index": 0, "embedding": [1, 0]}]}"#;
        Box::pin(std::future::ready(Ok(HttpAnswer {
            status: if left > 0 { 429 } else { 200 },
            body: body.as_bytes().to_vec(),
            retry_after_ms: self.after_ms,
        })))
    }
}

/// A machine whose time flies, and which remembers how long it was waited for.
#[derive(Default)]
struct Waits(std::sync::Mutex<Vec<u64>>);

impl Machine for Waits {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }

    fn after(&self, milliseconds: u64) -> CapabilityFuture<()> {
        self.0.lock().unwrap().push(milliseconds);
        Box::pin(std::future::ready(()))
    }
}

fn index_one(record: Record, options: &Options) -> Result<(), RecordsError> {
    let mut observer = Observer {
        clock_ms: &|| 0,
        progress: &mut |_| (),
    };
    let indexing = KnowledgeBase::index_records(vec![record], options, &mut observer);
    now(indexing).map(|_| ())
}

#[test]
fn what_a_service_answers_badly_is_told_without_what_it_says() {
    let transient: fn(&EmbedError) -> bool = |error| matches!(error, EmbedError::Transient(_));
    let auth: fn(&EmbedError) -> bool = |error| matches!(error, EmbedError::Auth(_));
    let permanent: fn(&EmbedError) -> bool = |error| matches!(error, EmbedError::Permanent(_));
    for (status, body, is_kind) in [
        (401, "wrong key: secret", auth),
        (403, "", auth),
        (429, "slow down", transient),
        (503, "", transient),
        (400, "bad text: secret", permanent),
        (200, "no JSON: secret", permanent),
        (200, r#"{"data": []}"#, permanent),
        (
            200,
            r#"{"data": [{"index": 0, "embedding": [1, 1]}, {"index": 0, "embedding": [1, 1]}]}"#,
            permanent,
        ),
        (
            200,
            r#"{"data": [{"index": 1, "embedding": [1, 1]}, {"index": 2, "embedding": [1, 1]}]}"#,
            permanent,
        ),
        (
            200,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}"#,
            permanent,
        ),
        (
            200,
            r#"{"data": [{"index": 0, "embedding": [1, 1e39]}, {"index": 1, "embedding": [1, 1]}]}"#,
            permanent,
        ),
    ] {
        let (_, model) = remote(Protocol::OpenAi, status, body);
        let error = embed(&model).unwrap_err();
        assert!(is_kind(&error), "{status} {body}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn a_snippet_without_any_of_the_words_is_of_the_closest_passage() {
    // Words without meaning are in no index, and the vectors of these tests know them.
    let wanted = "About whom would those be?";
    let filler = "Oak planks lie quiet. ".repeat(120);
    let body = format!("{filler}\n# Middle\n{wanted}\n# End\n{filler}");
    let options = options(WordVectors::new());
    let base = crate::support::index_records(vec![record("doc:a", "Planks", &body)], &options);
    let answer = search(&base, request("whom would those")).unwrap();
    let snippet = answer.hits[0].snippet.clone().unwrap();
    assert!(snippet.text.starts_with(wanted), "{snippet:?}");
    assert_eq!(snippet.text, body[snippet.start..snippet.end]);
    let answer = search(&base, request("oak")).unwrap();
    assert_eq!(answer.hits[0].snippet.as_ref().unwrap().start, 0);
}
