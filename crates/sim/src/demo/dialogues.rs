//! Whole dialogues as scripts: the user's words, the tools' answers, and the demo model's calls and words between them. The schemas are
//! those that projects get.

use super::*;

const TODAY: &str = "You help.\n\n# Today\n\nIt is Saturday, 28 November 2026, 12:30 (Europe/Oslo, UTC+01:00; the user's time zone).\n\n\
    # Available Tools (v1)\n";

/// A line of a script: `user:` or `gives:` (a result) is input, all other lines have to come out in this order.
fn check(tools: &[Declaration], instruction: &str, script: &str) {
    let world = World::read(instruction, tools);
    let mut model = Model::new();
    let mut came: Vec<String> = Vec::new();
    let mut shown = String::new();
    let mut tool = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let replies = if let Some(text) = line.strip_prefix("user: ") {
            model.hear(&text.replace("\\n", "\n"), &world)
        } else if let Some(text) = line.strip_prefix("gives: ") {
            let value = serde_json::from_str(text).unwrap();
            model.consult(&[(tool.clone(), value)], &world)
        } else {
            continue;
        };
        shown.push_str(line);
        shown.push('\n');
        came.clear();
        for reply in replies {
            match reply {
                Reply::Say(text) => came.push(format!("says: {text}")),
                Reply::Call { name, args } => {
                    came.push(format!("calls: {name} {}", Value::Object(args)));
                    tool = name;
                }
                Reply::AwaitResults => {}
            }
        }
        for line in &came {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    let expected: Vec<&str> = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "\n{shown}");
}

/// The tools of these folders, as declared to a text model.
fn declared(names: &[&str]) -> Vec<Declaration> {
    let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/_optional");
    let read = |name: &&str| {
        let text = std::fs::read_to_string(tools.join(name).join("schema.json")).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        Declaration {
            name: schema["toolId"].as_str().unwrap().to_owned(),
            description: schema["description"].as_str().unwrap().to_owned(),
            parameters: schema["parameters"].clone(),
            json_schema: true,
            blocking: true,
        }
    };
    names.iter().map(read).collect()
}

fn calendar() -> Vec<Declaration> {
    declared(&[
        "calendar-get-availability",
        "calendar-list-events",
        "calendar-create-event",
        "calendar-move-event",
        "calendar-cancel-event",
    ])
}

fn own(name: &str, parameters: Value) -> Declaration {
    Declaration {
        name: name.to_owned(),
        description: String::new(),
        parameters,
        json_schema: true,
        blocking: true,
    }
}

#[test]
fn a_slot_is_offered_chosen_and_booked() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Am I free on Monday afternoon?
        calls: calendar_get_availability {"end_date":"2026-11-30T17:00:00+01:00","start_date":"2026-11-30T12:00:00+01:00"}
        gives: {"ok":true,"data":{"available_slots":[{"start":"2026-11-30T12:00:00+01:00","end":"2026-11-30T13:00:00+01:00","duration_minutes":60},{"start":"2026-11-30T14:00:00+01:00","end":"2026-11-30T17:00:00+01:00","duration_minutes":180}]},"meta":{}}
        says: Free are 1) Monday 30 November, 12:00 to 13:00; 2) Monday 30 November, 14:00 to 17:00. Which one shall I book?
        user: Three o'clock works.
        says: Please tell me the e-mail addresses of those who take part.
        user: anna@example.org and bob@example.org
        calls: calendar_create_event {"attendees":["anna@example.org","bob@example.org"],"end_time":"2026-11-30T16:00:00+01:00","start_time":"2026-11-30T15:00:00+01:00","title":"Meeting"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: (Notice of the system, not of the user:)\n(A message of the system, not of the user.) The user approved the call of calendar_create_event, and it has run. Its result: {"status":"success","data":{"event":{"event_id":"e1","calendar":"primary","title":"Meeting","start":"2026-11-30T15:00:00+01:00","end":"2026-11-30T16:00:00+01:00","all_day":false,"status":"confirmed","attendees":["anna@example.org"]}}}
        says: You said yes. “Meeting” is in the calendar: Monday 30 November, 15:00 to 16:00.
        user: Make it an hour later.
        calls: calendar_move_event {"end_time":"2026-11-30T17:00:00+01:00","event_id":"e1","start_time":"2026-11-30T16:00:00+01:00","title":"Meeting"}
        gives: {"ok":true,"data":{"event":{"event_id":"e1","calendar":"primary","title":"Meeting","start":"2026-11-30T16:00:00+01:00","end":"2026-11-30T17:00:00+01:00","all_day":false,"status":"confirmed","attendees":[]}},"meta":{}}
        says: “Meeting” was moved: Monday 30 November, 16:00 to 17:00.
        user: Please cancel it
        calls: calendar_cancel_event {"event_id":"e1","start_time":"2026-11-30T16:00:00+01:00","title":"Meeting","whole_series":false}
        gives: {"ok":true,"data":{"event":{"event_id":"e1","calendar":"primary","title":"Meeting","start":"2026-11-30T16:00:00+01:00","end":"2026-11-30T17:00:00+01:00","all_day":false,"status":"cancelled","attendees":[]}},"meta":{}}
        says: “Meeting” is cancelled: Monday 30 November, 16:00 to 17:00.
        "#,
    );
}

#[test]
fn the_only_slot_is_booked_by_a_yes_and_refused_where_it_is_taken() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Show me free slots for 30 minutes tomorrow morning
        calls: calendar_get_availability {"end_date":"2026-11-29T12:00:00+01:00","min_duration_minutes":30,"start_date":"2026-11-29T08:00:00+01:00"}
        gives: {"ok":true,"data":{"available_slots":[{"start":"2026-11-29T09:00:00+01:00","end":"2026-11-29T09:30:00+01:00","duration_minutes":30}]},"meta":{}}
        says: Free is Sunday 29 November, 09:00 to 09:30. Shall I book it?
        user: Yes, book the first one for "Fram review" with maud@example.org
        calls: calendar_create_event {"attendees":["maud@example.org"],"end_time":"2026-11-29T09:30:00+01:00","start_time":"2026-11-29T09:00:00+01:00","title":"Fram review"}
        gives: {"ok":false,"error":{"type":"CONFLICT","message":"the time is taken"},"meta":{}}
        says: calendar_create_event gave no result: The time is taken.
        user: What do I have tomorrow?
        calls: calendar_list_events {"end_date":"2026-11-30T00:00:00+01:00","start_date":"2026-11-29T00:00:00+01:00"}
        gives: {"ok":true,"data":{"time_zone":"Europe/Oslo","items":[],"left_out":0},"meta":{}}
        says: Nothing is planned then.
        "#,
    );
}

#[test]
fn a_change_of_mind_while_the_question_is_open_asks_anew() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Book lunch with Anna tomorrow at 1 pm, anna@example.org
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2026-11-29T14:00:00+01:00","start_time":"2026-11-29T13:00:00+01:00","title":"Lunch with Anna"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: yes
        says: Please answer the question that you are shown: a yes in words is no approval.
        user: Actually, make it 2 pm.
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2026-11-29T15:00:00+01:00","start_time":"2026-11-29T14:00:00+01:00","title":"Lunch with Anna"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet. Please say no to the question before it.
        user: (Notice of the system, not of the user:)\n(A message of the system, not of the user.) The user was asked whether calendar_create_event may run with {"title":"Lunch with Anna"} and said no, with this reason in the user's own words: "too early". It has not run. Do not call it again unless the user asks for it.
        says: You said no to calendar_create_event, and it has not run. Your words were: “too early”.
        "#,
    );
}

#[test]
fn a_no_to_the_question_before_leaves_the_newer_one_to_be_changed_again() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Book lunch with Anna on 1 July 2027 at 1 pm, anna@example.org
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2027-07-01T14:00:00+02:00","start_time":"2027-07-01T13:00:00+02:00","title":"Lunch with Anna"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: Actually, make it 2 pm.
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2027-07-01T15:00:00+02:00","start_time":"2027-07-01T14:00:00+02:00","title":"Lunch with Anna"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet. Please say no to the question before it.
        user: (Notice of the system, not of the user:)\n(A message of the system, not of the user.) The user was asked whether calendar_create_event may run with {"attendees":["anna@example.org"],"end_time":"2027-07-01T14:00:00+02:00","include_zoom_link":true,"start_time":"2027-07-01T13:00:00+02:00","title":"Lunch with Anna"} and said no. It has not run. Do not call it again unless the user asks for it.
        says: You said no to calendar_create_event, and it has not run.
        user: Actually, make it 3 pm.
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2027-07-01T16:00:00+02:00","start_time":"2027-07-01T15:00:00+02:00","title":"Lunch with Anna"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event was done before, at 2026-11-28T11:29:00.000Z with {\"title\":\"Lunch with Anna\"}. It was not done again: the user is being asked whether to do it once more"},"meta":{}}
        says: calendar_create_event was done before, and was not done again: it waits for your yes to do it once more. Please say no to the question before it.
        user: (Notice of the system, not of the user:)\n(A message of the system, not of the user.) The user approved the call of calendar_create_event, and it has run. Its result: {"status":"success","data":{"event":{"event_id":"e1","calendar":"primary","title":"Lunch with Anna","start":"2027-07-01T15:00:00+02:00","end":"2027-07-01T16:00:00+02:00","all_day":false,"status":"confirmed","attendees":["anna@example.org"]}}}
        says: You said yes. “Lunch with Anna” is in the calendar: Thursday 1 July 2027, 15:00 to 16:00.
        "#,
    );
}

#[test]
fn what_is_asked_twice_is_told_as_the_program_tells_it() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Book a meeting tomorrow at 3 pm
        says: Please tell me the e-mail addresses of those who take part.
        user: No, on Monday at 4 pm, with anna@example.org
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2026-11-30T17:00:00+01:00","start_time":"2026-11-30T16:00:00+01:00","title":"Meeting"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: Book a meeting on Monday at 4 pm with anna@example.org
        calls: calendar_create_event {"attendees":["anna@example.org"],"end_time":"2026-11-30T17:00:00+01:00","start_time":"2026-11-30T16:00:00+01:00","title":"Meeting"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"the user is being asked already whether calendar_create_event may run with {}, and is asked nothing further before that is answered"},"meta":{}}
        says: You are being asked about that already: nothing has been done yet.
        user: Never mind
        says: Then please say no to the question that you are shown: without your yes nothing is done.
        "#,
    );
}

#[test]
fn an_event_is_found_by_its_title_and_among_several_by_a_choice() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Move the project meeting to Tuesday at 4 pm
        calls: calendar_list_events {"end_date":"2026-12-29T00:00:00+01:00","max_results":50,"start_date":"2026-11-28T12:30:00+01:00"}
        gives: {"ok":true,"data":{"items":[{"event_id":"a","title":"Project meeting","start":"2026-11-30T14:00:00+01:00","end":"2026-11-30T14:30:00+01:00"},{"event_id":"w/20261130T080000Z","title":"Weekly","start":"2026-11-30T09:00:00+01:00","end":"2026-11-30T10:00:00+01:00"}]}}
        calls: calendar_move_event {"end_time":"2026-12-01T16:30:00+01:00","event_id":"a","start_time":"2026-12-01T16:00:00+01:00","title":"Project meeting"}
        gives: {"ok":false,"error":{"type":"CONFLICT","message":"that time is taken"}}
        says: calendar_move_event gave no result: That time is taken.
        user: I can't come on Monday, please cancel.
        calls: calendar_list_events {"end_date":"2026-12-01T00:00:00+01:00","max_results":50,"start_date":"2026-11-30T00:00:00+01:00"}
        gives: {"ok":true,"data":{"items":[{"event_id":"a","title":"Project meeting","start":"2026-11-30T14:00:00+01:00","end":"2026-11-30T14:30:00+01:00"},{"event_id":"w/20261130T080000Z","title":"Weekly","start":"2026-11-30T09:00:00+01:00","end":"2026-11-30T10:00:00+01:00"}]}}
        says: Please tell me which one you mean: 1) “Project meeting”, Monday 30 November, 14:00 to 14:30; 2) “Weekly”, Monday 30 November, 09:00 to 10:00.
        user: the second one
        says: Please tell me whether only this one or the whole series is meant.
        user: only this one
        calls: calendar_cancel_event {"event_id":"w/20261130T080000Z","start_time":"2026-11-30T09:00:00+01:00","title":"Weekly","whole_series":false}
        gives: {"ok":true,"data":{"event":{"event_id":"w/20261130T080000Z","title":"Weekly","start":"2026-11-30T09:00:00+01:00","end":"2026-11-30T10:00:00+01:00"}}}
        says: “Weekly” is cancelled: Monday 30 November, 09:00 to 10:00.
        user: Cancel the dentist appointment
        calls: calendar_list_events {"end_date":"2026-12-29T00:00:00+01:00","max_results":50,"start_date":"2026-11-28T12:30:00+01:00"}
        gives: {"ok":true,"data":{"items":[{"event_id":"a","title":"Project meeting","start":"2026-11-30T14:00:00+01:00","end":"2026-11-30T14:30:00+01:00"}]}}
        says: I find no such event in the next 31 days. If it is later, please say on which day.
        "#,
    );
}

#[test]
fn what_is_missing_is_asked_for_and_can_be_left() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Book a call
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: on Monday at 9 with a@example.org for 15 minutes
        calls: calendar_create_event {"attendees":["a@example.org"],"end_time":"2026-11-30T09:15:00+01:00","start_time":"2026-11-30T09:00:00+01:00","title":"Call"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event cannot be asked for now: too many questions wait for the user already"}}
        says: calendar_create_event gave no result: calendar_create_event cannot be asked for now: too many questions wait for you already.
        user: Book a call
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: forget it
        says: All right, I leave it.
        user: Book a call
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: hm
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: hm
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: hm
        says: I do not understand it, so that I leave it.
        "#,
    );
}

#[test]
fn without_a_clock_whole_times_are_asked_for() {
    check(
        &calendar(),
        "",
        r#"
        user: Am I free tomorrow?
        says: Please tell me from when and until when, written in full as in 2026-12-01T10:00:00+01:00.
        user: 2026-12-01T10:00:00Z to 2026-12-01T12:00:00Z
        calls: calendar_get_availability {"end_date":"2026-12-01T12:00:00+00:00","start_date":"2026-12-01T10:00:00+00:00"}
        "#,
    );
}

#[test]
fn a_tool_of_the_project_is_called_as_its_guide_says() {
    let tools = [
        own(
            "lookup_order",
            json!({"type": "object", "required": ["order_id"], "properties": {"order_id": {"type": "string", "pattern": "^[A-Z]-\\d+$"}}}),
        ),
        own(
            "get_weather",
            json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}}}),
        ),
        own(
            "file_complaint",
            json!({"type": "object", "required": ["subject", "severity"], "properties": {"subject": {"type": "string"}, "severity": {"enum": ["low", "high"]}, "stars": {"type": "integer", "maximum": 5}}}),
        ),
    ];
    let instruction = format!(
        "{TODAY}\n## lookup_order\nFinds an order. Call lookup_order when the user asks \"Where is order A-1001?\".\n\n## get_weather\nSays it.\n\n\
         ### Examples\n\n**\"What is the weather in Oslo?\"**\n\n```json\n{{ \"city\": \"Oslo\" }}\n```\n\n## file_complaint\n\n### Examples\n\n\
         **\"I want to file a complaint.\"**\n"
    );
    check(
        &tools,
        &instruction,
        r#"
        user: What can you do?
        says: You can say: “Where is order A-1001?” or “What is the weather in Oslo?”
        user: Where is my order B-27?
        calls: lookup_order {"order_id":"B-27"}
        gives: {"ok":true,"data":{"order":"B-27","status":"shipped"},"meta":{}}
        says: lookup_order answered: order: B-27, status: shipped.
        user: Where is my order?
        says: Please tell me the order_id for lookup_order.
        user: It is C-9.
        calls: lookup_order {"order_id":"C-9"}
        gives: {"ok":false,"error":{"type":"NOT_FOUND","message":"there is no order C-9"},"meta":{}}
        says: lookup_order gave no result: There is no order C-9.
        user: what is the weather in New York today, in fahrenheit?
        calls: get_weather {"city":"New York","unit":"fahrenheit"}
        gives: {"ok":true,"data":{"celsius":4,"sky":"clear"},"meta":{}}
        says: get_weather answered: celsius: 4, sky: clear.
        user: I want to file a complaint
        says: Please tell me the subject and the severity for file_complaint.
        user: "Late parcel", severity high
        calls: file_complaint {"severity":"high","subject":"Late parcel"}
        "#,
    );
    let world = World::read(&instruction, &tools);
    for text in [
        "Who ordered the ship?",
        "What is the order of the voyages?",
        "I like the weather",
        "Complaints are tiresome",
        "Where is the museum?",
        "",
        "A-1001",
    ] {
        let replies = Model::new().hear(text, &world);
        assert!(
            matches!(&replies[..], [Reply::Say(_)]),
            "{text}: {replies:?}"
        );
    }
}

#[test]
fn the_other_built_in_tools_are_called_in_plain_words() {
    let names = ["extract-contacts", "rank-results"];
    let mut tools = declared(&names);
    let any = |names: &[&str], required: &[&str]| {
        let properties: Map<String, Value> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({})))
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    tools.extend([
        own(
            "format_datetime",
            any(&["datetime", "format", "time_zone"], &["datetime"]),
        ),
        own("get_context", any(&["fields"], &[])),
        own("query_tool_memory", any(&["call_id", "tool", "limit"], &[])),
        own("list_tasks", any(&["only_running", "limit"], &[])),
        own(
            "escalate",
            any(&["reason", "summary", "urgency"], &["reason", "summary"]),
        ),
        own(
            "image_draft_prompt",
            any(&["subject", "style", "aspect_ratio"], &["subject"]),
        ),
        own(
            "image_generate",
            any(&["prompt", "aspect_ratio", "count"], &["prompt"]),
        ),
        own("send_image", any(&["image_url", "caption"], &["image_url"])),
        own("web_search", any(&["query", "top_k"], &["query"])),
    ]);
    for (said, call) in [
        (
            "Extract the contacts from: Maud Lind, maud@example.org",
            r#"extract_contacts {"text":"Maud Lind, maud@example.org"}"#,
        ),
        (
            "Which phone numbers are in \"Call +47 22 00 00 00\"?",
            r#"extract_contacts {"text":"Call +47 22 00 00 00"}"#,
        ),
        (
            "Rank by price, lowest first: tea 30, coffee 20.5",
            r#"rank_results {"criteria":[{"best":"lowest","field":"price"}],"items":[{"name":"tea","price":30},{"name":"coffee","price":20.5}]}"#,
        ),
        (
            "What time is it in Tokyo?",
            r#"format_datetime {"datetime":"now","format":"time","time_zone":"Asia/Tokyo"}"#,
        ),
        (
            "How long until 25 December?",
            r#"format_datetime {"datetime":"2026-12-25","format":"relative"}"#,
        ),
        (
            "Convert 2026-12-01T10:00:00Z to New York",
            r#"format_datetime {"datetime":"2026-12-01T11:00:00+01:00","time_zone":"America/New_York"}"#,
        ),
        ("Who am I?", r#"get_context {"fields":["user"]}"#),
        ("What do you know about me?", "get_context {}"),
        ("What did you look up before?", "query_tool_memory {}"),
        ("Show me my tasks", "list_tasks {}"),
        (
            "Which tasks are still running?",
            r#"list_tasks {"only_running":true}"#,
        ),
        (
            "Show the last 3 results",
            r#"query_tool_memory {"limit":3}"#,
        ),
        (
            "I want to talk to a human, it is urgent",
            r#"escalate {"reason":"The user asks for a person.","summary":"The user said last: “I want to talk to a human, it is urgent”","urgency":"high"}"#,
        ),
        (
            "Draft a prompt for a picture of a harbour",
            r#"image_draft_prompt {"subject":"a harbour"}"#,
        ),
        (
            "Draw me a lighthouse at night.",
            r#"image_generate {"prompt":"a lighthouse at night"}"#,
        ),
        (
            "Please make a wide picture of the Fram",
            r#"image_generate {"aspect_ratio":"16:9","prompt":"the Fram"}"#,
        ),
        (
            "Show me the picture https://shop.example/lamp.png",
            r#"send_image {"image_url":"https://shop.example/lamp.png"}"#,
        ),
        (
            "Search the web for storm warnings in Bergen",
            r#"web_search {"query":"storm warnings in Bergen"}"#,
        ),
        (
            "Who makes this lamp?",
            r#"web_search {"query":"Who makes this lamp"}"#,
        ),
    ] {
        check(&tools, TODAY, &format!("user: {said}\ncalls: {call}"));
    }
    check(
        &tools,
        TODAY,
        r#"
        user: Draw a picture
        says: Please tell me what the picture shall show.
        user: A red bicycle
        calls: image_generate {"prompt":"A red bicycle"}
        gives: {"ok":true,"data":{"pictures":[{"image_url":"/i/1","type":"image/png"}],"service":"local","placeholder":true},"meta":{}}
        says: Here is the picture. It is a placeholder, because no image service is configured.
        user: Show me the picture again
        calls: send_image {"image_url":"/i/1"}
        gives: {"ok":true,"data":{"shown":true,"image_url":"/i/1"},"meta":{}}
        says: Here is the picture.
        user: Draft prompts for a ship
        calls: image_draft_prompt {"subject":"a ship"}
        gives: {"ok":true,"data":{"variants":[{"name":"a","prompt":"A ship","style":"x"},{"name":"b","prompt":"A ship close by","style":"y"}],"aspect_ratio":"1:1"},"meta":{}}
        says: I have drafted 1) “A ship”; 2) “A ship close by”. Which one shall I draw?
        user: the second
        calls: image_generate {"prompt":"A ship close by"}
        gives: {"ok":false,"error":{"type":"X","message":"the service refuses the prompt"},"meta":{}}
        says: image_generate gave no result: The service refuses the prompt.
        user: Search the web for herring prices
        calls: web_search {"query":"herring prices"}
        gives: {"ok":true,"data":{"results":[{"id":"p","title":"Cats","snippet":"Cats sleep.","url":"https://cats.example"}],"service":"x"},"meta":{}}
        says: I do not know: the search found nothing.
        "#,
    );
}

#[test]
fn fram_and_its_questions_stay_with_the_knowledge_base() {
    let mut tools = calendar();
    tools.extend(declared(&[
        "escalate",
        "extract-contacts",
        "format-datetime",
        "get-context",
        "image-draft-prompt",
        "image-generate",
        "list-tasks",
        "query-tool-memory",
        "rank-results",
        "send-image",
    ]));
    tools.extend([
        own(SEARCH, json!({"properties": {"query": {}}})),
        own(WEB_SEARCH, json!({"properties": {"query": {}}})),
    ]);
    let world = World::read(TODAY, &tools);
    let others = [
        "How did they move the ship?",
        "What event ended the voyage?",
        "When is the museum open?",
        "Who called the meeting?",
        "Find the people who sailed with Amundsen",
        "Is there someone who survived?",
        "What is kept in the museum?",
        "What time is the museum open?",
        "What events led to the race?",
    ];
    for question in SUGGESTIONS.into_iter().chain(others) {
        let replies = Model::new().hear(question, &world);
        assert!(
            matches!(&replies[0], Reply::Call { name, .. } if name == SEARCH),
            "{question}: {replies:?}"
        );
    }
}

#[test]
fn any_input_is_bounded() {
    let mut tools = calendar();
    let properties: Map<String, Value> = (0..100)
        .map(|at| {
            (
                format!("p{at}"),
                json!({"type": "string", "pattern": "^(a+)+$"}),
            )
        })
        .collect();
    tools.extend((0..123).map(|at| {
        own(
            &format!("tool_{at}"),
            json!({"required": ["p1", "p2"], "properties": properties}),
        )
    }));
    let guide = |at: usize| format!("## tool_{at}\n**\"Where is order A-{at}?\"**\n");
    let instruction = format!("{TODAY}{}", (0..123).map(guide).collect::<String>());
    let world = World::read(&instruction, &tools);
    for part in [
        "a",
        "where is order A-1? ",
        "(",
        "book a meeting at 3 pm\n",
        "“",
        "1-",
        "é",
        "to ",
        "cancel, ",
    ] {
        let text = part.repeat((1 << 20) / part.len());
        let mut model = Model::new();
        for _ in 0..2 {
            assert!(!model.hear(&text, &world).is_empty());
        }
    }
    World::read(&"## tool_1\n\"where is it\" asks ".repeat(50_000), &tools);
}

/// The page offers the first example of a guide, so it has to work.
#[test]
fn the_first_example_of_each_guide_leads_to_its_tool() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/_optional");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut guided = Vec::new();
    for path in paths.filter(|path| path.join("guide.md").is_file()) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        guided.push((
            name,
            std::fs::read_to_string(path.join("guide.md")).unwrap(),
        ));
    }
    let names: Vec<&str> = guided.iter().map(|(name, _)| name.as_str()).collect();
    let tools = declared(&names);
    let mut instruction = TODAY.to_owned();
    for (tool, (_, guide)) in tools.iter().zip(&guided) {
        // The program writes guides below the tool's id, each heading a level down.
        let guide: String = guide
            .lines()
            .skip(1)
            .map(|line| match line.starts_with('#') {
                true => format!("#{line}\n"),
                false => format!("{line}\n"),
            })
            .collect();
        instruction.push_str(&format!("\n## {}\n{guide}", tool.name));
    }
    let world = World::read(&instruction, &tools);
    for tool in &tools {
        let Some(example) = world
            .examples
            .iter()
            .find(|example| example.tool == tool.name)
        else {
            continue;
        };
        let mut model = Model::new();
        let replies = model.hear(&example.said, &world);
        let is_understood = match &replies[0] {
            // The event to change is searched first.
            Reply::Call { name, .. } => {
                *name == tool.name
                    || matches!(&model.stage, Stage::Finding(draft) if draft.tool == tool.name)
            }
            Reply::Say(_) => {
                matches!(&model.stage, Stage::Asking(draft) if draft.tool == tool.name)
            }
            Reply::AwaitResults => false,
        };
        assert!(is_understood, "{}: {replies:?}", example.said);
    }
}

#[test]
fn the_calendar_is_understood_in_other_words() {
    let world_tools = calendar();
    for (said, call) in [
        (
            "Book a meeting on 1 July 2027 at 10 with a@b.no",
            r#"calendar_create_event {"attendees":["a@b.no"],"end_time":"2027-07-01T11:00:00+02:00","start_time":"2027-07-01T10:00:00+02:00","title":"Meeting"}"#,
        ),
        (
            "Set up a meeting \"Kick-off\" on 1 December from 2 to 4 pm with a@b.no and c@d.no over zoom",
            r#"calendar_create_event {"attendees":["a@b.no","c@d.no"],"end_time":"2026-12-01T16:00:00+01:00","include_zoom_link":true,"start_time":"2026-12-01T14:00:00+01:00","title":"Kick-off"}"#,
        ),
        (
            "When can we meet next week for an hour?",
            r#"calendar_get_availability {"end_date":"2026-12-07T00:00:00+01:00","min_duration_minutes":60,"start_date":"2026-11-30T00:00:00+01:00"}"#,
        ),
        (
            "What's on my team calendar today?",
            r#"calendar_list_events {"calendars":["team"],"end_date":"2026-11-29T00:00:00+01:00","start_date":"2026-11-28T00:00:00+01:00"}"#,
        ),
        (
            "Can you move my meeting with Anna from Monday to Tuesday?",
            r#"calendar_list_events {"end_date":"2026-12-01T00:00:00+01:00","max_results":50,"start_date":"2026-11-30T00:00:00+01:00"}"#,
        ),
        (
            "Call off lunch with Anna",
            r#"calendar_list_events {"end_date":"2026-12-29T00:00:00+01:00","max_results":50,"start_date":"2026-11-28T12:30:00+01:00"}"#,
        ),
    ] {
        check(&world_tools, TODAY, &format!("user: {said}\ncalls: {call}"));
    }
    let by_voice = &declared(&["calendar-list-events"]);
    check(
        by_voice,
        TODAY,
        "user: Book a meeting tomorrow at 3 pm\nsays: I cannot do that here: no tool calendar_create_event was declared to me.",
    );
}

#[test]
fn the_sentences_of_the_documentation_lead_to_their_tools() {
    let document = include_str!("../../../../docs/simulator.md");
    let rows = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | \""));
    let rows: Vec<(&str, &str)> = rows
        .filter(|(tool, _)| skills::of_tool(tool).is_some())
        .collect();
    assert_eq!(rows.len(), skills::SKILLS.len());
    let tools: Vec<Declaration> = skills::SKILLS
        .iter()
        .map(|skill| {
            let names = skill.parameters.iter().map(|parameter| parameter.name);
            let more = [
                "event_id",
                "title",
                "start_time",
                "end_time",
                "whole_series",
                "start_date",
                "end_date",
                "max_results",
            ];
            let properties: Map<String, Value> = names
                .chain(more)
                .map(|name| (name.to_owned(), json!({})))
                .collect();
            own(
                skill.tool,
                json!({"type": "object", "properties": properties}),
            )
        })
        .collect();
    let world = World::read(TODAY, &tools);
    for (tool, rest) in rows {
        let said = rest.split('"').next().unwrap();
        let mut model = Model::new();
        model.memory.picture = Some("/i/1".to_owned());
        let replies = model.hear(said, &world);
        let is_meant = match &replies[0] {
            Reply::Call { name, .. } => {
                name == tool || matches!(&model.stage, Stage::Finding(draft) if draft.tool == tool)
            }
            Reply::Say(_) | Reply::AwaitResults => false,
        };
        assert!(is_meant, "{tool}: {said}: {replies:?}");
    }
}

#[test]
fn an_answer_that_is_open_does_not_take_in_another_matter() {
    check(
        &calendar(),
        TODAY,
        r#"
        user: Book a meeting on Monday at 9 with a@x.no
        calls: calendar_create_event {"attendees":["a@x.no"],"end_time":"2026-11-30T10:00:00+01:00","start_time":"2026-11-30T09:00:00+01:00","title":"Meeting"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: Invite bob@x.no to a meeting on Tuesday at 11
        calls: calendar_create_event {"attendees":["bob@x.no"],"end_time":"2026-12-01T12:00:00+01:00","start_time":"2026-12-01T11:00:00+01:00","title":"Meeting"}
        gives: {"ok":false,"error":{"type":"CONFIRMATION_REQUIRED","message":"calendar_create_event runs only after the user has confirmed it"},"meta":{}}
        says: calendar_create_event waits for your yes: nothing has been done yet.
        user: Book a call
        says: Please tell me when it shall start and the e-mail addresses of those who take part.
        user: What do I have on Monday?
        calls: calendar_list_events {"end_date":"2026-12-01T00:00:00+01:00","start_date":"2026-11-30T00:00:00+01:00"}
        "#,
    );
}

#[test]
fn odd_results_of_any_tool_are_no_trouble() {
    let world = World::read(TODAY, &[]);
    let event = json!({"event_id": "e", "title": 7, "start": "soon", "end": "9999-12-31T23:59:59Z", "attendees": [1, null]});
    for skill in skills::SKILLS {
        for data in [
            json!(null),
            json!([]),
            json!("text"),
            json!({}),
            json!({"event": event, "items": [event, 1], "available_slots": [{}, null, {"start": "x", "end": 2}], "results": [null, {"title": "t"}]}),
            json!({"event": [], "items": {}, "available_slots": 3, "results": "none", "ranked": [1], "calls": [{}], "call": 1, "variants": [{}],
                "pictures": [], "emails": [{}], "phones": 1, "user": 1, "time": {}, "page": [], "session": null, "text": "", "note": "é".repeat(9_000)}),
        ] {
            let mut model = Model::new();
            let outcome = Outcome::Success(data.clone());
            let replies = model.used(skill.tool, None, outcome, &world);
            assert!(
                matches!(&replies[..], [Reply::Say(text)] if !text.is_empty()),
                "{} {data}",
                skill.tool
            );
        }
    }
}
