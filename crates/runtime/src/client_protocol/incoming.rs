//! The messages of a voice client. Everything in them is hostile until it has been checked here.

use super::{AUDIO_BYTES_MAX, TEXT_BYTES_MAX};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use windlass_contract::handler::Page;
use windlass_contract::id::CallNumber;
use windlass_contract::input::SentInput;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::ErrorCode;
use windlass_session::model::{HistoryEntry, Role};
use windlass_store::{QuestionNumber, standing_number};

/// Characters of an id that a client names.
const ID_CHARACTERS_MAX: usize = 128;
/// Entries of history; the newest are kept.
const HISTORY_ENTRIES_MAX: usize = 200;

/// The error for a call id in an unknown form.
pub const NO_CALL_ID: &str =
    "callId must be the id of a call as the server told it, such as \"call-3\"";

/// The error for an approval id in an unknown form.
pub const NO_APPROVAL_ID: &str = "approvalId must be the id of a standing approval as the server told it, such as \"approval-3\"";

/// One message of a client, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    Start(Start),
    /// PCM16 of the microphone.
    Audio(Vec<u8>),
    Text(Sensitive<String>),
    Image {
        mime_type: String,
        data: Sensitive<Arc<[u8]>>,
    },
    TurnComplete,
    Confirm(ConfirmAnswer),
    Interrupt,
    /// A request to stop one call.
    Cancel(CallNumber),
    /// A request to revoke a standing approval: the user is asked again.
    Revoke(QuestionNumber),
    PlaybackDone,
    Stop,
    Ping,
}

/// The form in which a client wants audio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AudioMode {
    #[default]
    Binary,
    /// Base64 in `audio` messages.
    Json,
}

/// The user's answer to a request for approval.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmAnswer {
    pub token: Sensitive<String>,
    pub approved: bool,
    /// The user's reason for a denial, as they wrote it.
    pub reason: Option<Sensitive<String>>,
    /// Whether the approval is to stand for calls with the same values.
    pub remember: bool,
    /// The user's input for the service of a tool that asks for it.
    pub input: Option<SentInput>,
}

/// A client's request for a session. Its rights are decided elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    pub user_id: Option<String>,
    /// The name of the zone in which the user lives, according to the client.
    pub time_zone: Option<String>,
    /// The page that the user is on, according to the client.
    pub page: Option<Page>,
    pub conversation_id: Option<String>,
    /// The token that resumes an earlier session.
    pub resume: Option<Sensitive<String>>,
    pub history: Vec<HistoryEntry>,
    pub pending_request: Option<Sensitive<String>>,
    pub audio: AudioMode,
}

/// The reason why a message is not taken; the session goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub code: ErrorCode,
    pub message: String,
}

impl Rejection {
    fn bad(message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::BadMessage,
            message: message.into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with a type")]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartBody {
    user_id: Option<String>,
    time_zone: Option<String>,
    page: Option<Page>,
    conversation_id: Option<String>,
    resume: Option<String>,
    conversation_history: Option<Vec<HistoryBody>>,
    pending_request: Option<String>,
    audio: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an entry with role and content")]
struct HistoryBody {
    role: RoleBody,
    content: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleBody {
    User,
    #[serde(alias = "model")]
    Assistant,
}

#[derive(Deserialize)]
struct AudioBody<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
struct TextBody {
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageBody<'a> {
    mime_type: String,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelBody {
    call_id: String,
}

#[derive(Deserialize)]
struct ConfirmBody {
    token: String,
    approved: bool,
    reason: Option<String>,
    #[serde(default)]
    remember: bool,
    #[serde(default)]
    content: Option<Sensitive<Value>>,
    #[serde(default)]
    cancelled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevokeBody {
    approval_id: String,
}

/// The input that an answer holds for the service that asks; `None` if it holds none.
pub fn sent_input(content: Option<Sensitive<Value>>, is_cancelled: bool) -> Option<SentInput> {
    let sent = SentInput {
        content: content.filter(|content| !content.expose().is_null()),
        is_cancelled,
    };
    (sent != SentInput::default()).then_some(sent)
}

/// Reads one text message. Unknown fields are ignored, so that newer clients are understood.
pub fn parse(text: &[u8]) -> Result<ClientMessage, Rejection> {
    // A list would pass for an object whose fields come in their order.
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(Rejection::bad(
            "the message is no object; write {\"type\": …} with its fields",
        ));
    }
    let tag = body::<Tag<'_>>(text, "the message");
    let has_image = tag.as_ref().is_ok_and(|tag| tag.kind == "image");
    if text.len() > TEXT_BYTES_MAX && !has_image {
        return Err(Rejection {
            code: ErrorCode::TooLarge,
            message: format!("text messages may have at most {TEXT_BYTES_MAX} bytes"),
        });
    }
    let tag = tag?;
    Ok(match tag.kind.as_ref() {
        "start" => ClientMessage::Start(start(body(text, "start")?)?),
        "audio" => {
            let audio: AudioBody<'_> = body(text, "audio")?;
            ClientMessage::Audio(decode_audio(&audio.data)?)
        }
        "text" => ClientMessage::Text(Sensitive(body::<TextBody>(text, "text")?.text)),
        "image" => image(&body(text, "image")?)?,
        "turn_complete" => ClientMessage::TurnComplete,
        "confirm" => {
            let confirm: ConfirmBody = body(text, "confirm")?;
            ClientMessage::Confirm(ConfirmAnswer {
                token: Sensitive(confirm.token),
                approved: confirm.approved,
                reason: confirm.reason.map(Sensitive),
                remember: confirm.remember,
                input: sent_input(confirm.content, confirm.cancelled),
            })
        }
        "interrupt" => ClientMessage::Interrupt,
        "cancel" => {
            let cancel: CancelBody = body(text, "cancel")?;
            let call = CallNumber::parse(&cancel.call_id);
            ClientMessage::Cancel(call.ok_or_else(|| Rejection::bad(NO_CALL_ID))?)
        }
        "revoke" => {
            let revoke: RevokeBody = body(text, "revoke")?;
            let approval = standing_number(&revoke.approval_id);
            ClientMessage::Revoke(approval.ok_or_else(|| Rejection::bad(NO_APPROVAL_ID))?)
        }
        "playback_done" => ClientMessage::PlaybackDone,
        "stop" => ClientMessage::Stop,
        "ping" => ClientMessage::Ping,
        other => {
            let shown: String = other.chars().take(64).collect();
            return Err(Rejection {
                code: ErrorCode::UnknownType,
                message: format!("there is no message type {shown:?}"),
            });
        }
    })
}

fn body<'a, T: Deserialize<'a>>(text: &'a [u8], name: &str) -> Result<T, Rejection> {
    serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            Rejection::bad(format!("{name} has not the expected form: {error}"))
        }
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => {
            Rejection::bad(format!("the message is not JSON: {error}"))
        }
    })
}

fn start(start: StartBody) -> Result<Start, Rejection> {
    let mut history = start.conversation_history.unwrap_or_default();
    history.retain(|entry| !entry.content.trim().is_empty());
    let surplus = history.len().saturating_sub(HISTORY_ENTRIES_MAX);
    history.drain(..surplus);
    Ok(Start {
        user_id: id(start.user_id, "userId")?,
        time_zone: id(start.time_zone, "timeZone")?,
        page: match start.page {
            Some(page) => page.checked().map_err(Rejection::bad)?,
            None => None,
        },
        conversation_id: id(start.conversation_id, "conversationId")?,
        resume: id(start.resume, "resume")?.map(Sensitive),
        history: history
            .into_iter()
            .map(|entry| HistoryEntry {
                role: match entry.role {
                    RoleBody::User => Role::User,
                    RoleBody::Assistant => Role::Assistant,
                },
                text: Sensitive(entry.content),
            })
            .collect(),
        pending_request: start
            .pending_request
            .filter(|request| !request.trim().is_empty())
            .map(Sensitive),
        audio: match start.audio.as_deref() {
            None | Some("binary") => AudioMode::Binary,
            Some("json") => AudioMode::Json,
            Some(_) => return Err(Rejection::bad("audio is neither \"binary\" nor \"json\"")),
        },
    })
}

/// An id that a client named; `None` for an empty one.
fn id(text: Option<String>, name: &str) -> Result<Option<String>, Rejection> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let is_good = text.chars().count() <= ID_CHARACTERS_MAX && !text.chars().any(char::is_control);
    if !is_good {
        return Err(Rejection::bad(format!(
            "{name} has more than {ID_CHARACTERS_MAX} characters, or control characters"
        )));
    }
    Ok(Some(text))
}

fn decode_audio(data: &str) -> Result<Vec<u8>, Rejection> {
    let too_long = || Rejection {
        code: ErrorCode::TooLarge,
        message: format!("audio has more than {AUDIO_BYTES_MAX} bytes"),
    };
    if data.len() / 4 * 3 > AUDIO_BYTES_MAX + 3 {
        return Err(too_long());
    }
    let audio = base64_simd::forgiving_decode_to_vec(data.as_bytes()).map_err(|_| Rejection {
        code: ErrorCode::BadAudio,
        message: "the audio's data is not base64".to_owned(),
    })?;
    // Padding lets a text of one or two more bytes have the same length.
    match audio.len() > AUDIO_BYTES_MAX {
        true => Err(too_long()),
        false => Ok(audio),
    }
}

fn image(image: &ImageBody<'_>) -> Result<ClientMessage, Rejection> {
    if !matches!(
        image.mime_type.as_str(),
        "image/jpeg" | "image/png" | "image/webp"
    ) {
        return Err(Rejection {
            code: ErrorCode::Unsupported,
            message: "images must be image/jpeg, image/png or image/webp".to_owned(),
        });
    }
    let data = base64_simd::forgiving_decode_to_vec(image.data.as_bytes())
        .map_err(|_| Rejection::bad("the image's data is not base64"))?;
    if data.is_empty() {
        return Err(Rejection::bad("the image has no data"));
    }
    Ok(ClientMessage::Image {
        mime_type: image.mime_type.clone(),
        data: Sensitive(data.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_type_is_read() {
        let start = Start {
            user_id: Some("ada".into()),
            time_zone: Some("Europe/Oslo".into()),
            page: Some(Page {
                url: Some(Sensitive("https://shop.example/cart".into())),
                title: None,
            }),
            conversation_id: Some("c1".into()),
            resume: Some(Sensitive("t".into())),
            history: vec![
                HistoryEntry {
                    role: Role::User,
                    text: Sensitive("Hi".into()),
                },
                HistoryEntry {
                    role: Role::Assistant,
                    text: Sensitive("Hello".into()),
                },
            ],
            pending_request: Some(Sensitive("Who built Fram?".into())),
            audio: AudioMode::Json,
        };
        for (text, expected) in [
            (
                r#"{"type":"start"}"#,
                ClientMessage::Start(Start::default()),
            ),
            (
                r#"{"type":"start","userId":"ada","timeZone":"Europe/Oslo","page":{"url":"https://shop.example/cart"},"conversationId":"c1","resume":"t","audio":"json",
                    "conversationHistory":[{"role":"user","content":"Hi"},{"role":"user","content":" \n"},{"role":"assistant","content":"Hello"}],
                    "pendingRequest":"Who built Fram?","clientVersion":3}"#,
                ClientMessage::Start(start),
            ),
            (
                r#"{"type":"start","userId":"","pendingRequest":" ","conversationHistory":null}"#,
                ClientMessage::Start(Start::default()),
            ),
            (
                r#"{"type":"audio","data":"AAEC/w=="}"#,
                ClientMessage::Audio(vec![0, 1, 2, 255]),
            ),
            (
                r#"{"text":"hé","type":"text"}"#,
                ClientMessage::Text(Sensitive("hé".into())),
            ),
            (
                r#"{"type":"image","mimeType":"image/png","data":"AQ=="}"#,
                ClientMessage::Image {
                    mime_type: "image/png".into(),
                    data: Sensitive(vec![1].into()),
                },
            ),
            (r#"{"type":"turn_complete"}"#, ClientMessage::TurnComplete),
            (
                r#"{"type":"confirm","token":"x","approved":false,"reason":"too dear"}"#,
                ClientMessage::Confirm(ConfirmAnswer {
                    token: Sensitive("x".into()),
                    approved: false,
                    reason: Some(Sensitive("too dear".into())),
                    remember: false,
                    input: None,
                }),
            ),
            (
                r#"{"type":"confirm","token":"x","approved":true}"#,
                ClientMessage::Confirm(ConfirmAnswer {
                    token: Sensitive("x".into()),
                    approved: true,
                    reason: None,
                    remember: false,
                    input: None,
                }),
            ),
            (
                r#"{"type":"confirm","token":"x","approved":true,"remember":true}"#,
                ClientMessage::Confirm(ConfirmAnswer {
                    token: Sensitive("x".into()),
                    approved: true,
                    reason: None,
                    remember: true,
                    input: None,
                }),
            ),
            (
                r#"{"type":"confirm","token":"x","approved":true,"content":{"k":{"name":"Ada"}}}"#,
                ClientMessage::Confirm(ConfirmAnswer {
                    token: Sensitive("x".into()),
                    approved: true,
                    reason: None,
                    remember: false,
                    input: Some(SentInput {
                        content: Some(Sensitive(serde_json::json!({"k": {"name": "Ada"}}))),
                        is_cancelled: false,
                    }),
                }),
            ),
            (
                r#"{"type":"confirm","token":"x","approved":false,"content":null,"cancelled":true}"#,
                ClientMessage::Confirm(ConfirmAnswer {
                    token: Sensitive("x".into()),
                    approved: false,
                    reason: None,
                    remember: false,
                    input: Some(SentInput {
                        content: None,
                        is_cancelled: true,
                    }),
                }),
            ),
            (
                r#"{"type":"revoke","approvalId":"approval-3"}"#,
                ClientMessage::Revoke(QuestionNumber(3)),
            ),
            (r#"{"type":"interrupt"}"#, ClientMessage::Interrupt),
            (
                r#"{"type":"cancel","callId":"call-3"}"#,
                ClientMessage::Cancel(CallNumber(3)),
            ),
            (r#"{"type":"playback_done"}"#, ClientMessage::PlaybackDone),
            (r#"{"type":"stop"}"#, ClientMessage::Stop),
            (r#" {"type":"ping"} "#, ClientMessage::Ping),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_by_its_kind() {
        let long_id = format!(r#"{{"type":"start","userId":"{}"}}"#, "a".repeat(129));
        let long_audio = format!(r#"{{"type":"audio","data":"{}"}}"#, "A".repeat(90_000));
        // One whole sample over the limit.
        let longer_audio = format!(r#"{{"type":"audio","data":"{}"}}"#, "A".repeat(87_384));
        for (text, code) in [
            ("", ErrorCode::BadMessage),
            ("hello", ErrorCode::BadMessage),
            ("[]", ErrorCode::BadMessage),
            ("null", ErrorCode::BadMessage),
            (r#"{"type":"ping""#, ErrorCode::BadMessage),
            (r#"{"kind":"ping"}"#, ErrorCode::BadMessage),
            (r#"{"type":7}"#, ErrorCode::BadMessage),
            (r#"{"type":"text"}"#, ErrorCode::BadMessage),
            (r#"{"type":"text","text":7}"#, ErrorCode::BadMessage),
            (
                r#"{"type":"confirm","token":"x","approved":"yes"}"#,
                ErrorCode::BadMessage,
            ),
            (r#"{"type":"start","audio":"mp3"}"#, ErrorCode::BadMessage),
            (r#"{"type":"cancel"}"#, ErrorCode::BadMessage),
            (r#"{"type":"cancel","callId":3}"#, ErrorCode::BadMessage),
            (
                r#"{"type":"cancel","callId":"call-0"}"#,
                ErrorCode::BadMessage,
            ),
            (r#"{"type":"cancel","callId":"all"}"#, ErrorCode::BadMessage),
            (
                r#"{"type":"confirm","token":"x","approved":true,"remember":"yes"}"#,
                ErrorCode::BadMessage,
            ),
            (r#"{"type":"revoke"}"#, ErrorCode::BadMessage),
            (
                r#"{"type":"revoke","approvalId":"all"}"#,
                ErrorCode::BadMessage,
            ),
            (
                r#"{"type":"start","userId":"a\u0000"}"#,
                ErrorCode::BadMessage,
            ),
            (
                r#"{"type":"start","conversationHistory":[{"role":"system","content":"x"}]}"#,
                ErrorCode::BadMessage,
            ),
            (&long_id, ErrorCode::BadMessage),
            (r#"{"type":"fly"}"#, ErrorCode::UnknownType),
            (r#"{"type":""}"#, ErrorCode::UnknownType),
            (r#"{"type":"audio","data":"!"}"#, ErrorCode::BadAudio),
            (&long_audio, ErrorCode::TooLarge),
            (&longer_audio, ErrorCode::TooLarge),
            (
                r#"{"type":"image","mimeType":"image/svg+xml","data":""}"#,
                ErrorCode::Unsupported,
            ),
            (
                r#"{"type":"image","mimeType":"image/png","data":""}"#,
                ErrorCode::BadMessage,
            ),
        ] {
            let refused = parse(text.as_bytes()).unwrap_err();
            assert_eq!(refused.code, code, "{text}: {}", refused.message);
        }
        assert_eq!(
            parse(b"{\"type\":\"\xff\"}").unwrap_err().code,
            ErrorCode::BadMessage
        );
    }

    #[test]
    fn a_long_history_keeps_its_newest_entries() {
        let entries: Vec<String> = (0..250)
            .map(|number| format!(r#"{{"role":"user","content":"{number}"}}"#))
            .collect();
        let text = format!(
            r#"{{"type":"start","conversationHistory":[{}]}}"#,
            entries.join(",")
        );
        let Ok(ClientMessage::Start(start)) = parse(text.as_bytes()) else {
            panic!("no start");
        };
        assert_eq!(start.history.len(), HISTORY_ENTRIES_MAX);
        assert_eq!(start.history[0].text.expose(), "50");
    }
}
