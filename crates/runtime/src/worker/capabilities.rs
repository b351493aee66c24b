//! The requests that a worker may make within a call, by the names of its protocol: the capabilities of the call's context, and
//! nothing else. Knows no process.

use super::wire::{INVALID_PARAMS, METHOD_NOT_FOUND, REFUSED, RpcError};
use super::{ConnectionGrants, Grants};
use base64_simd::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use windlass_contract::handler::{
    Block, CapabilityFuture, ConnectionError, Context, FetchError, GetRequest, Hit, HttpRequest,
    KnowledgeError, OutboxClosed, Record, Redirects, SearchRequest,
};

type CapabilityAnswer = Result<Value, RpcError>;

/// Shows a piece of a result.
pub(super) const OUTPUT: &str = "output";
/// The error for a call that was cancelled, or whose time is up.
pub(super) const NOBODY_WAITS: &str = "nobody waits for the call any more";

/// Results of a search for which the handler gives no number.
const TOP_K: usize = 5;
/// The highest number that the handler may give.
const TOP_K_MAX: usize = 50;

#[derive(Deserialize)]
struct Progress {
    message: String,
    fraction: Option<f64>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Message {
    message: Value,
}

#[derive(Deserialize)]
struct Audit {
    event: String,
    #[serde(default)]
    data: Value,
}

#[derive(Deserialize)]
struct Emit {
    name: String,
    #[serde(default)]
    payload: Value,
}

fn read<T: DeserializeOwned>(params: &RawValue) -> Result<T, RpcError> {
    serde_json::from_str(params.get()).map_err(|error| {
        RpcError::new(
            INVALID_PARAMS,
            format!("the parameters do not fit: {error}"),
        )
    })
}

/// Takes a notification of a call.
pub(super) fn tell(context: &Context, method: &str, params: &RawValue) -> Result<(), RpcError> {
    let said = match method {
        "progress" => {
            let Progress { message, fraction } = read(params)?;
            context.progress(message, fraction)
        }
        OUTPUT => {
            let Output { data } = read(params)?;
            if context.cancellation.is_cancelled() {
                return Err(RpcError::named("CLOSED", NOBODY_WAITS));
            }
            context.output(data)
        }
        "messaging.send" => {
            let Message { message } = read(params)?;
            context.send_message(message)
        }
        "audit.log" => {
            let Audit { event, data } = read(params)?;
            context.audit(event, data)
        }
        "events.emit" => {
            let Emit { name, payload } = read(params)?;
            context.emit(name, payload)
        }
        _ => return Err(unknown(method)),
    };
    said.map_err(closed)
}

/// Whether a notification that was refused, or that belongs to no call, is the program's fault. A piece of a result may come
/// after its call's end, or find no room: the call goes on without it.
pub(super) fn is_fault(method: &str, said: Option<&Result<(), RpcError>>) -> bool {
    match said {
        None => method != OUTPUT,
        Some(Ok(())) => false,
        Some(Err(error)) => method != OUTPUT || error.code == INVALID_PARAMS,
    }
}

fn closed(closed: OutboxClosed) -> RpcError {
    RpcError::named("CLOSED", closed.to_string())
}

/// Takes notifications that were sent as requests, and answers whether they were taken. `None` for every other method.
pub(super) fn answer_at_once(
    context: &Context,
    method: &str,
    params: &RawValue,
) -> Option<CapabilityAnswer> {
    let is_said = matches!(
        method,
        "progress" | OUTPUT | "messaging.send" | "audit.log" | "events.emit"
    );
    is_said.then(|| tell(context, method, params).map(|()| Value::Null))
}

/// Begins a call's request, which waits for its answer until the call's time is up. A call of another tool is made at once, so
/// that such calls keep the order of their requests; the future only waits.
pub(super) fn begin(
    context: Context,
    method: &str,
    params: &RawValue,
) -> CapabilityFuture<CapabilityAnswer> {
    let left = context.left_ms();
    let late = || RpcError::named("TIMEOUT", "the call's time is up");
    if left == 0 {
        return Box::pin(std::future::ready(Err(late())));
    }
    let asked: CapabilityFuture<CapabilityAnswer> = match method {
        "callTool" => call_tool(&context, params),
        _ => {
            let (method, params) = (method.to_owned(), params.to_owned());
            Box::pin(async move { ask(&context, &method, &params).await })
        }
    };
    Box::pin(async move {
        let answered = tokio::time::timeout(Duration::from_millis(left), asked).await;
        answered.unwrap_or_else(|_| Err(late()))
    })
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// A secret that the configuration grants the call's tool in plain text.
pub(super) fn secret(context: &Context, granted: &Grants, params: &RawValue) -> CapabilityAnswer {
    let Named { name } = read(params)?;
    let tool = &context.tool.id;
    let of_tool = granted.get(tool);
    match of_tool.and_then(|secrets| secrets.get(&name)) {
        Some(secret) => Ok(secret.expose().as_str().into()),
        None => {
            let shown: String = name.chars().take(60).collect();
            Err(RpcError::named(
                "NOT_ALLOWED",
                format!(
                    "the tool {tool} is granted no secret {shown:?}: name it in `secrets` of [tools.{tool}] in the configuration, and set WINDLASS_SECRET_ and its name"
                ),
            ))
        }
    }
}

/// An access token of the call's own user, for a connection that the configuration grants the call's tool.
pub(super) fn connection(
    context: &Context,
    granted: &ConnectionGrants,
    params: &RawValue,
) -> CapabilityFuture<CapabilityAnswer> {
    let refuse = |error: RpcError| -> CapabilityFuture<CapabilityAnswer> {
        Box::pin(std::future::ready(Err(error)))
    };
    let Named { name } = match read(params) {
        Ok(named) => named,
        Err(error) => return refuse(error),
    };
    let tool = &context.tool.id;
    if !granted.get(tool).is_some_and(|names| names.contains(&name)) {
        let shown: String = name.chars().take(60).collect();
        return refuse(RpcError::named(
            "NOT_ALLOWED",
            format!(
                "the tool {tool} is granted no connection {shown:?}: name it in `connections` of [tools.{tool}] in the configuration"
            ),
        ));
    }
    let asked = context.capabilities.connections();
    let asked = asked.token(context.token_request(&name, None));
    let left = Duration::from_millis(context.left_ms());
    Box::pin(async move {
        match tokio::time::timeout(left, asked).await {
            Ok(Ok(token)) => Ok(token.into_inner().into()),
            Ok(Err(error)) => Err(unconnected(&error)),
            Err(_) => Err(RpcError::named("TIMEOUT", "the call's time is up")),
        }
    })
}

/// The error for a missing token. A handler that does not catch it fails with the error of the tool's contract.
fn unconnected(error: &ConnectionError) -> RpcError {
    let report = error.report();
    RpcError {
        code: REFUSED,
        message: report.message,
        data: Some(json!({
            "name": "ToolError",
            "code": report.kind,
            "type": report.kind,
            "retryable": report.retryable,
            "suggestion": report.suggestion,
            "details": report.details,
        })),
    }
}

#[derive(Deserialize)]
struct CallTool {
    id: String,
    #[serde(default)]
    args: Map<String, Value>,
}

fn call_tool(context: &Context, params: &RawValue) -> CapabilityFuture<CapabilityAnswer> {
    let asked: CallTool = match read(params) {
        Ok(asked) => asked,
        Err(error) => return Box::pin(std::future::ready(Err(error))),
    };
    let answer = context.call_tool(asked.id, Value::Object(asked.args));
    Box::pin(async move {
        let form = serde_json::to_value(answer.await);
        form.map_err(|error| RpcError::named("UNAVAILABLE", error.to_string()))
    })
}

async fn ask(context: &Context, method: &str, params: &RawValue) -> CapabilityAnswer {
    match method {
        "kb.search" => search(context, read(params)?).await,
        "kb.get" => get(context, read(params)?).await,
        "blocks.add" => block(context, read(params)?).await,
        "http.fetch" => fetch(context, read(params)?).await,
        _ => Err(unknown(method)),
    }
}

fn unknown(method: &str) -> RpcError {
    let shown: String = method.chars().take(60).collect();
    RpcError::new(
        METHOD_NOT_FOUND,
        format!("there is no capability {shown:?} in this program"),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    query: String,
    namespace: Option<String>,
    filters: Option<Filters>,
    top_k: Option<usize>,
    include_snippets: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Filters {
    #[serde(rename = "type")]
    record_type: Option<String>,
    tags: Option<Vec<String>>,
    #[serde(alias = "dateRange")]
    date_range: Option<DateRange>,
}

#[derive(Default, Deserialize)]
struct DateRange {
    start: Option<String>,
    end: Option<String>,
}

async fn search(context: &Context, asked: Search) -> CapabilityAnswer {
    let filters = asked.filters.unwrap_or_default();
    let dates = filters.date_range.unwrap_or_default();
    let request = SearchRequest {
        query: asked.query,
        namespace: asked.namespace,
        record_type: filters.record_type,
        tags: filters.tags.unwrap_or_default(),
        updated_from: dates.start,
        updated_to: dates.end,
        top_k: asked.top_k.unwrap_or(TOP_K).clamp(1, TOP_K_MAX),
        snippets: asked.include_snippets.unwrap_or(true),
        reader: context.caller.reader(),
        mode: context.mode,
    };
    let found = context.capabilities.knowledge().search(request).await;
    let hits = found.map_err(knowledge_error)?.hits;
    if !hits.is_empty() {
        context.mark_external().map_err(closed)?;
    }
    Ok(hits.iter().map(hit_form).collect())
}

#[derive(Deserialize)]
struct Get {
    id: String,
    namespace: Option<String>,
}

async fn get(context: &Context, asked: Get) -> CapabilityAnswer {
    let request = GetRequest {
        id: asked.id,
        namespace: asked.namespace,
        reader: context.caller.reader(),
    };
    let found = context.capabilities.knowledge().get(request).await;
    Ok(match found.map_err(knowledge_error)? {
        Ok(record) => {
            context.mark_external().map_err(closed)?;
            record_form(&record)
        }
        Err(_) => Value::Null,
    })
}

fn hit_form(hit: &Hit) -> Value {
    let mut form = record_form(&hit.record);
    if let Value::Object(object) = &mut form {
        object.remove("body");
        object.insert("score".to_owned(), hit.score.into());
        let snippet = hit.snippet.as_ref().map(|snippet| snippet.text.as_str());
        object.insert("snippet".to_owned(), snippet.into());
    }
    form
}

fn record_form(record: &Record) -> Value {
    json!({
        "id": record.id,
        "namespace": record.namespace,
        "type": record.record_type,
        "title": record.title,
        "aliases": record.aliases,
        "body": record.body,
        "tags": record.tags,
        "url": record.url,
        "sourceType": record.source_type,
        "sourcePath": record.source_path,
        "lastUpdated": record.last_updated,
        "metadata": record.metadata,
    })
}

fn knowledge_error(error: KnowledgeError) -> RpcError {
    let name = match &error {
        KnowledgeError::UnknownNamespace { .. } => "INVALID_NAMESPACE",
        KnowledgeError::InvalidFilter(_) => "INVALID_FILTER",
        KnowledgeError::Unavailable(_) => "TIMEOUT",
    };
    RpcError::named(name, error.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddBlock {
    /// Milliseconds since the Unix epoch.
    until: u64,
    #[serde(default)]
    farewell_message: String,
}

/// Blocks the call's own user. No other user can be named.
async fn block(context: &Context, asked: AddBlock) -> CapabilityAnswer {
    let blocks = context.capabilities.blocks();
    let block = Block {
        user_id: context.caller.user_id.clone(),
        until_unix_ms: asked.until,
        farewell_message: asked.farewell_message,
    };
    let stored = tokio::task::spawn_blocking(move || blocks.block(block)).await;
    match stored {
        Ok(Ok(())) => Ok(Value::Null),
        Ok(Err(error)) => Err(RpcError::named("UNAVAILABLE", error.to_string())),
        Err(_) => Err(RpcError::named(
            "UNAVAILABLE",
            "storing the block broke off",
        )),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fetch {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    /// The body's bytes in base64, in place of a text.
    body_base64: Option<String>,
    timeout_ms: Option<u64>,
    redirect: Option<Redirect>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Redirect {
    Follow,
    Manual,
}

async fn fetch(context: &Context, asked: Fetch) -> CapabilityAnswer {
    let body = match (asked.body, asked.body_base64) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(encoded)) => STANDARD
            .decode_to_vec(encoded.as_bytes())
            .map_err(|_| RpcError::new(INVALID_PARAMS, "`bodyBase64` is no base64"))?,
        (None, None) => Vec::new(),
    };
    let request = HttpRequest {
        method: asked.method.unwrap_or_else(|| "GET".to_owned()),
        url: asked.url,
        headers: asked.headers.into_iter().collect(),
        body,
        timeout_ms: asked.timeout_ms.unwrap_or(u64::MAX),
        redirects: match asked.redirect {
            Some(Redirect::Manual) => Redirects::Keep,
            Some(Redirect::Follow) | None => Redirects::Follow,
        },
    };
    let answer = context.fetch(request).await.map_err(|error| {
        let name = match &error {
            FetchError::Refused(_) => "NOT_ALLOWED",
            FetchError::Unreachable(_) => "UNREACHABLE",
            FetchError::Unanswered(_) => "UNANSWERED",
        };
        RpcError::named(name, error.to_string())
    })?;
    let (body, encoded, problem) = match answer.body {
        Ok(body) => match String::from_utf8(body) {
            Ok(text) => (Some(text), None, None),
            Err(bytes) => (
                None,
                Some(STANDARD.encode_to_string(bytes.as_bytes())),
                None,
            ),
        },
        Err(incomplete) => (None, None, Some(incomplete.problem)),
    };
    Ok(json!({
        "status": answer.status,
        "url": answer.url,
        "headers": answer.headers,
        "body": body,
        "bodyBase64": encoded,
        "bodyProblem": problem,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_comes_too_late_or_finds_no_room_is_no_fault() {
        let unread = || RpcError::new(INVALID_PARAMS, "the parameters do not fit");
        for (method, said, expected) in [
            (OUTPUT, None, false),
            (OUTPUT, Some(Ok(())), false),
            (OUTPUT, Some(Err(closed(OutboxClosed))), false),
            (OUTPUT, Some(Err(unread())), true),
            ("progress", None, true),
            ("progress", Some(Ok(())), false),
            ("progress", Some(Err(closed(OutboxClosed))), true),
            ("progress", Some(Err(unread())), true),
        ] {
            assert_eq!(
                is_fault(method, said.as_ref()),
                expected,
                "{method} {said:?}"
            );
        }
    }
}
