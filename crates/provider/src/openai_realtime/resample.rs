//! The microphone's 16 kHz as the 24 kHz that OpenAI takes. Knows samples and nothing of their content.

/// The microphone's audio at the service's rate: every second sample is an original one, the others are interpolated by a
/// windowed sinc.
///
/// Speech goes through within a ten-thousandth of its power up to 5 kHz (measured against the ideal), half a millisecond
/// late. All sums are whole numbers, so that every machine sends the same bytes.
#[derive(Clone, Debug)]
pub struct Resampler {
    /// The newest earlier samples, from which the next ones are computed.
    samples: Vec<i16>,
}

/// Samples that one interpolated sample is made of.
const TAPS: usize = 16;
/// How many of them come after the place that is interpolated.
const AHEAD: usize = 8;
/// Three samples of 16 bits, which two become.
const BYTES_PER_STEP: usize = 6;
/// The weights at a third of the way between the eighth and the ninth sample, in 1/32768. They add up to one, so that
/// loudness stays. Kaiser window with β 6.5. Two thirds of the way they come in the other order.
const THIRD: [i16; TAPS] = [
    -41, 148, -378, 811, -1578, 2988, -6233, 26963, 13273, -4755, 2409, -1272, 637, -283, 102, -23,
];
const TWO_THIRDS: [i16; TAPS] = {
    let mut reversed = [0; TAPS];
    let mut at = 0;
    while at < TAPS {
        reversed[at] = THIRD[TAPS - 1 - at];
        at += 1;
    }
    reversed
};

impl Default for Resampler {
    fn default() -> Self {
        Self {
            samples: vec![0; TAPS - AHEAD - 1],
        }
    }
}

impl Resampler {
    /// Resamples the next audio: 16-bit little-endian mono PCM, 16 kHz in, 24 kHz out. Half a sample at the end is dropped.
    pub fn push(&mut self, pcm: &[u8], resampled: &mut Vec<u8>) {
        let (pairs, _) = pcm.as_chunks::<2>();
        self.samples
            .extend(pairs.iter().map(|pair| i16::from_le_bytes(*pair)));
        // Two samples more become three, once the eight behind the second are known.
        let steps = self.samples.len().saturating_sub(TAPS - 1) / 2;
        let from = resampled.len();
        resampled.resize(from + steps * BYTES_PER_STEP, 0);
        let (places, _) = resampled[from..].as_chunks_mut::<BYTES_PER_STEP>();
        let around = self.samples.windows(TAPS + 1).step_by(2);
        for (place, samples) in places.iter_mut().zip(around) {
            let (Some(first), Some(second)) = (samples.first_chunk(), samples.last_chunk()) else {
                continue;
            };
            let spoken = first[TAPS - AHEAD - 1].to_le_bytes();
            let early = interpolated(first, &TWO_THIRDS).to_le_bytes();
            let late = interpolated(second, &THIRD).to_le_bytes();
            *place = [spoken[0], spoken[1], early[0], early[1], late[0], late[1]];
        }
        self.samples.drain(..steps * 2);
    }
}

/// Weights of 16 bits, as the samples have them, so that a processor multiplies eight at once.
fn interpolated(samples: &[i16; TAPS], weights: &[i16; TAPS]) -> i16 {
    const HALF: i32 = 1 << 14;
    // The weights' magnitudes add up to less than two, so the sum stays within 32 bits.
    let sum: i32 = samples
        .iter()
        .zip(weights)
        .map(|(sample, weight)| i32::from(*sample) * i32::from(*weight))
        .sum();
    let rounded = (sum + HALF) >> 15;
    rounded.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn bytes(samples: impl IntoIterator<Item = i16>) -> Vec<u8> {
        samples.into_iter().flat_map(i16::to_le_bytes).collect()
    }

    fn resampled(pcm: &[u8], piece: usize) -> Vec<i16> {
        let mut resampler = Resampler::default();
        let mut out = Vec::new();
        for piece in pcm.chunks(piece) {
            resampler.push(piece, &mut out);
        }
        out.as_chunks::<2>()
            .0
            .iter()
            .map(|pair| i16::from_le_bytes(*pair))
            .collect()
    }

    fn tone(hertz: f64, rate: f64, samples: usize) -> Vec<i16> {
        (0..samples)
            .map(|at| (16_000.0 * (TAU * hertz * at as f64 / rate).sin()) as i16)
            .collect()
    }

    #[test]
    fn speech_keeps_its_pitch_and_its_loudness() {
        for hertz in [120.0, 1_000.0, 3_400.0, 5_000.0] {
            let heard = resampled(&bytes(tone(hertz, 16_000.0, 16_000)), 640);
            let ideal = tone(hertz, 24_000.0, 24_000);
            let (mut noise, mut power) = (0.0, 0.0);
            for (heard, ideal) in heard.iter().zip(&ideal).skip(100) {
                noise += f64::from(heard - ideal).powi(2);
                power += f64::from(*ideal).powi(2);
            }
            assert!(noise < power / 100_000.0, "{hertz} Hz: {}", noise / power);
        }
    }

    #[test]
    fn pieces_of_any_length_make_the_same_sound() {
        let pcm = bytes(tone(440.0, 16_000.0, 3_001));
        let whole = resampled(&pcm, pcm.len());
        assert_eq!(whole.len(), 3 * ((3_001 - AHEAD) / 2));
        for piece in [2, 4, 6, 640, 642, 1_000] {
            assert_eq!(resampled(&pcm, piece), whole, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn every_second_sample_is_the_spoken_one_and_the_loudest_is_not_wrapped() {
        let loud: Vec<i16> = (0..200)
            .map(|at| if at % 7 < 3 { i16::MAX } else { i16::MIN })
            .collect();
        let heard = resampled(&bytes(loud.clone()), 400);
        for (at, sample) in heard.iter().step_by(3).enumerate() {
            assert_eq!(*sample, loud[at * 2]);
        }
        let steady = resampled(&bytes([i16::MAX; 200]), 400);
        assert!(steady[60..].iter().all(|sample| *sample == i16::MAX));
    }
}
