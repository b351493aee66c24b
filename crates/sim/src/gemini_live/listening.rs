//! The user's actions: typing, speaking, or sending earlier conversation. Knows when input counts as the user's turn, not how it is
//! answered.

use super::context::Context;
use super::ears::Heard;
use super::frames;
use super::refusal::Refusal;
use super::session::Session;
use crate::family::Family;
use crate::sound::activity::{Activity, Detector};
use serde_json::Value;

impl Session {
    pub(crate) fn take_content(
        &mut self,
        context: &mut Context<'_>,
        body: &Value,
    ) -> Result<(), Refusal> {
        if !self.takes_history && !self.setup.profile.content_anytime {
            return Err(Refusal::invalid_argument());
        }
        let complete = body.get("turnComplete").and_then(Value::as_bool) == Some(true);
        let turns = body.get("turns").and_then(Value::as_array);
        if !self.takes_history && (complete || self.setup.profile.family == Family::Native25) {
            self.interrupt(context);
        }
        for turn in turns.into_iter().flatten() {
            let (by_user, text) = read_turn(turn)?;
            if by_user {
                self.memory.user_said(&text);
                self.ears.pending_text = Some(text);
            } else {
                self.memory.model_said(&text);
            }
        }
        if !complete {
            return Ok(());
        }
        let text = self.ears.pending_text.take().unwrap_or_default();
        if self.takes_history {
            // Announced history begins no answer, whatever its last turn is.
            self.takes_history = false;
            return Ok(());
        }
        self.answer(context, Heard::Text(text));
        self.advance(context);
        Ok(())
    }

    pub(crate) fn take_input(
        &mut self,
        context: &mut Context<'_>,
        body: &Value,
    ) -> Result<(), Refusal> {
        self.takes_history = false;
        if body.as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(Refusal::invalid_argument());
        }
        if let Some(chunks) = body.get("mediaChunks").and_then(Value::as_array) {
            if !self.setup.profile.media_chunks {
                return Err(Refusal::invalid(
                    "realtime_input.media_chunks is deprecated. Use audio, video, or text instead.",
                ));
            }
            for chunk in chunks {
                self.take_blob(context, chunk)?;
            }
        }
        for key in ["audio", "video"] {
            if let Some(blob) = body.get(key) {
                self.take_blob(context, blob)?;
            }
        }
        if body.get("activityStart").is_some() {
            self.manual(context, Activity::Started)?;
        }
        if body.get("activityEnd").is_some() {
            self.manual(context, Activity::Ended)?;
        }
        if body.get("audioStreamEnd").and_then(Value::as_bool) == Some(true) {
            let Some(detector) = &mut self.ears.detector else {
                return Err(Refusal::invalid_argument());
            };
            if let Some(activity) = detector.end() {
                self.speech(context, activity);
            }
        }
        if let Some(text) = body.get("text").and_then(Value::as_str) {
            self.interrupt(context);
            self.memory.user_said(text);
            self.answer(context, Heard::Text(text.to_owned()));
        }
        self.advance(context);
        Ok(())
    }

    fn take_blob(&mut self, context: &mut Context<'_>, blob: &Value) -> Result<(), Refusal> {
        let mime_type = blob.get("mimeType").and_then(Value::as_str).unwrap_or("");
        let data = blob.get("data").and_then(Value::as_str).unwrap_or("");
        let bytes = decoded(data).ok_or_else(|| {
            Refusal::invalid("Invalid value at 'realtime_input.audio.data' (TYPE_BYTES), Base64 decoding failed.")
        })?;
        let Some(rate_hz) = audio_rate(mime_type) else {
            // Video frames are accepted and ignored.
            let seen = mime_type.starts_with("image/");
            return if seen {
                Ok(())
            } else {
                Err(Refusal::invalid_argument())
            };
        };
        // No source documents the service's treatment of half a sample; here it is dropped.
        let bytes = &bytes[..bytes.len() & !1];
        let Some(detector) = &mut self.ears.detector else {
            // Measured: in manual mode audio belongs between the two marks.
            return if self.ears.active {
                Ok(())
            } else {
                Err(Refusal::invalid_argument())
            };
        };
        for activity in detector.feed(bytes, rate_hz) {
            self.speech(context, activity);
        }
        Ok(())
    }

    fn manual(&mut self, context: &mut Context<'_>, activity: Activity) -> Result<(), Refusal> {
        if self.ears.detector.is_some() {
            return Err(Refusal::invalid(
                "Explicit activity control is not supported when automatic activity detection is enabled.",
            ));
        }
        let active = activity == Activity::Started;
        if self.ears.active != active {
            self.ears.active = active;
            self.speech(context, activity);
        }
        Ok(())
    }

    fn speech(&mut self, context: &mut Context<'_>, activity: Activity) {
        if self.setup.signals_activity {
            let kind = match activity {
                Activity::Started => "ACTIVITY_START",
                Activity::Ended => "ACTIVITY_END",
            };
            let offset_ms = self.ears.detector.as_ref().map_or(0, Detector::heard_ms);
            context.send(frames::voice_activity(kind, offset_ms));
        }
        match activity {
            Activity::Started if self.setup.speech_interrupts => self.interrupt(context),
            Activity::Started => {}
            Activity::Ended if self.foreground.is_some() || self.turn.open => {
                self.ears.waiting = Some(Heard::Speech);
            }
            Activity::Ended => self.answer(context, Heard::Speech),
        }
    }
}

/// A turn of `clientContent`: whether the user speaks, and the text of its parts.
fn read_turn(turn: &Value) -> Result<(bool, String), Refusal> {
    let by_user = match turn.get("role").and_then(Value::as_str) {
        Some("user") | None => true,
        Some("model") => false,
        Some(_) => return Err(Refusal::invalid("Please use a valid role: user, model.")),
    };
    let mut text = String::new();
    for part in turn
        .get("parts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if part.get("functionCall").is_some() || part.get("functionResponse").is_some() {
            return Err(Refusal::invalid_argument());
        }
        text.push_str(part.get("text").and_then(Value::as_str).unwrap_or(""));
    }
    Ok((by_user, text))
}

/// The sample rate that a MIME type declares; `None` for a type other than PCM.
fn audio_rate(mime_type: &str) -> Option<u32> {
    let mut fields = mime_type.split(';').map(str::trim);
    if fields.next() != Some("audio/pcm") {
        return None;
    }
    match fields.find_map(|field| field.strip_prefix("rate=")) {
        Some(rate) => rate
            .parse()
            .ok()
            .filter(|rate| (1_000..=192_000).contains(rate)),
        None => Some(16_000),
    }
}

/// Base64 of either alphabet, padded or not.
fn decoded(data: &str) -> Option<Vec<u8>> {
    let data = data.trim_end_matches('=');
    if data.contains(['-', '_']) {
        return base64_simd::URL_SAFE_NO_PAD.decode_to_vec(data).ok();
    }
    base64_simd::STANDARD_NO_PAD.decode_to_vec(data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_both_alphabets_is_read_padded_or_not() {
        for text in ["++//AA==", "--__AA==", "++//AA", "--__AA"] {
            assert_eq!(decoded(text), Some(vec![0xfb, 0xef, 0xff, 0x00]), "{text}");
        }
        for text in ["+-", "*", "A"] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }

    #[test]
    fn only_pcm_with_a_sane_rate_is_audio() {
        for (mime_type, rate) in [
            ("audio/pcm", Some(16_000)),
            ("audio/pcm;rate=16000", Some(16_000)),
            ("audio/pcm; rate=48000", Some(48_000)),
            ("audio/pcm;rate=0", None),
            ("audio/opus", None),
            ("image/jpeg", None),
        ] {
            assert_eq!(audio_rate(mime_type), rate, "{mime_type}");
        }
    }
}
