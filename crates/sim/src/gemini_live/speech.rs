//! One utterance in progress: audio in small frames, faster than it plays, with its words in between. Knows nothing of turns.

use super::frames;
use super::profile::Profile;
use crate::pieces::split;
use crate::sound::voice::{RATE_HZ, Voice};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use windlass_session::time::Timestamp;

/// 40 ms of audio in a frame.
const SAMPLES_PER_FRAME: usize = 960;

#[derive(Clone, Debug)]
pub(crate) struct Speech {
    voice: Voice,
    /// Pieces of the text, each with the sample at which it is due.
    pieces: VecDeque<(usize, String)>,
    said: String,
    next_at: Timestamp,
    begun: bool,
}

impl Speech {
    pub(crate) fn of_text(text: &str, now: Timestamp) -> Self {
        let voice = Voice::of_text(text);
        let pieces = split(text);
        let count = pieces.len().max(1);
        let samples = voice.samples();
        Self {
            pieces: pieces
                .into_iter()
                .enumerate()
                .map(|(index, piece)| (samples * index / count, piece))
                .collect(),
            voice,
            said: String::new(),
            next_at: now,
            begun: false,
        }
    }

    pub(crate) fn of_length(milliseconds: u64, now: Timestamp) -> Self {
        Self {
            voice: Voice::of_length(milliseconds),
            pieces: VecDeque::new(),
            said: String::new(),
            next_at: now,
            begun: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.voice.is_over()
    }

    pub(crate) fn next_at(&self) -> Timestamp {
        self.next_at
    }

    /// The part of the text that was sent.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Sends everything due by `now`; returns the length of that audio in milliseconds.
    pub(crate) fn advance(
        &mut self,
        now: Timestamp,
        speed: f64,
        profile: &Profile,
        transcribes: bool,
        send: &mut impl FnMut(Vec<u8>),
    ) -> u64 {
        let mut sent_ms = 0;
        while self.next_at <= now && !self.voice.is_over() {
            sent_ms += self.frame(profile, transcribes, send);
            if speed > 0.0 {
                let frame = SAMPLES_PER_FRAME as f64 / RATE_HZ as f64;
                self.next_at = self.next_at + Duration::from_secs_f64(frame / speed);
            }
        }
        sent_ms
    }

    fn frame(
        &mut self,
        profile: &Profile,
        transcribes: bool,
        send: &mut impl FnMut(Vec<u8>),
    ) -> u64 {
        let marks = transcribes && profile.vertex && !self.pieces.is_empty();
        if !self.begun && marks {
            send(frames::content(json!({ "outputTranscription": {} })));
        }
        self.begun = true;
        let mut beside = Map::new();
        while let Some((due, _)) = self.pieces.front()
            && *due <= self.voice.position()
            && let Some((_, piece)) = self.pieces.pop_front()
        {
            self.said.push_str(&piece);
            if !transcribes {
                continue;
            }
            let transcription = frames::transcription("outputTranscription", &piece);
            if profile.bundles && beside.is_empty() {
                beside = transcription;
            } else {
                send(frames::content(Value::Object(transcription)));
            }
        }
        if marks && self.pieces.is_empty() {
            send(frames::content(
                json!({ "outputTranscription": { "finished": true } }),
            ));
        }
        let mut pcm = Vec::with_capacity(2 * SAMPLES_PER_FRAME);
        let samples = self.voice.speak(SAMPLES_PER_FRAME, &mut pcm);
        let part = frames::audio_part(profile, &pcm);
        send(frames::model_turn(profile, vec![part], beside));
        frames::milliseconds_of(samples)
    }
}
