//! The conversation's log: what it takes, what it forgets, and where its window cuts.

use super::{
    OPENAI, call, chat_body, chat_profile, chat_request, chat_route, log_of, result, said, user,
};
use serde_json::json;
use std::sync::Arc;
use windlass_provider::log::{
    AppendError, ConversationLog, Entry, Image, Limits, Opaque, Route, Window, own_call_id,
};
use windlass_provider::openai_chat::DeclaredTools;
use windlass_session::model::{HistoryEntry, Role, UNNAMED};

/// The messages of a window in short: the role's first letter and the content.
fn shown(log: &ConversationLog, window: Window<'_>) -> Vec<String> {
    let (route, tools) = (chat_route(), DeclaredTools::default());
    let mut request = chat_request(log, &route, &tools);
    request.system_instruction = "".into();
    request.window = window;
    let body = chat_body(&request, &chat_profile(OPENAI));
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let role = &message["role"].as_str().unwrap()[..1];
            format!("{role} {}", message["content"].as_str().unwrap_or("-"))
        })
        .collect()
}

fn three_turns() -> ConversationLog {
    log_of([
        said("Welcome."),
        user(&"a".repeat(40)),
        said(&"b".repeat(40)),
        user(&"c".repeat(40)),
        Entry::Call(call(Some("call_1"), "f", "{}")),
        result(Some("call_1"), "f", json!("d".repeat(40))),
        said(&"e".repeat(40)),
        user("Bye."),
    ])
}

#[test]
fn a_window_holds_whole_turns_from_the_newest_on() {
    let log = three_turns();
    let all = log.window(u64::MAX);
    assert_eq!(all.tokens(), 2 + 10 + 10 + 10 + 12 + 10 + 1);
    for (tokens_max, first, turns_left_out) in [
        (u64::MAX, "u (What was said before this is not shown.)", 0),
        (55, "u (What was said before this is not shown.)", 0),
        (53, "u aaaa", 1),
        (52, "u cccc", 2),
        (33, "u cccc", 2),
        (32, "u Bye.", 3),
        (0, "u Bye.", 3),
    ] {
        let window = log.window(tokens_max);
        let messages = shown(&log, window);
        assert!(messages[0].starts_with(first), "{tokens_max}: {messages:?}");
        assert_eq!(messages.last().unwrap(), "u Bye.", "{tokens_max}");
        assert_eq!(
            window.older().is_empty(),
            turns_left_out == 0,
            "{tokens_max}"
        );
    }
    let older = log.window(0).older();
    assert_eq!(older.tokens(), all.tokens() - 1);
    assert!(
        shown(&log, older)
            .last()
            .unwrap()
            .starts_with("u (Please go on")
    );
}

#[test]
fn a_summary_stands_before_what_is_left() {
    let log = three_turns();
    let window = log.window(0).with_summary("They spoke of letters.");
    assert_eq!(
        shown(&log, window),
        [
            "u (Summary of the conversation before this, as context only:)\nThey spoke of letters.\n\nBye."
        ]
    );
    assert_eq!(log.window(0).with_summary("abcd").tokens(), 2);
    assert_eq!(shown(&log, log.window(0).with_summary(" ")), ["u Bye."]);
}

#[test]
fn notices_and_interruptions_are_said_and_begin_no_turn() {
    let log = log_of([
        user("Do it."),
        said("I will"),
        Entry::Interrupted,
        Entry::Interrupted,
        Entry::Notice("The request was approved.".to_owned().into()),
    ]);
    assert_eq!(
        shown(&log, log.window(0)),
        [
            "u Do it.",
            "a I will",
            "u (The user interrupted the answer before this and may not have seen all of it.)\n\n(Notice of the system, not of the user:)\nThe request was approved.",
        ]
    );
}

#[test]
fn earlier_conversation_can_be_put_in() {
    let entry = |role, text: &str| {
        Entry::earlier(HistoryEntry {
            role,
            text: text.to_owned().into(),
        })
    };
    let log = log_of([
        entry(Role::Assistant, "Hello. "),
        entry(Role::Assistant, "How are you?"),
        entry(Role::User, "Well."),
    ]);
    assert_eq!(
        shown(&log, log.window(u64::MAX)),
        [
            "u (What was said before this is not shown.)",
            "a Hello. How are you?",
            "u Well.",
        ]
    );
}

#[test]
fn an_empty_log_is_a_request_as_well() {
    let log = ConversationLog::default();
    assert!(log.is_empty() && log.window(10).is_empty());
    assert_eq!(shown(&log, log.window(10)), ["u (Please go on.)"]);
}

#[test]
fn what_comes_after_a_result_belongs_to_the_next_answer() {
    let log = log_of([
        user("Hi"),
        Entry::AnswerStarted(Route::new("here")),
        Entry::Call(call(Some("call_1"), "f", "{}")),
        result(Some("call_1"), "f", json!(1)),
        said("One."),
        Entry::Call(call(Some("call_2"), "f", "{}")),
    ]);
    assert_eq!(log.next_answer(), 2);
    let messages = shown(&log, log.window(u64::MAX));
    assert_eq!(messages[1], "a -");
    assert_eq!(messages[3], "a One.");
    assert_eq!(messages.len(), 5);
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let limits = Limits {
        bytes_max: 2_000,
        turns_max: 3,
        text_bytes_max: 100,
        image_bytes_max: 10,
        pieces_max: 2,
    };
    let mut log = ConversationLog::new(limits);
    for (entry, refusal) in [
        (user(" \n"), Some(AppendError::Blank)),
        (said(""), Some(AppendError::Blank)),
        (
            user(&"é".repeat(51)),
            Some(AppendError::TooLong {
                what: "message",
                bytes: 102,
                bytes_max: 100,
            }),
        ),
        (
            Entry::UserImage(Image {
                mime_type: "image/png".to_owned(),
                data: Arc::<[u8]>::from([0; 11]).into(),
            }),
            Some(AppendError::TooLong {
                what: "picture",
                bytes: 11,
                bytes_max: 10,
            }),
        ),
        (
            result(Some("call_1"), "f", json!(1)),
            Some(AppendError::NoOpenCall),
        ),
        (user("Hi"), None),
        (Entry::Call(call(Some("call_1"), "f", "{}")), None),
        (said("x"), None),
        (
            said("y"),
            Some(AppendError::TooManyPieces { pieces_max: 2 }),
        ),
        (result(None, "f", json!(1)), Some(AppendError::NoOpenCall)),
        (
            result(Some("call_2"), "f", json!(1)),
            Some(AppendError::NoOpenCall),
        ),
        (result(Some("call_1"), "f", json!(1)), None),
        (
            result(Some("call_1"), "f", json!(1)),
            Some(AppendError::NoOpenCall),
        ),
        (
            Entry::AnswerOpaque(Opaque::ThoughtSignature(
                Arc::<str>::from("x".repeat(101)).into(),
            )),
            Some(AppendError::TooLong {
                what: "piece of an answer",
                bytes: 101,
                bytes_max: 100,
            }),
        ),
    ] {
        let before = log.bytes();
        let outcome = log.append(entry.clone());
        assert_eq!(outcome.clone().err(), refusal, "{entry:?}");
        assert!(outcome.is_ok() || log.bytes() == before, "{entry:?}");
    }
}

#[test]
fn a_full_log_forgets_its_oldest_turns_whole() {
    let limits = Limits {
        bytes_max: 1_000,
        turns_max: 3,
        ..Limits::default()
    };
    let mut log = ConversationLog::new(limits);
    for turn in 0..10 {
        log.append(user(&format!("question {turn}"))).unwrap();
        log.append(said(&format!("answer {turn}"))).unwrap();
    }
    assert!(log.bytes() <= 1_000);
    let messages = shown(&log, log.window(u64::MAX));
    assert_eq!(messages.last().unwrap(), "u (Please go on.)");
    assert!(messages[0].starts_with("u question"), "{messages:?}");
    let kept = messages
        .iter()
        .filter(|text| text.starts_with("a "))
        .count();
    assert!(kept <= 3);
    assert_eq!(log.turns_forgotten(), u64::try_from(10 - kept).unwrap());

    // One turn that is longer than all that fits is cut at its end, not at its front.
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(log.append(said(&"z".repeat(90))).is_err());
    }
    assert!(refused > 0 && log.bytes() <= 1_000);
    assert!(shown(&log, log.window(0))[0].starts_with("u question 9"));

    let mut single = ConversationLog::new(Limits {
        turns_max: 1,
        ..Limits::default()
    });
    for turn in 0..3 {
        single.append(user(&format!("question {turn}"))).unwrap();
        single.append(said("ok")).unwrap();
    }
    assert_eq!(single.turns_forgotten(), 2);
}

/// A picture that can be told from the others.
fn picture(mark: u8) -> Entry {
    Entry::UserImage(Image {
        mime_type: "image/png".to_owned(),
        data: Arc::<[u8]>::from([mark; 999]).into(),
    })
}

/// The marks of the pictures that a request shows, in ascending order.
fn pictures_in(log: &ConversationLog, window: Window<'_>) -> Vec<u8> {
    let (route, tools) = (chat_route(), DeclaredTools::default());
    let mut request = chat_request(log, &route, &tools);
    request.window = window;
    let body = chat_body(&request, &chat_profile(OPENAI)).to_string();
    let is_shown = |mark: &u8| body.contains(&base64_simd::STANDARD.encode_to_string([*mark; 999]));
    (1..=9).filter(is_shown).collect()
}

#[test]
fn the_oldest_pictures_are_left_out_first_and_with_all_of_their_turn() {
    let turns = [
        user("These?"),
        picture(1),
        picture(2),
        said("Ships."),
        user("And this?"),
        picture(3),
        said("A dog."),
        user("And this?"),
        picture(4),
        picture(5),
    ];
    let log = log_of(turns.clone());
    let all = log.window(u64::MAX).tokens();
    for (tokens_max, shown) in [
        (all, &[1, 2, 3, 4, 5][..]),
        (all - 1, &[3, 4, 5]),
        (3 * 1_120 + 20, &[3, 4, 5]),
        (3 * 1_120, &[4, 5]),
        // What was shown last is shown in any case.
        (0, &[4, 5]),
    ] {
        let window = log.window(tokens_max);
        assert_eq!(pictures_in(&log, window), shown, "{tokens_max} tokens");
    }
    // Memory is given back in the same order.
    let mut small = ConversationLog::new(Limits {
        bytes_max: 4_500,
        ..Limits::default()
    });
    small.append_all(turns).unwrap();
    assert_eq!(pictures_in(&small, small.window(u64::MAX)), [3, 4, 5]);
    assert_eq!(small.turns_forgotten(), 1);
}

#[test]
fn own_ids_are_nine_letters_and_all_different() {
    let ids: std::collections::BTreeSet<_> = [0, 1, 35, 36, 60_466_175]
        .into_iter()
        .flat_map(|answer| [0, 1, 36, 255].map(|call| own_call_id(answer, call)))
        .collect();
    assert_eq!(ids.len(), 20);
    assert!(
        ids.iter()
            .all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    );
}

#[test]
fn nothing_that_was_said_is_printed() {
    let mut log = three_turns();
    log.append(Entry::Call(call(None, "f", "{\"a\":\"hunter2\"}")))
        .unwrap();
    log.append(user("hunter2")).unwrap();
    let printed = format!("{log:?}");
    assert!(!printed.contains("hunter2") && !printed.contains("Welcome"));
}

#[test]
fn the_answer_to_a_call_that_names_no_tool_finds_it() {
    let log = log_of([
        user("Go on."),
        Entry::Call(call(None, "", "{}")),
        Entry::Call(call(None, "f", "{}")),
        result(None, "f", json!("f's")),
        result(None, UNNAMED, json!("the nameless one's")),
    ]);
    assert_eq!(log.open_calls(), 0);
}
