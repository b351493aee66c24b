//! The client's events. The service refuses unknown fields, so only documented ones are written.

use base64_simd::STANDARD;
use serde::Serialize;

/// The settings of a session for the model, sent once per connection.
#[derive(Clone, Copy, Debug)]
pub struct SetupRequest<'a> {
    pub model: &'a str,
    /// At most 16,384 tokens.
    pub instructions: &'a str,
    pub voice: Option<&'a str>,
}

#[derive(Serialize)]
struct Start<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    session: Session<'a>,
}

#[derive(Serialize)]
struct Session<'a> {
    model: &'a str,
    instructions: &'a str,
    audio: Audio<'a>,
    delegation: Kind,
}

#[derive(Serialize)]
struct Audio<'a> {
    format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output<'a>>,
}

#[derive(Serialize)]
struct Format {
    #[serde(rename = "type")]
    kind: &'static str,
    rate: u32,
}

#[derive(Serialize)]
struct Output<'a> {
    voice: &'a str,
}

#[derive(Serialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Appends the setup.
pub fn encode_setup(request: &SetupRequest<'_>, frame: &mut Vec<u8>) {
    let start = Start {
        kind: "session.start",
        session: Session {
            model: request.model,
            instructions: request.instructions,
            audio: Audio {
                format: Format {
                    kind: "audio/pcm",
                    rate: 24_000,
                },
                output: request.voice.map(|voice| Output { voice }),
            },
            delegation: Kind { kind: "client" },
        },
    };
    serde_json::to_writer(frame, &start).expect("strings and numbers always serialize");
}

pub(super) fn append(pcm: &[u8], frame: &mut Vec<u8>) {
    frame.extend_from_slice(br#"{"type":"session.input_audio.append","audio":""#);
    STANDARD.encode_append(pcm, frame);
    frame.extend_from_slice(br#""}"#);
}

/// Characters of one event, which takes 500 tokens. In any script a token has at least one character.
const CHARACTERS_MAX: usize = 480;

#[derive(Serialize)]
struct Context<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    content: &'a str,
    /// Required by the service; may be null.
    delegation_id: Option<&'a str>,
}

/// Appends a text in as many events as it needs, cut between words if possible.
pub(super) fn context(
    kind: &'static str,
    delegation_id: Option<&str>,
    text: &str,
    frames: &mut Vec<Vec<u8>>,
) {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(CHARACTERS_MAX)
            .map_or(rest.len(), |(end, _)| end);
        let end = match rest[..end].rfind(char::is_whitespace) {
            Some(space) if end < rest.len() && space > 0 => space,
            Some(_) | None => end,
        };
        let (content, behind) = rest.split_at(end);
        let context = Context {
            kind,
            content: content.trim_end(),
            delegation_id,
        };
        frames.push(serde_json::to_vec(&context).expect("strings always serialize"));
        rest = behind.trim_start();
    }
}
