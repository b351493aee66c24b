//! Frames that are no messages, and messages that hold what nobody knows.

use crate::{Said, codec, decode};
use serde_json::json;
use windlass_session::model::ModelEvent;

const MODEL: &str = "gemini-3.8-live";

#[test]
fn what_is_no_message_is_malformed_and_its_content_is_not_repeated() {
    for frame in [
        &b""[..],
        b"null",
        b"[]",
        b"7",
        b"\"hunter2\"",
        b"hunter2",
        b"{\"serverContent\":{\"turnComplete\":true}} hunter2",
        b"{\"serverContent\":{\"outputTranscription\":{\"text\":\"hunter2",
        b"{\"setupComplete\":{},\"setup_complete\":{}}",
        b"\xff\xfe",
        b"{\"serverContent\":{\"outputTranscription\":{\"text\":\"\xff\"}}}",
    ] {
        let said = decode(&mut codec(MODEL), frame);
        let [Said::Event(ModelEvent::Malformed { problem })] = &said[..] else {
            panic!("{}: {said:?}", String::from_utf8_lossy(frame));
        };
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[test]
fn a_field_of_a_wrong_type_is_named_and_its_content_is_not_repeated() {
    for (frame, field) in [
        (
            r#"{"serverContent":{"turnComplete":"hunter2"}}"#,
            "serverContent.turnComplete",
        ),
        (
            r#"{"serverContent":{"outputTranscription":{"text":{"hunter2":1}}}}"#,
            "serverContent.outputTranscription.text",
        ),
        (
            r#"{"toolCall":{"functionCalls":"hunter2"}}"#,
            "toolCall.functionCalls",
        ),
        (
            r#"{"toolCallCancellation":{"ids":[7]}}"#,
            "toolCallCancellation.ids",
        ),
    ] {
        let said = decode(&mut codec(MODEL), frame.as_bytes());
        let fields = vec![field.to_owned()];
        assert_eq!(
            said,
            [Said::Event(ModelEvent::Unknown { fields })],
            "{frame}"
        );
    }
}

#[test]
fn nesting_without_end_is_malformed_and_not_a_crash() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(100_000);
        for frame in [
            deep.clone(),
            format!("{{\"newField\":{deep}"),
            format!("{{\"toolCall\":{{\"functionCalls\":[{{\"name\":\"f\",\"args\":{deep}"),
            format!("{{\"toolCall\":{{\"functionCalls\":{deep}"),
        ] {
            let said = decode(&mut codec(MODEL), frame.as_bytes());
            assert!(
                matches!(said[..], [Said::Event(ModelEvent::Malformed { .. })]),
                "{said:?}"
            );
        }
    }
    let args = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let frame =
        format!(r#"{{"toolCall":{{"functionCalls":[{{"name":"f","args":{{"a":{args}}}}}]}}}}"#);
    let said = decode(&mut codec(MODEL), frame.as_bytes());
    let [Said::Event(ModelEvent::Calls(calls))] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(calls[0].arguments.is_err());
}

#[test]
fn unknown_fields_are_reported_by_path_and_hide_nothing() {
    let frame = json!({
        "futureMessage": {"hunter2": "hunter2"},
        "serverContent": {
            "mood": "hunter2",
            "turnComplete": true,
            "modelTurn": {"parts": [{"smell": 1, "inlineData": {"pitch": 2}}, {"smell": 2}]}
        },
        "toolCall": {"functionCalls": [{"id": "c1", "name": "f", "args": {"own": 1}, "urgency": 9}]}
    })
    .to_string();
    let mut codec = codec(MODEL);
    let said = decode(&mut codec, frame.as_bytes());
    let [
        Said::Event(ModelEvent::Unknown { fields }),
        Said::Event(ModelEvent::Calls(_)),
        Said::Event(ModelEvent::TurnComplete { .. }),
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert_eq!(
        fields[..],
        [
            "futureMessage",
            "serverContent.mood",
            "serverContent.modelTurn.parts.smell",
            "serverContent.modelTurn.parts.inlineData.pitch",
            "toolCall.functionCalls.urgency",
        ]
    );
    assert_eq!(decode(&mut codec, frame.as_bytes()).len(), 3);
}

#[test]
fn a_flood_of_unknown_fields_is_bounded_and_printable() {
    let mut codec = codec(MODEL);
    let mut reported = 0;
    for round in 0..50 {
        let fields: serde_json::Map<_, _> = (0..50)
            .map(|field| (format!("{round}-{field}\n{}", "é".repeat(500)), json!(1)))
            .collect();
        for said in decode(&mut codec, json!(fields).to_string().as_bytes()) {
            let Said::Event(ModelEvent::Unknown { fields }) = said else {
                panic!("{said:?}");
            };
            reported += fields.len();
            let is_printable = |field: &String| {
                field.chars().count() <= 121 && !field.chars().any(char::is_control)
            };
            assert!(fields.iter().all(is_printable), "{fields:?}");
        }
    }
    assert_eq!(reported, 50 * 8);
}
