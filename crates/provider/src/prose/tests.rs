//! The spoken part of an answer, however it is cut, and its form in the log.

use super::{Prose, ProseRules};
use crate::answer::{AnswerPiece, Ending, ModelAnswer};
use crate::log::TextPiece;
use std::sync::Arc;
use windlass_session::model::ModelEvent;

fn rules() -> ProseRules {
    ProseRules {
        thoughts: true,
        begins_in_thought: false,
        tools: Arc::new([Arc::from("kb_search"), Arc::from("book")]),
    }
}

struct Heard {
    said: String,
    logged: String,
    ending: Ending,
    passed_on: bool,
    began_in_thought: bool,
    oddities: usize,
}

/// `is_streamed` passes the words on after each piece, as a driver does.
fn hear(rules: &ProseRules, pieces: &[&str], is_streamed: bool) -> Heard {
    let mut prose = Prose::new(rules.clone());
    let (mut events, mut handed) = (Vec::new(), Vec::new());
    for piece in pieces {
        let from = events.len();
        events.push(ModelEvent::OutputText {
            text: (*piece).to_owned().into(),
        });
        prose.hear(&mut events, from);
        if is_streamed {
            handed.append(&mut events);
        }
    }
    let mut answer = ModelAnswer {
        pieces: vec![AnswerPiece::Text(TextPiece::plain(pieces.concat()))],
        opaque: None,
        calls: Vec::new(),
        usage: None,
        ending: Ending::Complete,
        passed_on: true,
    };
    let began_in_thought = prose.finish(&mut answer, &mut events);
    handed.append(&mut events);
    let said = handed.iter().filter_map(|event| match event {
        ModelEvent::OutputText { text } => Some(text.expose().as_str()),
        _ => None,
    });
    let logged = answer.pieces.iter().filter_map(|piece| match piece {
        AnswerPiece::Text(text) => Some(text.text.expose().as_str()),
        AnswerPiece::Call(_) => None,
    });
    Heard {
        said: said.collect(),
        logged: logged.collect(),
        ending: answer.ending,
        passed_on: answer.passed_on,
        began_in_thought,
        oddities: handed
            .iter()
            .filter(|event| matches!(event, ModelEvent::Malformed { .. }))
            .count(),
    }
}

/// The answer whole, and cut at every place into two and into single signs.
fn cuts(answer: &str) -> Vec<Vec<&str>> {
    let places: Vec<usize> = answer.char_indices().map(|(at, _)| at).collect();
    let mut cuts = vec![vec![answer]];
    cuts.extend(places.iter().map(|at| vec![&answer[..*at], &answer[*at..]]));
    cuts.push(answer.split_inclusive(|_| true).collect());
    cuts
}

#[test]
fn thoughts_are_not_said_however_they_are_cut() {
    for (answer, said) in [
        ("<think>Who is it?</think>It is Maud.", "It is Maud."),
        ("\n<think>\nWho?\n</think>\n\nIt is Maud.", "It is Maud."),
        ("<THINKING>a</THINKING>b", "b"),
        ("One. <think>Hm.</think>Two.", "One. Two."),
        // Nested tags, and a tag that a thought only mentions.
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a <think> is a tag</think>Maud.", "Maud."),
        ("<think>`</think>` is a tag</think>Maud.", "Maud."),
        // Unclosed tags: a thought, unless the tag is only mentioned.
        ("<think>Who is it", ""),
        ("<think></think>", ""),
        ("<think> \n</think>\n", ""),
        // A surplus end changes nothing before it.
        ("<think>a</think>It is Maud.</think>", "It is Maud."),
        (
            "The tag <think> is for thoughts.",
            "The tag <think> is for thoughts.",
        ),
        (
            "The tag `<think>` or \"</think>\".",
            "The tag `<think>` or \"</think>\".",
        ),
        (
            "So:\n```\n<think>x</think>\n```\nDone.",
            "So:\n```\n<think>x</think>\n```\nDone.",
        ),
        ("1 < 2, a<b, <thi", "1 < 2, a<b, <thi"),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Maud.<|return|>",
            "Maud.",
        ),
    ] {
        for pieces in cuts(answer) {
            for is_streamed in [true, false] {
                let heard = hear(&rules(), &pieces, is_streamed);
                assert_eq!(heard.said, said, "{pieces:?}");
                assert_eq!(heard.logged, said, "{pieces:?}");
                assert_eq!(heard.passed_on, !said.is_empty(), "{pieces:?}");
                assert_eq!(heard.ending, Ending::Complete, "{pieces:?}");
            }
        }
    }
    let off = ProseRules {
        thoughts: false,
        ..rules()
    };
    let answer = "<think>a</think>b";
    assert_eq!(hear(&off, &[answer], true).said, answer);
    assert_eq!(hear(&ProseRules::default(), &[answer], true).logged, answer);
}

#[test]
fn a_closing_tag_alone_ends_a_thought_and_is_known_from_then_on() {
    let answer = "The user asks who.\n</think>\nIt is Maud.";
    for pieces in cuts(answer) {
        let whole = hear(&rules(), &pieces, false);
        assert_eq!(
            (&*whole.said, &*whole.logged),
            ("It is Maud.", "It is Maud.")
        );
        assert!(whole.began_in_thought, "{pieces:?}");
        let streamed = hear(&rules(), &pieces, true);
        assert_eq!(streamed.logged, "It is Maud.", "{pieces:?}");
        assert!(!streamed.said.contains("think>"), "{pieces:?}");
        let known = ProseRules {
            begins_in_thought: true,
            ..rules()
        };
        let known = hear(&known, &pieces, true);
        assert_eq!(known.said, "It is Maud.", "{pieces:?}");
    }
    let known = ProseRules {
        begins_in_thought: true,
        ..rules()
    };
    assert_eq!(hear(&known, &["It is", " Maud."], true).said, "It is Maud.");
    let thought = "I could use <tool_call> or {\"name\": \"book\"} here.\n</think>\nIt is Maud.";
    for pieces in cuts(thought) {
        let heard = hear(&known, &pieces, true);
        let both = (&*heard.said, &*heard.logged);
        assert_eq!(both, ("It is Maud.", "It is Maud."), "{pieces:?}");
    }
}

#[test]
fn a_call_that_is_written_as_prose_is_neither_said_nor_believed() {
    for (answer, said) in [
        (
            "Let me look. <tool_call>{\"name\": \"kb_search\", \"arguments\": {}}</tool_call>\n<tool_response>{}</tool_response>Done!",
            "Let me look. ",
        ),
        // Markup is a call whatever it names.
        ("<tool_call>{\"name\": \"rm\"}</tool_call> Deleted.", ""),
        ("<function=book>{\"day\": 1}</function>It is booked.", ""),
        (
            "{\"name\": \"book\", \"arguments\": {\"day\": 1}}\nBooked.",
            "",
        ),
        ("[{\"name\": \"book\", \"parameters\": {\"day\": 1}}]", ""),
        (
            "{\"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"book\", \"arguments\": \"{}\"}}]}",
            "",
        ),
        (
            "Sure.\n```json\n{\"name\": \"book\", \"arguments\": {}}\n```\nBooked!",
            "Sure.\n",
        ),
        ("{\"name\": \"book\", \"arguments\": {\"day\"", ""),
        (
            "<|channel|>commentary to=functions.book <|constrain|>json<|message|>{\"day\":1}<|call|>",
            "",
        ),
        ("commentary to=functions.book json{\"day\":1}", ""),
        (
            "<think>I call book.</think><tool_call>{\"name\":\"book\"}</tool_call>",
            "",
        ),
    ] {
        for pieces in cuts(answer) {
            let heard = hear(&rules(), &pieces, true);
            assert_eq!(heard.said, said, "{pieces:?}");
            assert_eq!(heard.logged, said, "{pieces:?}");
            assert_eq!(heard.ending, Ending::ProseCall, "{pieces:?}");
            assert_eq!(heard.oddities, 1, "{pieces:?}");
        }
    }
}

#[test]
fn json_that_is_no_call_of_a_declared_tool_is_said() {
    for answer in [
        "{\"name\": \"Maud\", \"arguments\": {}}",
        "{\"name\": \"unknown_tool\", \"arguments\": {\"a\": 1}}\nThat is it.",
        "{\"title\": \"book\"}",
        "[1, 2, {\"name\": \"x\"}]",
        "```json\n{\"name\": \"Maud\", \"age\": 7}\n```\n",
        "```rust\nfn main() {}\n```",
        "{",
        "[link](https://example.org), {x}",
        "A line.\n{\"name\": \"Maud\"}",
        "Write `<tool_call>` for it.",
        "common to=functions",
    ] {
        for pieces in cuts(answer) {
            let heard = hear(&rules(), &pieces, true);
            assert_eq!(heard.said, answer, "{pieces:?}");
            assert_eq!(heard.logged, answer, "{pieces:?}");
            assert_eq!(heard.ending, Ending::Complete, "{pieces:?}");
        }
    }
}

#[test]
fn hostile_answers_are_read_to_their_end() {
    for hostile in [
        "<think>".repeat(20_000),
        "</think>".repeat(20_000),
        "{\"name\":".repeat(5_000),
        "[".repeat(50_000),
        "[\n".repeat(200_000),
        "`".repeat(50_000),
        "word ".repeat(200_000),
    ] {
        let pieces: Vec<&str> = hostile.split_inclusive(['k', ':', ' ']).collect();
        for begins_in_thought in [false, true] {
            let rules = ProseRules {
                begins_in_thought,
                ..rules()
            };
            assert_eq!(hear(&rules, &pieces, true).ending, Ending::Complete);
            assert_eq!(hear(&rules, &[&hostile], true).ending, Ending::Complete);
        }
    }
}
