//! Whatever happens in a conversation, and wherever it stops: the request that goes on with it is one that its provider
//! takes. Seeded random conversations, every prefix of them, every profile and several windows.

use super::accepted::{self, ChatRules, GeminiRules};
use super::{
    OPENAI, chat_body, chat_profile, chat_request, chat_route, gemini_body, gemini_request,
    gemini_route, interactions_body, interactions_request,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_contract::envelope::{Projection, ProjectionBody};
use windlass_contract::error::ErrorType;
use windlass_provider::log::{
    Arguments, Call, ConversationLog, Entry, Image, Limits, Opaque, Route, TextPiece,
};
use windlass_provider::{gemini_interactions, gemini_text, openai_chat, profile};
use windlass_session::model::ModelToolResponse;

/// A small generator of our own (xorshift64*), so that a seed means the same run for ever.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound).unwrap()
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const TEXTS: [&str; 6] = [
    "Hello.",
    "",
    " \n",
    "żółw 🐢",
    "{\"a\":1}",
    "a longer text, of several words",
];
const IDS: [Option<&str>; 8] = [
    None,
    Some("call_1"),
    Some("call_2"),
    Some("ab3dE6gh9"),
    Some("chatcmpl-tool-0123456789abcdef0123456789abcdef"),
    Some("call.with/odd:letters"),
    Some("wl0000000"),
    Some(""),
];
const NAMES: [&str; 5] = [
    "kb_search",
    "kb_get",
    "multi_tool_use.parallel",
    "",
    "7 seas",
];
const ARGUMENTS: [&str; 5] = [
    "{}",
    "{\"q\": \"Fram\"}",
    "{\"q\":",
    "[1]",
    "{\"a\":1,\"a\":2}",
];

fn route(random: &mut Random) -> Route {
    match random.below(3) {
        0 => gemini_route(),
        1 => chat_route(),
        _ => Route::foreign(),
    }
}

fn opaque(random: &mut Random) -> Option<Opaque> {
    match random.below(4) {
        0 => Some(Opaque::ThoughtSignature(Arc::<str>::from("QUJD").into())),
        1 => {
            let fields = json!({"extra_content": {"google": {"thought_signature": "QUJD"}}});
            let Value::Object(fields) = fields else {
                unreachable!()
            };
            Some(Opaque::Fields(fields.into()))
        }
        _ => None,
    }
}

fn name_of_70(random: &mut Random) -> Arc<str> {
    match random.below(12) {
        0 => "x".repeat(70).into(),
        _ => random.pick(&NAMES).into(),
    }
}

fn projection(random: &mut Random) -> Projection {
    let body = match random.below(3) {
        0 => ProjectionBody::Failure {
            error_type: ErrorType::Validation,
            message: "the arguments are no JSON object".to_owned(),
            retryable: false,
            suggestion: "Correct them.".to_owned(),
        },
        1 => ProjectionBody::Success {
            data: None,
            content: Vec::new(),
            cut: None,
            quoted: true,
        },
        _ => ProjectionBody::Success {
            data: Some(json!({"$ref": [1, "two"], "text": "x".repeat(40)}).into()),
            content: Vec::new(),
            cut: Some("2 list items were left out for length".to_owned()),
            quoted: true,
        },
    };
    Projection {
        duration_ms: 1,
        body,
    }
}

fn entry(random: &mut Random) -> Entry {
    let text = random.pick(&TEXTS).to_owned();
    match random.below(17) {
        0..=2 => Entry::UserText(text.into()),
        3 => Entry::UserImage(Image {
            mime_type: "image/png".to_owned(),
            data: Arc::<[u8]>::from([1, 2, 3]).into(),
        }),
        4 => Entry::Notice(text.into()),
        5 | 6 => Entry::AnswerStarted(route(random)),
        7 | 8 => Entry::Text(TextPiece {
            text: text.into(),
            is_thought: random.below(5) == 0,
            opaque: opaque(random),
        }),
        9..=11 => Entry::Call(Call {
            id: random.pick(&IDS).map(Arc::from),
            name: name_of_70(random),
            arguments: Arguments::parse(random.pick(&ARGUMENTS)),
            opaque: opaque(random),
        }),
        12..=14 => Entry::Result(ModelToolResponse {
            id: random.pick(&IDS).map(Arc::from),
            name: name_of_70(random),
            projection: projection(random),
            scheduling: None,
        }),
        15 => Entry::Interrupted,
        _ => Entry::AnswerOpaque(Opaque::Fields(
            Map::from_iter([("reasoning_content".to_owned(), json!("hm"))]).into(),
        )),
    }
}

fn check_gemini(log: &ConversationLog, tokens_max: u64, summary: &str) {
    let route = gemini_route();
    let tools = gemini_text::DeclaredTools::default();
    for (model, rules) in [
        (
            "gemini-3.5-flash",
            GeminiRules {
                ids_everywhere: true,
                signed_calls: true,
            },
        ),
        (
            "gemini-2.0-flash",
            GeminiRules {
                ids_everywhere: false,
                signed_calls: false,
            },
        ),
    ] {
        let mut request = gemini_request(log, &route, &tools);
        request.window = log.window(tokens_max).with_summary(summary);
        let body = gemini_body(&request, &profile::gemini_text(model).profile);
        if let Err(broken) = accepted::gemini(&body, rules) {
            panic!("{model}: {broken}\n{body:#}\n{log:#?}");
        }
    }
}

fn check_interactions(log: &ConversationLog, tokens_max: u64, summary: &str) {
    let route = gemini_route();
    let tools = gemini_interactions::DeclaredTools::default();
    for model in ["gemini-3.5-flash", "gemini-2.5-flash", "nobody-knows-it"] {
        let mut request = interactions_request(log, &route, &tools);
        request.window = log.window(tokens_max).with_summary(summary);
        let body = interactions_body(&request, &profile::gemini_text(model).profile);
        if let Err(broken) = accepted::interactions(&body) {
            panic!("{model}: {broken}\n{body:#}\n{log:#?}");
        }
    }
}

fn check_chat(log: &ConversationLog, tokens_max: u64, summary: &str) {
    let route = chat_route();
    let tools = openai_chat::DeclaredTools::default();
    for (base_url, rules) in [
        (OPENAI, ChatRules::default()),
        (
            "https://api.mistral.ai/v1",
            ChatRules {
                nine_letter_ids: true,
                no_user_after_tool: true,
                ..ChatRules::default()
            },
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ChatRules {
                signed_calls: true,
                ..ChatRules::default()
            },
        ),
        (
            "https://api.deepseek.com",
            ChatRules {
                reasoned_calls: true,
                ..ChatRules::default()
            },
        ),
    ] {
        let mut request = chat_request(log, &route, &tools);
        request.window = log.window(tokens_max).with_summary(summary);
        let body = chat_body(&request, &chat_profile(base_url));
        if let Err(broken) = accepted::chat(&body, rules) {
            panic!("{base_url}: {broken}\n{body:#}\n{log:#?}");
        }
    }
}

#[test]
fn every_prefix_of_every_conversation_is_a_request_that_its_provider_takes() {
    for seed in 1..=150 {
        let mut random = Random(seed * 7_919);
        // Small bounds, so that conversations are cut at their front as well.
        let mut log = ConversationLog::new(Limits {
            bytes_max: 4_000,
            turns_max: 6,
            pieces_max: 5,
            ..Limits::default()
        });
        check_gemini(&log, u64::MAX, "");
        check_chat(&log, u64::MAX, "");
        check_interactions(&log, u64::MAX, "");
        for _ in 0..40 {
            // What is refused is refused, and leaves a log that is as good as before.
            let _refused = log.append(entry(&mut random));
            let tokens_max = random.pick(&[0, 20, 100, u64::MAX]);
            let summary = random.pick(&["", "They spoke of ships."]);
            check_gemini(&log, tokens_max, summary);
            check_chat(&log, tokens_max, summary);
            check_interactions(&log, tokens_max, summary);
        }
        assert!(log.bytes() <= 4_000);
    }
}

#[test]
fn the_rules_are_not_empty() {
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ]});
    let user = json!({"role": "user", "content": "Hi"});
    let tool = json!({"role": "tool", "tool_call_id": "c1", "content": "{\"ok\":true,\"meta\":{\"toolId\":\"f\"}}"});
    for (messages, good) in [
        (vec![&user, &call, &tool], true),
        (vec![&user, &call], false),
        (vec![&user, &call, &user], false),
        (vec![&user, &tool], false),
        (vec![&call, &tool], false),
        (vec![&user, &call, &tool, &tool], false),
        (vec![&user, &user], false),
        (vec![], false),
    ] {
        let body = json!({ "messages": messages });
        assert_eq!(
            accepted::chat(&body, ChatRules::default()).is_ok(),
            good,
            "{body}"
        );
    }
    let call = json!({"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {}}}]});
    let user = json!({"role": "user", "parts": [{"text": "Hi"}]});
    let answer = json!({"role": "user", "parts": [
        {"functionResponse": {"id": "c1", "name": "f", "response": {"output": {}}}}
    ]});
    let other = json!({"role": "user", "parts": [
        {"functionResponse": {"id": "c2", "name": "f", "response": {"output": {}}}}
    ]});
    let rules = GeminiRules {
        ids_everywhere: true,
        signed_calls: false,
    };
    for (contents, good) in [
        (vec![&user, &call, &answer], true),
        (vec![&user, &call, &answer, &user], true),
        (vec![&user, &call], false),
        (vec![&user, &call, &user], false),
        (vec![&user, &call, &other], false),
        (vec![&call, &answer], false),
        (vec![&user, &answer], false),
        (vec![&user, &user], false),
    ] {
        let body = json!({ "contents": contents });
        assert_eq!(accepted::gemini(&body, rules).is_ok(), good, "{body}");
    }
    let call = json!({"type": "function_call", "id": "c1", "name": "f", "arguments": {}});
    let user = json!({"type": "user_input", "content": [{"type": "text", "text": "Hi"}]});
    let result = json!({"type": "function_result", "call_id": "c1", "result": [{"type": "text", "text": "{}"}]});
    for (input, good) in [
        (vec![&user, &call, &result], true),
        (vec![&user, &call, &result, &user], true),
        (vec![&user, &call], false),
        (vec![&user, &call, &user], false),
        (vec![&user, &result], false),
        (vec![&user, &user], false),
        (vec![&user, &call, &call, &result], false),
        (vec![], false),
    ] {
        let body = json!({ "input": input });
        assert_eq!(accepted::interactions(&body).is_ok(), good, "{body}");
    }
}
