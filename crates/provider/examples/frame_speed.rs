//! Measures what one frame costs the Gemini Live codec: audio in both directions, a transcript, a call and its answer.
//! Prints nanoseconds; knows nothing of targets. Run it with `cargo run --release -p windlass-provider --example frame_speed`.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock and prints"
)]

use std::hint::black_box;
use std::time::Instant;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_provider::gemini_live::{Codec, Sink, encode_audio};
use windlass_provider::profile;
use windlass_session::model::{ModelCommand, ModelEvent, ModelToolResponse};

struct Forget;

impl Sink for Forget {
    fn event(&mut self, event: ModelEvent) {
        black_box(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        black_box(pcm);
    }
}

/// Prints the fastest of several rounds, which is the least disturbed by the machine.
fn measure(name: &str, mut once: impl FnMut()) {
    const ROUNDS: u32 = 15;
    const TIMES: u32 = 20_000;
    let fastest = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..TIMES).for_each(|_| once());
            start.elapsed() / TIMES
        })
        .min()
        .unwrap_or_default();
    println!("{name:<46} {:>6} ns", fastest.as_nanos());
}

fn main() {
    let mut codec = Codec::new(
        profile::gemini_live(profile::GEMINI_LIVE_MODEL)
            .profile
            .model,
    );
    let pcm = vec![0x5a; 1_280];
    measure_decoding(&mut codec, &pcm);
    measure_encoding(&mut codec, &pcm);
}

fn measure_decoding(codec: &mut Codec, pcm: &[u8]) {
    let data = base64_simd::STANDARD.encode_to_string(pcm);

    let frames = [
        (
            "decode 1,280 bytes of audio",
            format!(
                r#"{{"serverContent":{{"modelTurn":{{"parts":[{{"inlineData":{{"mimeType":"audio/pcm;rate=24000","data":"{data}"}}}}]}}}}}}"#
            ),
        ),
        (
            "decode the same, laid out in lines",
            format!(
                "{{\n  \"serverContent\": {{\n    \"modelTurn\": {{\n      \"parts\": [\n        {{\n          \"inlineData\": {{\n            \"mimeType\": \"audio/pcm;rate=24000\",\n            \"data\": \"{data}\"\n          }}\n        }}\n      ]\n    }}\n  }}\n}}\n"
            ),
        ),
        (
            "decode the same, in the order of Vertex",
            format!(
                r#"{{"serverContent":{{"modelTurn":{{"role":"model","parts":[{{"inlineData":{{"mimeType":"audio/pcm","data":"{data}"}}}}]}}}}}}"#
            ),
        ),
        (
            "decode a piece of a transcript",
            r#"{"serverContent":{"outputTranscription":{"text":" recorded"}}}"#.to_owned(),
        ),
        (
            "decode a call with three arguments",
            r#"{"toolCall":{"functionCalls":[{"id":"function-call-3225422447732038294","name":"kb_search","args":{"query":"who designed the ship","top_k":3,"types":["person"]}}]}}"#
                .to_owned(),
        ),
    ];
    for (name, frame) in &frames {
        measure(name, || {
            codec.decode(black_box(frame.as_bytes()), &mut Forget)
        });
    }
}

fn measure_encoding(codec: &mut Codec, pcm: &[u8]) {
    let mut frame = Vec::new();
    measure("encode 640 bytes of audio", || {
        frame.clear();
        encode_audio(black_box(&pcm[..640]), &mut frame);
        black_box(&frame);
    });

    let answer = ModelCommand::ToolResponses(vec![ModelToolResponse {
        id: Some("function-call-3225422447732038294".into()),
        name: "kb_search".into(),
        projection: Projection {
            duration_ms: 1,
            body: ProjectionBody::Success {
                data: Some(serde_json::json!({"results": [
                    {"id": "person-archer", "title": "Colin Archer", "score": 7.25, "snippet": "Designed and built Fram at Larvik."},
                    {"id": "ship-fram", "title": "Fram", "score": 6.5, "snippet": "Polar ship launched on 26 October 1892."}
                ]}).into()),
                content: vec![],
                cut: None,
                quoted: true,
            },
        },
        scheduling: None,
    }]);
    let mut answers = Vec::new();
    measure("encode an answer with two records", || {
        answers.clear();
        codec.encode(black_box(&answer), &mut answers);
        black_box(&answers);
    });
}
