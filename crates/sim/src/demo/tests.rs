//! The demo model's rules, each by its words and calls.

use super::*;

fn tool(name: &str, parameters: Value) -> Declaration {
    Declaration {
        name: name.to_owned(),
        description: String::new(),
        parameters,
        json_schema: false,
        blocking: true,
    }
}

fn usual_tools() -> Vec<Declaration> {
    let text = || json!({"type": "STRING"});
    vec![
        tool(
            SEARCH,
            json!({"type": "OBJECT", "required": ["query"], "properties": {
            "query": {"type": "STRING", "maxLength": "200"}, "top_k": {"type": "INTEGER", "minimum": 1, "maximum": 10}}}),
        ),
        tool(
            GET,
            json!({"type": "OBJECT", "required": ["id"], "properties": {"id": text()}}),
        ),
        tool(
            END,
            json!({"type": "OBJECT", "properties": {
            "reason": {"type": "STRING", "enum": ["user_requested", "goodbye"]}, "closing_message": text()}}),
        ),
        tool(
            IGNORE,
            json!({"type": "OBJECT", "required": ["duration_seconds", "farewell_message"], "properties": {
            "duration_seconds": {"type": "NUMBER", "minimum": 30, "maximum": 86400}, "farewell_message": text()}}),
        ),
    ]
}

fn world(tools: &[Declaration]) -> World<'_> {
    World::read("", tools)
}

fn called(replies: &[Reply]) -> (&str, Value) {
    match replies {
        [Reply::Call { name, args }, Reply::AwaitResults] => (name, Value::Object(args.clone())),
        other => panic!("one call: {other:?}"),
    }
}

fn said(replies: &[Reply]) -> &str {
    match replies {
        [Reply::Say(text)] => text,
        other => panic!("one sentence: {other:?}"),
    }
}

fn result(data: Value) -> [(String, Value); 1] {
    [(
        "tool".to_owned(),
        json!({"output": {"status": "ok", "data": data}}),
    )]
}

const ARCHER: &str = "# Life\n\nColin Archer was born in Larvik in 1832. He **designed** and built the ship [Fram](x) for \
    Nansen's drift.\n\nMr. A. Archer's yard stood at Larvik.";

#[test]
fn a_question_searches_reads_the_best_hit_and_answers_from_it_with_its_title() {
    let (mut model, tools) = (Model::new(), usual_tools());
    let replies = model.hear(SUGGESTIONS[0], &world(&tools));
    assert_eq!(
        called(&replies),
        (SEARCH, json!({"query": "designed ship Fram", "top_k": 5}))
    );
    let hits = result(
        json!({"results": [{"id": "person:colin_archer", "title": "Colin Archer"}, {"id": "x"}]}),
    );
    assert_eq!(
        called(&model.consult(&hits, &world(&tools))),
        (GET, json!({"id": "person:colin_archer"}))
    );
    let record =
        result(json!({"id": "person:colin_archer", "title": "Colin Archer", "full_text": ARCHER}));
    assert_eq!(
        said(&model.consult(&record, &world(&tools))),
        "He designed and built the ship Fram for Nansen's drift. Mr. A. Archer's yard stood at Larvik. \
         That is from “Colin Archer”."
    );
    // A question that refers back keeps the topic.
    assert_eq!(
        called(&model.hear("And when was he born?", &world(&tools))).1["query"],
        "born Colin Archer"
    );
}

#[test]
fn a_date_and_a_number_are_looked_for_where_they_are_asked_for() {
    let text = "Fram left for the ice. Fram was launched in 1892 at Larvik. Her hull was 80 cm thick at the bow. Her hull was strong.";
    let record = Record {
        title: "Fram".into(),
        text: text.into(),
    };
    for (question, expected) in [
        (
            "When was Fram launched?",
            Some("Fram was launched in 1892 at Larvik."),
        ),
        (
            "How thick was Fram's hull?",
            Some("Her hull was 80 cm thick at the bow."),
        ),
        ("Tell me about polar bears", None),
        ("Who launched the Titanic?", None),
        ("When was the hull of Gjøa 80 cm thick?", None),
    ] {
        let answer = Question::new(question).answer_from(&record);
        match expected {
            Some(first) => assert!(answer.unwrap().starts_with(first), "{question}"),
            None => assert_eq!(answer, None, "{question}"),
        }
    }
}

#[test]
fn the_hit_whose_words_fit_best_is_read() {
    let (mut model, tools) = (Model::new(), usual_tools());
    model.hear(SUGGESTIONS[3], &world(&tools));
    let hits = result(json!({"results": [
        {"id": "nilsen", "title": "Nilsen", "snippet": "Nilsen was captain on the third voyage."},
        {"id": "sverdrup", "title": "Sverdrup", "snippet": "On the first voyage he was the captain."},
        {"id": "first", "title": "The first voyage", "snippet": "Sverdrup was the captain."},
    ]}));
    assert_eq!(
        called(&model.consult(&hits, &world(&tools))),
        (GET, json!({"id": "sverdrup"}))
    );
}

#[test]
fn without_kb_get_the_snippet_is_the_answer() {
    let (mut model, tools) = (Model::new(), usual_tools()[..1].to_vec());
    model.hear(SUGGESTIONS[0], &world(&tools));
    let hits = result(
        json!({"results": [{"id": "a", "title": "Archer", "snippet": {"text": "Archer designed Fram."}}]}),
    );
    assert_eq!(
        said(&model.consult(&hits, &world(&tools))),
        "Archer designed Fram. That is from “Archer”."
    );
}

#[test]
fn a_failed_read_falls_back_to_the_snippet() {
    let (mut model, tools) = (Model::new(), usual_tools());
    model.hear(SUGGESTIONS[0], &world(&tools));
    model.consult(
        &result(
            json!({"results": [{"id": "a", "title": "Archer", "snippet": "Archer designed Fram."}]}),
        ),
        &world(&tools),
    );
    let failure = [(
        "kb_get".to_owned(),
        json!({"error": {"type": "BUDGET_EXCEEDED", "message": "spent"}}),
    )];
    assert_eq!(
        said(&model.consult(&failure, &world(&tools))),
        "Archer designed Fram. That is from “Archer”."
    );
}

#[test]
fn a_refused_search_is_answered_with_what_is_known_or_with_the_reason() {
    let (mut model, tools) = (Model::new(), usual_tools());
    let refusal = [(
        "kb_search".to_owned(),
        json!({"error": {"message": "the budget of this turn is spent"}}),
    )];
    model.hear(SUGGESTIONS[0], &world(&tools));
    assert_eq!(
        said(&model.consult(&refusal, &world(&tools))),
        "I cannot look that up now: The budget of this turn is spent."
    );
    model.topic = Some(Record {
        title: "Colin Archer".into(),
        text: ARCHER.into(),
    });
    model.hear(SUGGESTIONS[0], &world(&tools));
    assert!(said(&model.consult(&refusal, &world(&tools))).contains("designed and built"));
}

#[test]
fn what_no_record_answers_is_not_known() {
    let fram = json!({"id": "a", "title": "Archer", "snippet": "Archer designed the ship Fram."});
    for (question, results) in [
        ("What is the price of herring?", json!([])),
        ("What is the price of herring?", json!([fram])),
        ("Who designed the Titanic?", json!([fram])),
        ("Who was the first man on the Moon?", json!([fram])),
    ] {
        let (mut model, tools) = (Model::new(), usual_tools()[..1].to_vec());
        model.hear(question, &world(&tools));
        let answer = model.consult(&result(json!({ "results": results })), &world(&tools));
        assert!(said(&answer).starts_with("I do not know"), "{question}");
        assert_eq!(model.topic, None, "{question}");
    }
}

#[test]
fn a_topic_that_is_pointed_at_is_no_answer_by_itself() {
    let (mut model, tools) = (Model::new(), usual_tools()[..1].to_vec());
    let hits = result(
        json!({"results": [{"id": "a", "title": "Archer", "snippet": "Archer drew Fram."}]}),
    );
    for (question, answer) in [
        ("Who drew Fram?", "Archer drew Fram."),
        ("What did he eat?", "I do not know"),
    ] {
        model.hear(question, &world(&tools));
        assert!(
            said(&model.consult(&hits, &world(&tools))).starts_with(answer),
            "{question}"
        );
    }
}

#[test]
fn a_farewell_ends_the_session_and_is_spoken_as_the_answer_to_the_result() {
    let (mut model, tools) = (Model::new(), usual_tools());
    for text in [
        "Let's stop here",
        "Let’s stop here.",
        "bye",
        "Okay, goodbye!",
        "That's all, thanks",
    ] {
        let replies = model.hear(text, &world(&tools));
        assert_eq!(
            called(&replies),
            (
                END,
                json!({"reason": "user_requested", "closing_message": FAREWELL})
            ),
            "{text}"
        );
        assert_eq!(
            said(&model.consult(&result(json!({"finalMessage": "See you."})), &world(&tools))),
            "See you."
        );
    }
    assert!(said(&model.hear("bye", &world(&[]))).contains("cannot end the session"));
    // A question about the end of something is a question.
    assert_eq!(
        called(&model.hear("When did Amundsen stop here?", &world(&tools))).0,
        SEARCH
    );
}

#[test]
fn rudeness_is_warned_of_once_and_then_ignored() {
    let (mut model, tools) = (Model::new(), usual_tools());
    assert!(said(&model.hear("You idiot!", &world(&tools))).contains("friendly"));
    let replies = model.hear("Shut up, stupid.", &world(&tools));
    let (name, args) = called(&replies);
    assert_eq!((name, &args["duration_seconds"]), (IGNORE, &json!(300)));
    assert_eq!(
        said(&model.consult(&result(json!({"timeoutUntil": 1})), &world(&tools))),
        SHUNNED
    );
    assert!(said(&model.hear("idiot", &world(&[]))).contains("insults"));
    // A word inside another one is no insult.
    assert_ne!(
        rules::request("Where is foolscap paper made?"),
        Request::Rudeness
    );
}

#[test]
fn small_talk_and_unknown_things_get_guidance() {
    let (mut model, tools) = (Model::new(), usual_tools());
    for (text, part) in [
        ("Hello there", "demo model"),
        ("Thanks!", "welcome"),
        ("What can you do?", "ask: Who designed"),
        ("hm", "ask: Who designed"),
        ("", "ask: Who designed"),
        ("?!", "ask: Who designed"),
        ("🧊", "ask: Who designed"),
    ] {
        assert!(
            said(&model.hear(text, &world(&tools))).contains(part),
            "{text}"
        );
    }
    assert!(said(&model.hear_speech()).contains("cannot recognise speech"));
    assert_eq!(
        called(&model.hear("Otto Sverdrup", &world(&tools))).1["query"],
        "Otto Sverdrup"
    );
}

#[test]
fn only_declared_tools_are_called_and_only_with_declared_arguments() {
    let mut model = Model::new();
    assert!(said(&model.hear(SUGGESTIONS[0], &world(&[]))).contains("no tool kb_search"));
    let odd = [tool(
        SEARCH,
        json!({"type": "OBJECT", "required": ["query", "tenant"], "properties": {"query": {}, "tenant": {}}}),
    )];
    assert!(said(&model.hear(SUGGESTIONS[0], &world(&odd))).contains("wants something else"));
    let bare = [tool(SEARCH, Value::Null)];
    assert!(said(&model.hear(SUGGESTIONS[0], &world(&bare))).contains("wants something else"));
    let short = [tool(
        SEARCH,
        json!({"properties": {"query": {"maxLength": 8}}}),
    )];
    assert_eq!(
        called(&model.hear(SUGGESTIONS[0], &world(&short))).1,
        json!({"query": "designed"})
    );
    let never = [tool(
        END,
        json!({"required": ["reason"], "properties": {"reason": {"enum": ["x"]}}}),
    )];
    assert!(said(&model.hear("bye", &world(&never))).contains("cannot end"));
}

#[test]
fn any_declared_tool_can_be_called_by_name() {
    let mut model = Model::new();
    let tools = [tool("tell_time", Value::Null)];
    assert_eq!(
        called(&model.hear("call tell_time {\"zone\": \"Oslo\"}", &world(&tools))),
        ("tell_time", json!({"zone": "Oslo"}))
    );
    assert_eq!(
        said(&model.consult(&result(json!({"time": "9"})), &world(&tools))),
        "tell_time answered: time: 9."
    );
    assert_eq!(
        said(&model.hear("call make_tea", &world(&tools))),
        "No tool called make_tea was declared to me."
    );
}

#[test]
fn a_tool_that_does_not_block_is_bridged_with_a_word() {
    let mut tools = usual_tools();
    tools[0].blocking = false;
    let replies = Model::new().hear(SUGGESTIONS[0], &world(&tools));
    assert!(matches!(
        &replies[..],
        [Reply::Call { .. }, Reply::Say(_), Reply::AwaitResults]
    ));
}

#[test]
fn odd_results_are_no_trouble() {
    for response in [
        json!(null),
        json!({}),
        json!([]),
        json!({"output": "text"}),
        json!({"output": {"data": {"results": [7]}}}),
        json!({"error": "lost"}),
        json!({"error": {}}),
    ] {
        let (mut model, tools) = (Model::new(), usual_tools());
        model.hear(SUGGESTIONS[0], &world(&tools));
        let replies = model.consult(
            &[("kb_search".to_owned(), response.clone())],
            &world(&tools),
        );
        assert!(!said(&replies).is_empty(), "{response}");
        assert_eq!(model.consult(&[], &world(&tools)), []);
    }
}

#[test]
fn every_suggestion_is_understood_as_a_question() {
    for suggestion in SUGGESTIONS {
        assert!(
            matches!(rules::request(suggestion), Request::Question(_)),
            "{suggestion}"
        );
    }
}

#[test]
fn of_messages_without_an_answer_the_last_is_answered() {
    let (mut model, tools) = (Model::new(), usual_tools());
    let parts = [SUGGESTIONS[1].to_owned(), SUGGESTIONS[0].to_owned()];
    assert_eq!(
        called(&model.hear_parts(&parts, &world(&tools))),
        (SEARCH, json!({"query": "designed ship Fram", "top_k": 5}))
    );
}
