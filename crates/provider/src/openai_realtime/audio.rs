//! The hot path: audio in and out of its JSON events. Knows two shapes exactly and leaves every other to the general decoder;
//! knows nothing of responses.

use crate::spelling::{blank, plain_string, token};
use base64_simd::STANDARD;

const BEFORE_AUDIO: &[u8] = br#"{"type":"input_audio_buffer.append","audio":""#;
const AFTER_AUDIO: &[u8] = br#""}"#;

/// Appends the event that carries audio of the user: 16-bit little-endian mono PCM at 24 kHz.
pub(super) fn write_append(pcm: &[u8], frame: &mut Vec<u8>) {
    frame.reserve(BEFORE_AUDIO.len() + STANDARD.encoded_length(pcm.len()) + AFTER_AUDIO.len());
    frame.extend_from_slice(BEFORE_AUDIO);
    STANDARD.encode_append(pcm, frame);
    frame.extend_from_slice(AFTER_AUDIO);
}

/// The service's present name, and the name of the beta and of servers that were built after it.
const KINDS: [&[u8]; 2] = [b"response.output_audio.delta", b"response.audio.delta"];

/// A piece of the model's voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioDelta<'f> {
    pub(super) response_id: &'f str,
    pub(super) item_id: &'f str,
    /// The audio in base64.
    pub(super) delta: &'f [u8],
}

/// Reads an event that is a piece of audio, its fields flat and in any order. `None` says only that the general decoder has to
/// read the event.
pub(super) fn audio_delta(frame: &[u8]) -> Option<AudioDelta<'_>> {
    let mut rest = token(frame, b"{")?;
    let (mut kind, mut response_id, mut item_id, mut delta) = (None, None, None, None);
    loop {
        let (name, behind) = plain_string(rest)?;
        rest = blank(token(behind, b":")?);
        let field = match name {
            b"type" => Some(&mut kind),
            b"response_id" => Some(&mut response_id),
            b"item_id" => Some(&mut item_id),
            b"delta" => Some(&mut delta),
            _ => None,
        };
        if rest.first() == Some(&b'"') {
            let (value, behind) = plain_string(rest)?;
            rest = behind;
            // A repeated field makes the message invalid.
            if field.is_some_and(|field| field.replace(value).is_some()) {
                return None;
            }
        } else {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 || field.is_some() {
                return None;
            }
            rest = &rest[digits..];
        }
        // Most events are told by their first field.
        if kind.is_some_and(|kind| !KINDS.contains(&kind)) {
            return None;
        }
        rest = blank(rest);
        match rest.split_first()? {
            (b',', behind) => rest = behind,
            (b'}', behind) if blank(behind).is_empty() => break,
            _ => return None,
        }
    }
    kind?;
    Some(AudioDelta {
        response_id: std::str::from_utf8(response_id?).ok()?,
        item_id: std::str::from_utf8(item_id?).ok()?,
        delta: delta?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_piece_of_audio_takes_the_short_way() {
        for (frame, expected) in [
            (
                r#"{"type":"response.output_audio.delta","event_id":"e","response_id":"r","item_id":"i","output_index":0,"content_index":0,"delta":"AAAA"}"#,
                Some(("r", "i", "AAAA")),
            ),
            (
                "{ \"delta\" : \"AAAA\", \"item_id\":\"i\",\n\"response_id\":\"r\", \"type\":\"response.output_audio.delta\" }\n",
                Some(("r", "i", "AAAA")),
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AA\u003d"}"#,
                None,
            ),
            (
                r#"{"type":"response.output_text.delta","response_id":"r","item_id":"i","delta":"AAAA"}"#,
                None,
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAA","delta":"BBBB"}"#,
                None,
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAA","x":{}}"#,
                None,
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}"#,
                None,
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAA""#,
                None,
            ),
            (
                r#"{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAA"}}"#,
                None,
            ),
            (r#"{"response_id":"r","item_id":"i","delta":"AAAA"}"#, None),
            ("{", None),
            ("", None),
        ] {
            let delta = audio_delta(frame.as_bytes());
            let expected = expected.map(|(response_id, item_id, delta)| AudioDelta {
                response_id,
                item_id,
                delta: delta.as_bytes(),
            });
            assert_eq!(delta, expected, "{frame}");
        }
    }
}
