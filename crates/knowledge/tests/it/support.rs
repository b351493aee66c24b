//! What the tests share: running a capability's future, requests with defaults, short records.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use windlass_knowledge::KnowledgeBase;
use windlass_tool::handler::{
    GetRequest, Knowledge, KnowledgeError, Record, SearchAnswer, SearchRequest,
};
use windlass_tool::id::UserId;

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
