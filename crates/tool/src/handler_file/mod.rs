//! `handler.json`: a handler that is no code of ours. Read and judged when tools are compiled, like a schema; what is sent and
//! how an answer is read is pure. Knows no socket and no process.

mod answer;
mod read;
mod request;
mod template;

pub use answer::{Answered, status_failure, unanswered};
pub(crate) use read::{Judged, read};
pub use request::{Filling, Rendered, Unrenderable};

use crate::error::FailureKind;
use std::collections::{BTreeMap, BTreeSet};
use template::{BodyTemplate, Template};

/// What a `handler.json` says.
#[derive(Clone, Debug, PartialEq)]
pub enum HandlerFile {
    Http(Box<HttpHandler>),
    Webhook(Webhook),
    Process(ProcessHandler),
}

/// One HTTP request a call.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpHandler {
    pub request: HttpTemplate,
    /// The header that carries the effect's key; `Idempotency-Key` where none is named.
    pub idempotency_header: Option<String>,
    /// What is asked to find out what became of an effect.
    pub lookup: Option<HttpTemplate>,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A request with places for arguments in it.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpTemplate {
    pub(crate) method: String,
    /// Scheme, host and port, which hold no place.
    pub(crate) origin: String,
    /// Path and query.
    pub(crate) path: Template,
    pub(crate) query: Vec<(String, Template)>,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) body: Option<BodyTemplate>,
    /// The JSON pointer of the answer's part that is the call's data.
    pub(crate) result: Option<String>,
    /// By status, such as `404` or `5xx`.
    pub(crate) errors: BTreeMap<String, FailureKind>,
}

impl HttpTemplate {
    /// `https://host:port`: everywhere that its requests go.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// A signed message of Standard Webhooks to a service of the author's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub origin: String,
    /// The secret's name.
    pub secret: String,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A program of the author's own, which lives long and speaks JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessHandler {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub concurrency: usize,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
}

/// What the configuration lets handlers have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Programs of authors may run.
    pub processes: bool,
    /// The names of the secrets that there are.
    pub secrets: BTreeSet<String>,
}

impl HandlerFile {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Webhook(_) => "webhook",
            Self::Process(_) => "process",
        }
    }

    /// The names of the secrets that it needs.
    pub fn secrets(&self) -> BTreeSet<&str> {
        match self {
            Self::Http(http) => {
                let lookup = http.lookup.as_ref();
                let templates = std::iter::once(&http.request).chain(lookup);
                templates.flat_map(HttpTemplate::secrets).collect()
            }
            Self::Webhook(webhook) => BTreeSet::from([webhook.secret.as_str()]),
            Self::Process(_) => BTreeSet::new(),
        }
    }
}
