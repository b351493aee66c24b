//! The client's microphone: the buffer, and the begin and end of speech in it. Knows neither items nor answers.

use crate::sound::activity::{Activity, Detector, Sensitivity};

/// Bytes of PCM16 mono at 24 kHz in a millisecond.
const BYTES_PER_MS: u64 = 48;
/// The least audio of a commit.
pub(super) const COMMIT_MS_MIN: u64 = 100;

#[derive(Debug)]
pub(super) struct Ears {
    detector: Detector,
    heard_bytes: u64,
    buffered_bytes: u64,
}

/// A begin or an end of speech, in the audio's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Started { at_ms: u64 },
    Stopped { at_ms: u64 },
}

impl Ears {
    pub(super) fn new(sensitivity: Sensitivity) -> Self {
        Self {
            detector: Detector::new(sensitivity),
            heard_bytes: 0,
            buffered_bytes: 0,
        }
    }

    /// Restarts detection with another sensitivity.
    pub(super) fn tune(&mut self, sensitivity: Sensitivity) {
        self.detector = Detector::new(sensitivity);
    }

    pub(super) fn buffered_ms(&self) -> u64 {
        self.buffered_bytes / BYTES_PER_MS
    }

    pub(super) fn clear(&mut self) {
        self.buffered_bytes = 0;
    }

    /// Takes audio; `None` where the text is no base64.
    pub(super) fn hear(&mut self, base64: &str, detects: bool) -> Option<Vec<Heard>> {
        let pcm = base64_simd::STANDARD.decode_to_vec(base64).ok()?;
        self.heard_bytes += pcm.len() as u64;
        self.buffered_bytes += pcm.len() as u64;
        if !detects {
            return Some(Vec::new());
        }
        let at_ms = self.heard_bytes / BYTES_PER_MS;
        let heard = self.detector.feed(&pcm, 24_000);
        Some(
            heard
                .into_iter()
                .map(|activity| match activity {
                    Activity::Started => Heard::Started { at_ms },
                    Activity::Ended => Heard::Stopped { at_ms },
                })
                .collect(),
        )
    }
}
