//! One request to a text model outside any turn, and its whole answer. Knows no session.

use super::model::{TextModel, TextTools, no_answer, unreachable};
use crate::transport::http::HttpResponse;
use hyper::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use windlass_provider::answer::{AnswerLimits, ModelAnswer};
use windlass_session::model::ModelEvent;

/// Bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Pause before the one retry.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks once, and once more after a failure that may pass. The events are those of the answer: words, external content and usage.
pub(crate) async fn ask(
    model: Arc<TextModel>,
    body: Vec<u8>,
    answer_number: u32,
    limits: AnswerLimits,
    tools: &TextTools,
) -> (ModelAnswer, Vec<ModelEvent>) {
    let body = Bytes::from(body);
    let first = try_once(&model, body.clone(), answer_number, limits, tools).await;
    if !first.0.is_empty() || !first.0.ending.is_worth_another_try() {
        return first;
    }
    tokio::time::sleep(PAUSE).await;
    try_once(&model, body, answer_number, limits, tools).await
}

async fn try_once(
    model: &Arc<TextModel>,
    body: Bytes,
    answer_number: u32,
    limits: AnswerLimits,
    tools: &TextTools,
) -> (ModelAnswer, Vec<ModelEvent>) {
    let mut events = Vec::new();
    let path = model.path();
    let (status, headers, mut body) = match model.client.post(&path, body).await {
        Err(error) => return (no_answer(unreachable(&error)), events),
        Ok(HttpResponse {
            status,
            headers,
            body,
        }) => (status, headers, body),
    };
    if status != 200 {
        let said = body.read_up_to(REFUSAL_BYTES_MAX).await;
        return (model.refusal(status, &headers, &said), events);
    }
    let mut decoder = model.decoder(answer_number, limits, tools);
    while !decoder.is_finished()
        && let Some(Ok(bytes)) = body.next().await
    {
        decoder.push(&bytes, &mut events);
    }
    if decoder.is_finished() {
        body.leave();
    }
    let mut answer = decoder.finish(model, &mut events);
    events.extend(answer.usage.take().map(|usage| model.used(usage)));
    (answer, events)
}
