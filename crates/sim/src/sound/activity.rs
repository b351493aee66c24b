//! Detects speech: energy of 16-bit PCM against an adaptive floor. Knows neither words nor the protocol.

/// The sensitivity of speech detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sensitivity {
    pub(crate) start_high: bool,
    /// The speech that is needed before its start is committed, in milliseconds.
    pub(crate) prefix_padding_ms: u64,
    /// The silence that is needed before the end is committed, in milliseconds.
    pub(crate) silence_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Started,
    Ended,
}

const FRAME_MS: u64 = 20;
/// The longest pause within a word while a start is being established.
const GAP_MS: u64 = 60;
/// The root mean square of 16-bit samples below which audio is never speech: some −42 dB of full scale.
const LEVEL_MIN: f32 = 260.0;

/// Listens to one stream of audio. Time is the audio's own.
#[derive(Clone, Debug)]
pub(crate) struct Detector {
    sensitivity: Sensitivity,
    squares: f32,
    samples: u32,
    floor: f32,
    speech_ms: u64,
    quiet_ms: u64,
    speaking: bool,
    heard_ms: u64,
}

impl Detector {
    pub(crate) fn new(sensitivity: Sensitivity) -> Self {
        Self {
            sensitivity,
            squares: 0.0,
            samples: 0,
            floor: 40.0,
            speech_ms: 0,
            quiet_ms: 0,
            speaking: false,
            heard_ms: 0,
        }
    }

    pub(crate) fn is_speaking(&self) -> bool {
        self.speaking
    }

    /// The milliseconds of audio so far.
    pub(crate) fn heard_ms(&self) -> u64 {
        self.heard_ms
    }

    /// Takes little-endian samples and returns the begins and ends of speech within them.
    pub(crate) fn feed(&mut self, pcm: &[u8], rate_hz: u32) -> Vec<Activity> {
        let samples_per_frame = (rate_hz / 50).max(1);
        let mut activities = Vec::new();
        for pair in pcm.chunks_exact(2) {
            let sample = f32::from(i16::from_le_bytes([pair[0], pair[1]]));
            self.squares += sample * sample;
            self.samples += 1;
            if self.samples >= samples_per_frame {
                let level = (self.squares / self.samples as f32).sqrt();
                (self.squares, self.samples) = (0.0, 0);
                activities.extend(self.hear(level));
            }
        }
        activities
    }

    /// Ends the stream: current speech ends, and the next audio starts afresh.
    pub(crate) fn end(&mut self) -> Option<Activity> {
        let ended = self.speaking.then_some(Activity::Ended);
        *self = Self {
            heard_ms: self.heard_ms,
            ..Self::new(self.sensitivity)
        };
        ended
    }

    fn hear(&mut self, level: f32) -> Option<Activity> {
        self.heard_ms += FRAME_MS;
        let factor = if self.sensitivity.start_high {
            2.5
        } else {
            5.0
        };
        let loud = level > (self.floor * factor).max(LEVEL_MIN);
        // The floor falls fast and rises slowly, most slowly during speech. So a fan that was switched on is forgotten after half a
        // minute, and a long sentence is not.
        let weight = match (level < self.floor, loud) {
            (true, _) => 0.2,
            (false, false) => 0.05,
            (false, true) => 0.0005,
        };
        self.floor = (self.floor + weight * (level - self.floor)).clamp(10.0, 4_000.0);
        if loud {
            self.speech_ms += FRAME_MS;
            self.quiet_ms = 0;
        } else {
            self.quiet_ms += FRAME_MS;
        }
        if self.speaking {
            if self.quiet_ms >= self.sensitivity.silence_ms.max(FRAME_MS) {
                self.speaking = false;
                self.speech_ms = 0;
                return Some(Activity::Ended);
            }
            return None;
        }
        if self.quiet_ms > GAP_MS {
            self.speech_ms = 0;
        }
        let needed = self.sensitivity.prefix_padding_ms.max(FRAME_MS);
        if loud && self.speech_ms >= needed {
            self.speaking = true;
            return Some(Activity::Started);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tone or silence of some length at a level, 16 kHz.
    fn pcm(level: i16, milliseconds: usize) -> Vec<u8> {
        (0..16 * milliseconds)
            .flat_map(|index| if index % 16 < 8 { level } else { -level }.to_le_bytes())
            .collect()
    }

    fn check(sensitivity: Sensitivity, parts: &[(i16, usize)], expected: &[(Activity, u64)]) {
        let mut detector = Detector::new(sensitivity);
        let mut heard = Vec::new();
        for (level, milliseconds) in parts {
            // Odd slices: frames of the client need not be frames of the detector.
            for slice in pcm(*level, *milliseconds).chunks(226) {
                for activity in detector.feed(slice, 16_000) {
                    heard.push((activity, detector.heard_ms()));
                }
            }
        }
        assert_eq!(heard, expected, "{parts:?}");
    }

    #[test]
    fn speech_starts_after_the_padding_and_ends_after_the_silence() {
        use Activity::{Ended, Started};
        let usual = Sensitivity {
            start_high: true,
            prefix_padding_ms: 100,
            silence_ms: 500,
        };
        check(usual, &[(5, 1_000)], &[]);
        check(usual, &[(5, 300), (4_000, 80), (5, 1_000)], &[]);
        check(
            usual,
            &[(5, 300), (4_000, 600), (5, 1_000)],
            &[(Started, 400), (Ended, 1_400)],
        );
        // A pause shorter than the silence belongs to the speech.
        check(
            usual,
            &[(5, 300), (4_000, 300), (5, 400), (4_000, 300), (5, 600)],
            &[(Started, 400), (Ended, 1_800)],
        );
        let slow = Sensitivity {
            prefix_padding_ms: 300,
            silence_ms: 1_000,
            ..usual
        };
        check(slow, &[(5, 300), (4_000, 600), (5, 900)], &[(Started, 600)]);
    }

    #[test]
    fn low_sensitivity_needs_a_louder_voice() {
        let low = Sensitivity {
            start_high: false,
            prefix_padding_ms: 60,
            silence_ms: 300,
        };
        let noisy = [(200, 3_000), (700, 500)];
        check(low, &noisy, &[]);
        check(
            Sensitivity {
                start_high: true,
                ..low
            },
            &noisy,
            &[(Activity::Started, 3_060)],
        );
    }

    #[test]
    fn a_steady_noise_is_not_speech_for_ever() {
        let mut detector = Detector::new(Sensitivity {
            start_high: true,
            prefix_padding_ms: 60,
            silence_ms: 300,
        });
        let activities: Vec<Activity> = (0..60)
            .flat_map(|_| detector.feed(&pcm(900, 1_000), 16_000))
            .collect();
        assert_eq!(activities, [Activity::Started, Activity::Ended]);
    }
}
