//! The simulator's voice: a soft sequence of tones in place of speech, as long as the text requires. Knows no words; tones make sure that
//! it is not mistaken for a person.

/// The service speaks 16-bit little-endian mono PCM at this rate.
pub(crate) const RATE_HZ: u64 = 24_000;
/// Sixteen tones a second, about the pace of syllables and their halves.
const SAMPLES_PER_TONE: usize = 1_500;
/// 4.75 s: an answer of the demo model stays under five seconds.
const TONES_MAX: usize = 76;
/// The peak of a tone: quiet compared to full scale.
const AMPLITUDE: f32 = 3_600.0;
/// A pentatonic scale around the pitch of a low speaking voice, in hertz: any two of its tones sound well together.
const SCALE: [f32; 8] = [196.0, 220.0, 246.9, 293.7, 329.6, 392.0, 440.0, 493.9];

/// One utterance, produced piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    /// Places in the scale; `None` is a rest.
    tones: Vec<Option<u8>>,
    position: usize,
}

impl Voice {
    /// A word is a tone for each few letters; a sign of punctuation is a rest.
    pub(crate) fn of_text(text: &str) -> Self {
        let mut tones = Vec::new();
        for word in text.split_whitespace() {
            let letters: Vec<u8> = word.bytes().filter(u8::is_ascii_alphanumeric).collect();
            for group in letters.chunks(4) {
                let sum: u32 = group.iter().map(|letter| u32::from(*letter)).sum();
                tones.push(Some((sum % 8) as u8));
            }
            if word.ends_with(['.', ',', '!', '?', ';', ':']) {
                tones.push(None);
            }
        }
        tones.truncate(TONES_MAX);
        if tones.is_empty() {
            tones.push(None);
        }
        Self { tones, position: 0 }
    }

    /// Tones for a given time, without any text.
    pub(crate) fn of_length(milliseconds: u64) -> Self {
        let count = (milliseconds * 16).div_ceil(1_000).max(1);
        Self {
            tones: (0..count)
                .map(|index| Some((index * 3 % 8) as u8))
                .collect(),
            position: 0,
        }
    }

    pub(crate) fn samples(&self) -> usize {
        self.tones.len() * SAMPLES_PER_TONE
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_over(&self) -> bool {
        self.position >= self.samples()
    }

    /// Appends the next samples to `pcm`, at most `count`; returns their number.
    pub(crate) fn speak(&mut self, count: usize, pcm: &mut Vec<u8>) -> usize {
        let end = (self.position + count).min(self.samples());
        let produced = end - self.position;
        pcm.reserve(2 * produced);
        for index in self.position..end {
            let within = index % SAMPLES_PER_TONE;
            let sample = match self.tones[index / SAMPLES_PER_TONE] {
                Some(tone) => tone_at(SCALE[usize::from(tone) % SCALE.len()], within),
                None => 0,
            };
            pcm.extend_from_slice(&sample.to_le_bytes());
        }
        self.position = end;
        produced
    }
}

/// A sine with a little of its octave, faded in and out so that no click is heard.
fn tone_at(frequency_hz: f32, within: usize) -> i16 {
    use std::f32::consts::PI;
    let time = within as f32 / RATE_HZ as f32;
    let envelope = (PI * within as f32 / SAMPLES_PER_TONE as f32).sin();
    let angle = 2.0 * PI * frequency_hz * time;
    let wave = 0.8 * angle.sin() + 0.2 * (2.0 * angle).sin();
    (AMPLITUDE * envelope * wave) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(mut voice: Voice) -> Vec<i16> {
        let mut pcm = Vec::new();
        while !voice.is_over() {
            voice.speak(960, &mut pcm);
        }
        pcm.chunks_exact(2)
            .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
            .collect()
    }

    #[test]
    fn an_answer_is_longer_for_more_text_and_never_five_seconds() {
        let length = |text: &str| spoken(Voice::of_text(text)).len();
        assert!(length("Yes.") < length("Yes, Colin Archer designed her."));
        assert!(length(&"word and ".repeat(500)) < 5 * RATE_HZ as usize);
        assert!(length("") > 0 && length("¿?") > 0);
    }

    #[test]
    fn tones_are_heard_are_soft_and_do_not_click() {
        let samples = spoken(Voice::of_text("Colin Archer designed the ship"));
        let loudest = samples
            .iter()
            .map(|sample| sample.unsigned_abs())
            .max()
            .unwrap();
        let step = samples
            .windows(2)
            .map(|pair| (i32::from(pair[0]) - i32::from(pair[1])).abs())
            .max()
            .unwrap();
        assert!((1_500..6_000).contains(&loudest), "{loudest}");
        assert!(step < 900, "{step}");
    }
}
