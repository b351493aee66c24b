//! The messages in `docs/voice-protocol.md` are those of the protocol, in both directions.

use crate::documents::{Block, blocks_in, code, rows};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::id::{CallNumber, SessionId, ToolId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::client_protocol::{ServerMessage, of_question, of_update, parse};
use windlass_session::RememberOffer;
use windlass_session::client::{
    CancelOutcome, Citation, ClientUpdate, ConfirmationQuestion, ErrorCode, Image,
};
use windlass_session::model::{Role, TranscriptEntry};
use windlass_session::time::Timestamp;
use windlass_store::{QuestionNumber, StandingApproval, StandingScope};

const DOCUMENT: &str = "docs/voice-protocol.md";

fn messages(section: &str) -> Vec<(Block, Value)> {
    let mut blocks = blocks_in(DOCUMENT, "json");
    blocks.retain(|block| block.section == section);
    assert!(!blocks.is_empty(), "{DOCUMENT} has no section {section:?}");
    let read = |block: Block| {
        let value: Value = serde_json::from_str(&block.text).unwrap();
        assert_eq!(value["type"], block.heading, "{}", block.place);
        (block, value)
    };
    blocks.into_iter().map(read).collect()
}

fn written(message: &ServerMessage<'_>) -> Value {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn every_message_of_a_client_is_read() {
    let messages = messages("Client to server");
    for (block, _) in &messages {
        if let Err(rejection) = parse(block.text.as_bytes()) {
            panic!("{}: {}", block.place, rejection.message);
        }
    }
    for kind in [
        "start",
        "audio",
        "text",
        "image",
        "turn_complete",
        "interrupt",
        "playback_done",
        "confirm",
        "cancel",
        "revoke",
        "stop",
        "ping",
    ] {
        let is_shown = messages.iter().any(|(block, _)| block.heading == kind);
        assert!(is_shown, "{DOCUMENT} shows no {kind}");
    }
    assert_eq!(messages.len(), 12, "{DOCUMENT} shows each message once");
}

#[test]
fn every_message_of_the_server_is_written_as_it_is_shown() {
    let mut shown: Vec<(Block, Value)> = messages("Server to client");
    for expected in session_messages().into_iter().chain(call_messages()) {
        let place = shown.iter().position(|(_, value)| *value == expected);
        let Some(place) = place else {
            panic!("{DOCUMENT} does not show {expected}");
        };
        shown.remove(place);
    }
    let left: Vec<&str> = shown
        .iter()
        .map(|(block, _)| block.place.as_str())
        .collect();
    assert!(
        left.is_empty(),
        "the server writes no such message: {left:?}"
    );
}

fn session_messages() -> Vec<Value> {
    let tools = ["end_voice_session", "kb_get", "kb_search"].map(|id| ToolId::parse(id).unwrap());
    let said = |role, text: &str, at_ms| TranscriptEntry {
        role,
        text: Sensitive(text.to_owned()),
        at: Timestamp::from_millis(at_ms),
        turn: 2,
    };
    let complete = ClientUpdate::SessionComplete {
        transcripts: vec![
            said(Role::User, "Let's stop here.", 41_250),
            said(Role::Assistant, "Until next time!", 43_900),
        ],
    };
    let timestamp = "2026-11-20T18:25:43.511Z".to_owned();
    let image = Image {
        url: "/assets/photo:colin_archer".to_owned(),
        caption: Some("Colin Archer in Larvik".to_owned()),
    };
    let (url, caption) = (&image.url, &image.caption);
    let shown = ClientUpdate::Message(json!({"type": "image", "url": url, "caption": caption}));
    let ticket = ClientUpdate::Message(json!({
        "type": "ticket", "ticketId": "tk0d5c", "reason": "The customer wants to talk to a person.",
        "urgency": "normal", "status": "open",
    }));
    let ticket_reply = ClientUpdate::Message(json!({
        "type": "ticket_reply", "ticketId": "tk0d5c", "author": "Maya", "text": "We send the money back today.",
    }));
    let nearly_full = ClientUpdate::Message(json!({
        "type": "context_nearly_full", "tokens": 118_300, "windowTokens": 131_072,
    }));
    let of_tool = ClientUpdate::Custom(json!({"type": "weather", "sky": "blue"}));
    vec![
        written(&ServerMessage::Connected {
            client_id: "0b5fd1a2c3e4",
            timestamp: timestamp.clone(),
        }),
        written(&ServerMessage::Started {
            session_id: "s-4be2",
            conversation_id: "c-0f41",
            resume_token: "9d1c",
            mode: Mode::Voice,
            registry_version: "1.0.5d0c8a13",
            tools: tools.iter().collect(),
        }),
        // The driver writes these frames itself, around the audio.
        json!({"type": "audio", "data": "AAABAP//"}),
        written(&ServerMessage::ModelGenerating),
        written(&transcript("Colin ", false, &[], &[])),
        written(&transcript(
            "Colin Archer designed her.",
            true,
            &[Citation {
                id: "person:colin_archer".to_owned(),
                title: "Colin Archer".to_owned(),
                url: Some("https://frammuseum.no/".to_owned()),
            }],
            std::slice::from_ref(&image),
        )),
        written(&of_update(&shown).unwrap()),
        written(&of_update(&ticket).unwrap()),
        written(&of_update(&ticket_reply).unwrap()),
        written(&of_update(&nearly_full).unwrap()),
        written(&of_update(&of_tool).unwrap()),
        written(&ServerMessage::Interrupted),
        written(&ServerMessage::TurnComplete { turn: 1 }),
        written(&ServerMessage::Timeout {
            duration_seconds: 60,
            timeout_until: 1_795_199_143_511,
            farewell_message: "Let us stop here.",
        }),
        written(&ServerMessage::EndVoiceSession {
            reason: "user_requested",
            closing_message: Some("Until next time!"),
            text_response: None,
        }),
        written(&of_update(&complete).unwrap()),
        written(&ServerMessage::Stopped),
        written(&ServerMessage::Reconnecting { attempt: 1 }),
        written(&ServerMessage::Reconnected),
        written(&ServerMessage::error(
            ErrorCode::ToolLoop,
            "the model called tools over and over",
        )),
        written(&ServerMessage::Pong { timestamp }),
    ]
}

fn transcript<'a>(
    text: &'a str,
    is_final: bool,
    citations: &'a [Citation],
    images: &'a [Image],
) -> ServerMessage<'a> {
    ServerMessage::Transcript {
        role: Role::Assistant,
        text,
        is_final,
        citations,
        images,
    }
}

fn call_messages() -> Vec<Value> {
    let arguments = json!({"query": "designer of Fram", "top_k": 3});
    vec![
        written(&ServerMessage::ToolCallStarted {
            call_id: CallNumber(1),
            tool: "kb_search",
            args: Some(Cow::Owned(arguments.as_object().unwrap().clone().into())),
            args_omitted: false,
            status: "Searching for designer of Fram".into(),
            parent_call_id: None,
        }),
        written(&ServerMessage::ToolProgress {
            call_id: CallNumber(1),
            message: "half way",
            fraction: Some(0.5),
        }),
        written(&ServerMessage::ToolOutput {
            call_id: CallNumber(1),
            sequence: 1,
            data: &"Reading the orders…".into(),
        }),
        written(
            &of_update(&ClientUpdate::CancelResult {
                call: CallNumber(1),
                outcome: CancelOutcome::Stopped,
            })
            .unwrap(),
        ),
        written(&ServerMessage::ToolCallFinished {
            call_id: CallNumber(1),
            tool: "kb_search",
            ok: true,
            duration_ms: 12,
            error_type: None,
            message: None,
            accepted: false,
            args: None,
            args_omitted: false,
            result: Some("{\"results\":[{\"id\":\"person:colin_archer\"}]}".into()),
            connect: None,
            parent_call_id: None,
        }),
        written(&ServerMessage::ToolCallFinished {
            call_id: CallNumber(2),
            tool: "kb_serch",
            ok: false,
            duration_ms: 0,
            error_type: Some(ErrorType::NotFound),
            message: Some("there is no tool \"kb_serch\""),
            accepted: false,
            args: Some(Cow::Owned(
                json!({"query": "Fram"}).as_object().unwrap().clone().into(),
            )),
            args_omitted: false,
            result: None,
            connect: None,
            parent_call_id: None,
        }),
        written(&ServerMessage::ToolCallFinished {
            call_id: CallNumber(3),
            tool: "order",
            ok: true,
            duration_ms: 40,
            error_type: None,
            message: None,
            accepted: true,
            args: None,
            args_omitted: false,
            result: Some("{\"backgroundTaskId\":\"9f2c\",\"status\":\"accepted\"}".into()),
            connect: None,
            parent_call_id: None,
        }),
        written(&ServerMessage::ToolsComplete { tool_count: 1 }),
        written(&of_question(
            &ConfirmationQuestion {
                call: CallNumber(4),
                question: QuestionNumber(3),
                tool: ToolId::parse("pay").unwrap(),
                arguments: Sensitive(Arc::new(
                    json!({"text": "10"}).as_object().unwrap().clone().into(),
                )),
                preview: Some(Sensitive("Pay 10".to_owned())),
                warning: None,
                because: None,
                remember: None,
                input: None,
                expires_at_unix_ms: NOW_UNIX_MS,
            },
            &Sensitive("3.5f0c2d1e8b7a49369e2f6a1b0c3d4e5f".to_owned()),
        )),
        written(&of_question(
            &ConfirmationQuestion {
                call: CallNumber(5),
                question: QuestionNumber(4),
                tool: ToolId::parse("archive").unwrap(),
                arguments: Sensitive(Arc::new(
                    json!({"folder": "Reports", "name": "May"})
                        .as_object()
                        .unwrap()
                        .clone()
                        .into(),
                )),
                preview: None,
                warning: None,
                because: None,
                remember: Some(RememberOffer {
                    arguments: Sensitive(json!({"/folder": "Reports"})),
                    minutes: 60,
                }),
                input: None,
                expires_at_unix_ms: NOW_UNIX_MS,
            },
            &Sensitive("4.0b6d4c1f9e2a4750a1b2c3d4e5f60718".to_owned()),
        )),
        written(&of_update(&standing()).unwrap()),
        written(&of_update(&refused_token()).unwrap()),
    ]
}

/// 2026-11-20T18:25:43.511Z.
const NOW_UNIX_MS: u64 = 1_795_199_143_511;

fn standing() -> ClientUpdate {
    ClientUpdate::StandingApprovals(vec![StandingApproval {
        question: QuestionNumber(4),
        tool: ToolId::parse("archive").unwrap(),
        tool_version: "1.0.0".to_owned(),
        handler_hash: None,
        values: Sensitive(r#"{"/folder":"Reports"}"#.to_owned()),
        scope: StandingScope::Session(SessionId::new("s-4be2")),
        given_at_unix_ms: NOW_UNIX_MS,
        expires_at_unix_ms: NOW_UNIX_MS + 3_600_000,
    }])
}

fn refused_token() -> ClientUpdate {
    let error = CallError::new(
        ErrorType::ConfirmationExpired,
        "this approval is not valid, or not valid any more",
    );
    ClientUpdate::ConfirmationResult {
        call: None,
        response: Sensitive(Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: meta_without_tool("confirm", "1.0.5d0c8a13".into(), NOW_UNIX_MS),
        })),
    }
}

#[test]
fn every_error_code_is_explained() {
    let rows = rows(DOCUMENT);
    for error_code in [
        ErrorCode::BadMessage,
        ErrorCode::UnknownType,
        ErrorCode::NotStarted,
        ErrorCode::ResumeRefused,
        ErrorCode::SessionActive,
        ErrorCode::ForeignConversation,
        ErrorCode::TooLarge,
        ErrorCode::BadAudio,
        ErrorCode::AudioOverflow,
        ErrorCode::ProviderAuth,
        ErrorCode::ProviderUnavailable,
        ErrorCode::ProviderSilent,
        ErrorCode::ToolLoop,
        ErrorCode::Unsupported,
        ErrorCode::Blocked,
        ErrorCode::ShuttingDown,
        ErrorCode::Overloaded,
        ErrorCode::TooManyConversations,
        ErrorCode::Internal,
    ] {
        let name = error_code.as_str();
        let is_explained = rows.iter().any(|row| code(&row[0]) == Some(name));
        assert!(is_explained, "{DOCUMENT} does not explain {name}");
    }
}
