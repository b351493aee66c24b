//! The audio plane of one voice session: the microphone's audio that goes to the provider, and the model's voice that goes to the
//! client. Owns buffering, the real-time guard and the estimate of playback; knows no socket, no wire format and no turn, and
//! never sees a clock.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;
use windlass_session::time::Timestamp;

/// PCM16 mono at 16 kHz, the microphone's form in `docs/voice-protocol.md`.
pub const MICROPHONE_BYTES_PER_SECOND: u64 = 32_000;
/// PCM16 mono at 24 kHz, the form of the model's voice in `docs/voice-protocol.md`.
pub const SPEAKER_BYTES_PER_SECOND: u64 = 48_000;

/// The limits of one session's audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioLimits {
    /// Seconds of microphone audio kept while the provider is not ready; the oldest is dropped.
    pub buffered_seconds_max: u64,
    /// Multiple of real time at which the microphone may send for long.
    pub microphone_speed_max: u64,
    /// Seconds of audio that may come at once, above that speed.
    pub microphone_burst_seconds: u64,
}

impl Default for AudioLimits {
    fn default() -> Self {
        Self {
            buffered_seconds_max: 10,
            microphone_speed_max: 4,
            microphone_burst_seconds: 5,
        }
    }
}

/// The counts of a session's audio, in bytes of PCM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AudioCounts {
    pub microphone_bytes: u64,
    pub speaker_bytes: u64,
    /// Dropped: too old when the provider became ready.
    pub buffer_overflow_bytes: u64,
    /// Dropped: faster than real time allows.
    pub microphone_overflow_bytes: u64,
    /// Held back while a call was open.
    pub microphone_held_bytes: u64,
    /// Dropped: the provider's socket took too little.
    pub provider_slow_bytes: u64,
    /// Dropped: the client's socket took too little.
    pub client_slow_bytes: u64,
    /// Discarded with an interrupted answer.
    pub speaker_discarded_bytes: u64,
    /// Suppressed by a tool.
    pub speaker_suppressed_bytes: u64,
}

impl AudioCounts {
    pub fn microphone_dropped_bytes(&self) -> u64 {
        self.buffer_overflow_bytes
            + self.microphone_overflow_bytes
            + self.microphone_held_bytes
            + self.provider_slow_bytes
    }

    pub fn speaker_dropped_bytes(&self) -> u64 {
        self.client_slow_bytes + self.speaker_discarded_bytes + self.speaker_suppressed_bytes
    }
}

impl AddAssign for AudioCounts {
    fn add_assign(&mut self, other: Self) {
        self.microphone_bytes += other.microphone_bytes;
        self.speaker_bytes += other.speaker_bytes;
        self.buffer_overflow_bytes += other.buffer_overflow_bytes;
        self.microphone_overflow_bytes += other.microphone_overflow_bytes;
        self.microphone_held_bytes += other.microphone_held_bytes;
        self.provider_slow_bytes += other.provider_slow_bytes;
        self.client_slow_bytes += other.client_slow_bytes;
        self.speaker_discarded_bytes += other.speaker_discarded_bytes;
        self.speaker_suppressed_bytes += other.speaker_suppressed_bytes;
    }
}

/// The verdict on one frame of the microphone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Microphone {
    Pass,
    /// Dropped silently: the model must not hear it now.
    Held,
    /// No whole number of samples.
    Odd,
    /// Dropped, because it comes too fast; `is_news` for the first such frame.
    Overflow {
        is_news: bool,
    },
}

#[derive(Debug)]
pub struct Pump {
    limits: AudioLimits,
    counts: AudioCounts,
    is_microphone_held: bool,
    /// Bytes that the microphone may send at once.
    credit_bytes: u64,
    credited_at: Timestamp,
    is_overflowing: bool,
    waiting: VecDeque<u8>,
    /// The number of discarded answers.
    epoch: u64,
    is_suppressed: bool,
    is_discarding: bool,
    playback_ends: Timestamp,
}

impl Pump {
    pub fn new(limits: AudioLimits) -> Self {
        Self {
            limits,
            counts: AudioCounts::default(),
            is_microphone_held: false,
            credit_bytes: limits.microphone_burst_seconds * MICROPHONE_BYTES_PER_SECOND,
            credited_at: Timestamp::default(),
            is_overflowing: false,
            waiting: VecDeque::new(),
            epoch: 0,
            is_suppressed: false,
            is_discarding: false,
            playback_ends: Timestamp::default(),
        }
    }

    pub fn counts(&self) -> &AudioCounts {
        &self.counts
    }

    /// Whether some audio was dropped since the counts were taken.
    pub fn has_dropped(&self) -> bool {
        self.counts.microphone_dropped_bytes() + self.counts.speaker_dropped_bytes() > 0
    }

    /// The counts since they were taken last.
    pub fn take_counts(&mut self) -> AudioCounts {
        std::mem::take(&mut self.counts)
    }

    /// Judges one frame of the microphone.
    pub fn microphone(&mut self, now: Timestamp, bytes: usize) -> Microphone {
        if !bytes.is_multiple_of(2) {
            return Microphone::Odd;
        }
        let bytes = bytes as u64;
        self.refill(now);
        if bytes > self.credit_bytes {
            self.counts.microphone_overflow_bytes += bytes;
            let is_news = !std::mem::replace(&mut self.is_overflowing, true);
            return Microphone::Overflow { is_news };
        }
        self.credit_bytes -= bytes;
        // At the limit frames are taken and dropped by turns; only a real pause ends the overflow.
        let burst = self.limits.microphone_burst_seconds * MICROPHONE_BYTES_PER_SECOND;
        self.is_overflowing &= self.credit_bytes < burst / 2;
        if self.is_microphone_held {
            self.counts.microphone_held_bytes += bytes;
            return Microphone::Held;
        }
        self.counts.microphone_bytes += bytes;
        Microphone::Pass
    }

    fn refill(&mut self, now: Timestamp) {
        let limit = self.limits.microphone_burst_seconds * MICROPHONE_BYTES_PER_SECOND;
        let per_second = self.limits.microphone_speed_max * MICROPHONE_BYTES_PER_SECOND;
        let elapsed_micros = now.0.saturating_sub(self.credited_at.0);
        let credit = elapsed_micros.saturating_mul(per_second) / 1_000_000;
        // Time too short for a byte of credit is kept for the next frame.
        if credit > 0 {
            self.credit_bytes = self.credit_bytes.saturating_add(credit).min(limit);
            self.credited_at = now;
        }
    }

    /// Keeps microphone audio until the provider is ready.
    pub fn buffer(&mut self, pcm: &[u8]) {
        let bytes_max =
            usize::try_from(self.limits.buffered_seconds_max * MICROPHONE_BYTES_PER_SECOND)
                .unwrap_or(usize::MAX);
        let pcm = &pcm[pcm.len().saturating_sub(bytes_max)..];
        let excess = (self.waiting.len() + pcm.len()).saturating_sub(bytes_max);
        self.waiting.drain(..excess);
        self.counts.buffer_overflow_bytes += excess as u64;
        self.waiting.extend(pcm);
    }

    /// All buffered audio, oldest first.
    pub fn take_buffered(&mut self) -> VecDeque<u8> {
        std::mem::take(&mut self.waiting)
    }

    /// The provider's socket did not take a frame.
    pub fn provider_slow(&mut self, bytes: usize) {
        self.counts.provider_slow_bytes += bytes as u64;
    }

    /// Whether a frame of the model's voice goes to the client.
    pub fn admits_speech(&mut self, bytes: usize) -> bool {
        if self.is_discarding {
            self.counts.speaker_discarded_bytes += bytes as u64;
        } else if self.is_suppressed {
            self.counts.speaker_suppressed_bytes += bytes as u64;
        }
        !self.is_discarding && !self.is_suppressed
    }

    /// Counts a frame for the client, which plays it after the frames it has already.
    pub fn spoken(&mut self, now: Timestamp, bytes: usize) {
        let bytes = bytes as u64;
        self.counts.speaker_bytes += bytes;
        let length = Duration::from_micros(bytes * 1_000_000 / SPEAKER_BYTES_PER_SECOND);
        self.playback_ends = self.playback_ends.max(now) + length;
    }

    /// Counts a frame that was dropped because the client takes too little.
    pub fn client_slow(&mut self, bytes: usize) {
        self.counts.client_slow_bytes += bytes as u64;
    }

    /// Makes the current answer void, with all its audio that still arrives.
    pub fn discard(&mut self, now: Timestamp) {
        self.epoch += 1;
        self.playback_ends = now;
        self.is_discarding = true;
    }

    /// Marks later audio as part of an answer that may be heard.
    pub fn accept(&mut self) {
        self.is_discarding = false;
    }

    /// The number of discarded answers. Audio of an earlier epoch is never played.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn suppress_speech(&mut self, is_suppressed: bool) {
        self.is_suppressed = is_suppressed;
    }

    pub fn hold_microphone(&mut self, is_held: bool) {
        self.is_microphone_held = is_held;
    }

    /// Notes that the client has played all its audio.
    pub fn playback_done(&mut self, now: Timestamp) {
        self.playback_ends = now;
    }

    /// The duration of sent audio that the client cannot have played yet.
    pub fn unplayed(&self, now: Timestamp) -> Duration {
        self.playback_ends.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Timestamp {
        Timestamp::from_millis(count * 1_000)
    }

    #[test]
    fn twenty_times_real_time_overflows_and_real_time_never_does() {
        let frame = 640;
        let mut fast = Pump::new(AudioLimits::default());
        let verdicts: Vec<Microphone> = (0..1_000)
            .map(|number| fast.microphone(Timestamp(number * 1_000), frame))
            .collect();
        let news = Microphone::Overflow { is_news: true };
        let told = verdicts.iter().filter(|verdict| **verdict == news);
        assert_eq!(told.count(), 1);
        assert!(fast.counts().microphone_overflow_bytes > 300 * 640);
        let mut real = Pump::new(AudioLimits::default());
        for number in 0..100_000 {
            let verdict = real.microphone(Timestamp(number * 20_000), frame);
            assert_eq!(verdict, Microphone::Pass, "frame {number}");
        }
    }

    #[test]
    fn an_overflow_is_news_again_after_a_pause() {
        let mut pump = Pump::new(AudioLimits::default());
        let burst = 5 * 32_000;
        assert_eq!(pump.microphone(seconds(0), burst), Microphone::Pass);
        for is_news in [true, false, false] {
            let verdict = pump.microphone(seconds(0), 640);
            assert_eq!(verdict, Microphone::Overflow { is_news });
        }
        assert_eq!(pump.microphone(seconds(1), 64_000), Microphone::Pass);
        let again = Microphone::Overflow { is_news: false };
        assert_eq!(pump.microphone(seconds(1), 64_002), again, "no pause yet");
        assert_eq!(pump.microphone(seconds(3), 640), Microphone::Pass);
        let news = Microphone::Overflow { is_news: true };
        assert_eq!(pump.microphone(seconds(3), burst), news);
    }

    #[test]
    fn half_a_sample_is_refused() {
        let mut pump = Pump::new(AudioLimits::default());
        assert_eq!(pump.microphone(seconds(0), 641), Microphone::Odd);
        assert_eq!(pump.microphone(seconds(0), 0), Microphone::Pass);
    }

    #[test]
    fn a_held_microphone_is_dropped_and_not_kept() {
        let mut pump = Pump::new(AudioLimits::default());
        pump.hold_microphone(true);
        assert_eq!(pump.microphone(seconds(0), 640), Microphone::Held);
        pump.hold_microphone(false);
        assert_eq!(pump.microphone(seconds(0), 640), Microphone::Pass);
        assert_eq!(pump.counts().microphone_held_bytes, 640);
    }

    #[test]
    fn the_newest_ten_seconds_are_kept_for_a_provider_that_is_not_ready() {
        let mut pump = Pump::new(AudioLimits::default());
        for second in 0..12_u8 {
            pump.buffer(&[second; 32_000]);
        }
        let kept = pump.take_buffered();
        assert_eq!((kept.len(), kept[0], kept[319_999]), (320_000, 2, 11));
        assert_eq!(pump.counts().buffer_overflow_bytes, 64_000);
        assert!(pump.take_buffered().is_empty());
    }

    #[test]
    fn playback_is_reckoned_from_what_was_sent() {
        let mut pump = Pump::new(AudioLimits::default());
        pump.spoken(seconds(1), 48_000);
        pump.spoken(seconds(1), 48_000);
        assert_eq!(pump.unplayed(seconds(2)), Duration::from_secs(1));
        assert_eq!(pump.unplayed(seconds(9)), Duration::ZERO);
        pump.spoken(seconds(9), 24_000);
        assert_eq!(pump.unplayed(seconds(9)), Duration::from_millis(500));
        pump.playback_done(seconds(9));
        assert_eq!(pump.unplayed(seconds(9)), Duration::ZERO);
    }

    #[test]
    fn an_interrupted_answer_is_dropped_until_audio_is_accepted_again() {
        let mut pump = Pump::new(AudioLimits::default());
        assert!(pump.admits_speech(960));
        pump.spoken(seconds(0), 48_000);
        pump.discard(seconds(0));
        assert_eq!(
            (pump.epoch(), pump.unplayed(seconds(0))),
            (1, Duration::ZERO)
        );
        assert!(!pump.admits_speech(960), "late audio of the void answer");
        pump.accept();
        assert!(pump.admits_speech(960), "the next answer");
        assert_eq!(pump.counts().speaker_discarded_bytes, 960);
    }

    #[test]
    fn suppressed_speech_is_not_sent() {
        let mut pump = Pump::new(AudioLimits::default());
        pump.suppress_speech(true);
        assert!(!pump.admits_speech(960));
        pump.suppress_speech(false);
        assert!(pump.admits_speech(960));
        assert_eq!(pump.counts().speaker_suppressed_bytes, 960);
    }
}
