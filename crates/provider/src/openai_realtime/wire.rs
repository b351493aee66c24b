//! The server's events as they are written. Lenient: what is missing is missing, and fields of no interest are skipped.

use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
pub(super) struct ServerEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) response_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) item_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) output_index: Option<u64>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) transcript: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) item: Option<Item<'a>>,
    #[serde(default, borrow)]
    pub(super) response: Option<Response<'a>>,
    #[serde(default, borrow)]
    pub(super) session: Option<Session<'a>>,
    #[serde(default, borrow)]
    pub(super) error: Option<ServerError<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Session<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(rename = "type", default, borrow)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) call_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) arguments: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) status_details: Option<StatusDetails<'a>>,
    #[serde(default, borrow)]
    pub(super) output: Option<Vec<Item<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

#[derive(Deserialize)]
pub(super) struct StatusDetails<'a> {
    #[serde(default, borrow)]
    pub(super) reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) error: Option<ServerError<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ServerError<'a> {
    #[serde(rename = "type", default, borrow)]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) code: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) param: Option<Cow<'a, str>>,
    /// The event of ours that it is about.
    #[serde(default, borrow)]
    pub(super) event_id: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) total_tokens: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) input_token_details: Option<InputTokens>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InputTokens {
    pub(super) cached_tokens: u64,
}
