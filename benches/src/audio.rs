//! Measures the codec's cost of one frame of audio: 20 ms of the microphone into a frame, 40 ms of the model out of one.

use crate::measure::{PASS, cost, print, rounded};
use serde_json::json;
use std::hint::black_box;
use windlass_provider::gemini_live::{Codec, Sink, encode_audio};
use windlass_provider::profile;
use windlass_session::model::ModelEvent;

/// 20 ms at 16 kHz.
const UP_BYTES: usize = 640;
/// 40 ms at 24 kHz.
const DOWN_BYTES: usize = 1_920;

struct Forget;

impl Sink for Forget {
    fn event(&mut self, event: ModelEvent) {
        black_box(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        black_box(pcm);
    }
}

/// Bytes without a pattern that a fast path could love.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        })
        .collect()
}

fn report(label: &str, bytes: usize, once: impl FnMut(usize)) {
    let cost = cost(PASS / 2, once);
    print(&json!({
        "bench": "audio", "label": label, "pcm_bytes": bytes, "frames": cost.calls,
        "cpu_ns_per_frame": rounded(cost.processor_ns_per_call()),
    }));
}

pub(crate) fn run() {
    let microphone = noise(UP_BYTES);
    let mut frame = Vec::new();
    report("encode, microphone", UP_BYTES, |_| {
        frame.clear();
        encode_audio(&microphone, &mut frame);
        black_box(&frame);
    });
    let mut codec = Codec::new(
        profile::gemini_live(profile::GEMINI_LIVE_MODEL)
            .profile
            .model,
    );
    let data = base64_simd::STANDARD.encode_to_string(noise(DOWN_BYTES));
    let blob = json!({"mimeType": "audio/pcm;rate=24000", "data": data});
    // Written out, because the order of the keys is the service's.
    let short = format!(
        r#"{{"serverContent":{{"modelTurn":{{"parts":[{{"inlineData":{{"mimeType":"audio/pcm;rate=24000","data":"{data}"}}}}]}}}}}}"#
    );
    let other =
        json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": blob}]}}}).to_string();
    for (label, frame) in [
        ("decode, usual shape", &short),
        ("decode, any other shape", &other),
    ] {
        report(label, DOWN_BYTES, |_| {
            codec.decode(frame.as_bytes(), &mut Forget)
        });
    }
}
