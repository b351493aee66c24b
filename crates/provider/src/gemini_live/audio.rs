//! The hot path: audio in and out of its JSON frames. Knows one frame shape exactly and leaves every other to the general
//! decoder; knows nothing of turns.

use crate::spelling::{blank, token, tokens};
use base64_simd::STANDARD;

const BEFORE_AUDIO: &[u8] = br#"{"realtimeInput":{"audio":{"data":""#;
const AFTER_AUDIO: &[u8] = br#"","mimeType":"audio/pcm;rate=16000"}}}"#;

/// Appends the text frame that carries microphone audio: 16-bit little-endian mono PCM at 16 kHz, which is the rate that
/// the Live API takes without resampling.
pub fn encode_audio(pcm: &[u8], frame: &mut Vec<u8>) {
    frame.reserve(BEFORE_AUDIO.len() + STANDARD.encoded_length(pcm.len()) + AFTER_AUDIO.len());
    frame.extend_from_slice(BEFORE_AUDIO);
    STANDARD.encode_append(pcm, frame);
    frame.extend_from_slice(AFTER_AUDIO);
}

const BEFORE_PARTS: [&[u8]; 7] = [
    b"{",
    br#""serverContent""#,
    b":",
    b"{",
    br#""modelTurn""#,
    b":",
    b"{",
];
/// Vertex names the turn's role, before or behind the parts.
const ROLE: [&[u8]; 3] = [br#""role""#, b":", br#""model""#];
const BEFORE_MIME_TYPE: [&[u8]; 9] = [
    br#""parts""#,
    b":",
    b"[",
    b"{",
    br#""inlineData""#,
    b":",
    b"{",
    br#""mimeType""#,
    b":",
];
const MIME_TYPES: [&[u8]; 2] = [br#""audio/pcm;rate=24000""#, br#""audio/pcm""#];
const DATA: [&[u8]; 4] = [b",", br#""data""#, b":", b"\""];
const AFTER_DATA: [&[u8]; 3] = [b"}", b"}", b"]"];
const CLOSING: [&[u8]; 3] = [b"}", b"}", b"}"];

/// The base64 text of a frame that holds one piece of audio and nothing else, in the service's spelling, with any white space.
/// `None` says only that the general decoder has to read the frame.
pub(super) fn only_audio(frame: &[u8]) -> Option<&[u8]> {
    let rest = tokens(frame, &BEFORE_PARTS)?;
    let rest = match tokens(rest, &ROLE) {
        Some(rest) => token(rest, b",")?,
        None => rest,
    };
    let rest = tokens(rest, &BEFORE_MIME_TYPE)?;
    let rest = MIME_TYPES
        .iter()
        .find_map(|mime_type| token(rest, mime_type))?;
    let rest = tokens(rest, &DATA)?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    let (data, rest) = rest.split_at(end);
    let rest = tokens(rest.strip_prefix(b"\"")?, &AFTER_DATA)?;
    let rest = match token(rest, b",") {
        Some(rest) => tokens(rest, &ROLE)?,
        None => rest,
    };
    let rest = tokens(rest, &CLOSING)?;
    blank(rest).is_empty().then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microphone_audio_is_written_as_the_service_documents_it() {
        let mut frame = Vec::new();
        encode_audio(&[0, 0, 0], &mut frame);
        assert_eq!(
            String::from_utf8(frame).unwrap(),
            r#"{"realtimeInput":{"audio":{"data":"AAAA","mimeType":"audio/pcm;rate=16000"}}}"#
        );
    }

    #[test]
    fn only_the_one_shape_takes_the_short_way() {
        for (frame, data) in [
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"AAAA"}}]}}}"#,
                Some("AAAA"),
            ),
            (
                "{\n  \"serverContent\": {\n    \"modelTurn\": {\n \"parts\": [ {\r\n\t\"inlineData\" : { \"mimeType\" : \"audio/pcm\" , \"data\": \"AAAA\" } } ] } } }\n",
                Some("AAAA"),
            ),
            (
                r#"{"serverContent":{"modelTurn":{"role":"model","parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}]}}}"#,
                Some("AAAA"),
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}], "role": "model"}}}"#,
                Some("AAAA"),
            ),
            // Escapes, neighbours, other kinds, other orders, cut frames.
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AA\u003d"}}]}}}"#,
                None,
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}]},"turnComplete":true}}"#,
                None,
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}}"#,
                None,
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"data":"AAAA","mimeType":"audio/pcm"}}]}}}"#,
                None,
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}]}}"#,
                None,
            ),
            (
                r#"{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}]}}}}"#,
                None,
            ),
            (r#"{"serverContent":{}}"#, None),
            ("", None),
        ] {
            assert_eq!(
                only_audio(frame.as_bytes()),
                data.map(str::as_bytes),
                "{frame}"
            );
        }
    }
}
