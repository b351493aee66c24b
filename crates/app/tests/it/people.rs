//! Built-in tools around people, over the chat: what time it is where they are, what is known of them, and what was looked up for
//! them before.

use crate::chat::{Chat, chat, user};
use crate::support::model_server::Says;
use crate::support::root;
use serde_json::{Value, json};

/// A chat with the tools that only some projects have.
pub(crate) async fn with_all_tools(rule: impl Fn(&Value) -> Says + Send + Sync + 'static) -> Chat {
    let tools = root().join("tools/_optional").display().to_string();
    chat(rule, &[("folders.tools", tools.as_str())]).await
}

/// What the last call brought back, as the model was given it.
fn result(chat: &Chat) -> String {
    let seen = chat.model.seen();
    let messages = seen.last().unwrap()["messages"].as_array().unwrap().clone();
    let last = messages.last().unwrap();
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().unwrap().to_owned()
}

fn rule(last: &Value) -> Says {
    if last["role"] == "tool" {
        return Says::Words("So it is.");
    }
    let said = last["content"].to_string();
    let moment = json!({"datetime": "2026-11-28T13:05:00Z"});
    let nowhere = json!({"datetime": "now", "time_zone": "Europe/Atlantis"});
    let gap = json!({"datetime": "2027-03-28T02:30"});
    let all = json!({"fields": ["user", "session", "time", "page"]});
    [
        ("When?", Says::Calls("format_datetime", moment)),
        ("Nowhere?", Says::Calls("format_datetime", nowhere)),
        ("Gap?", Says::Calls("format_datetime", gap)),
        ("Who am I?", Says::Calls("get_context", all)),
        ("Before?", Says::Calls("query_tool_memory", json!({}))),
        (
            "Whole?",
            Says::Calls("query_tool_memory", json!({"call_id": "c-1000000"})),
        ),
    ]
    .into_iter()
    .find(|(wish, _)| said.contains(wish))
    .map_or(Says::Words("Yes."), |(_, says)| says)
}

fn ask(chat: &Chat, id: &str, text: &str, page: Value) {
    let answer = chat.ask(&json!({
        "id": "c-people", "messages": [user(id, text)], "timeZone": "Asia/Tokyo", "page": page,
    }));
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_is_said_where_the_user_is() {
    let chat = with_all_tools(rule).await;
    ask(&chat, "m-1", "When?", Value::Null);
    let said = result(&chat);
    assert!(said.contains("Saturday, 28 November 2026, 22:05"), "{said}");
    assert!(said.contains("Asia/Tokyo"), "{said}");
    ask(&chat, "m-2", "Nowhere?", Value::Null);
    let said = result(&chat);
    assert!(said.contains("there is no time zone"), "{said}");
    assert!(said.contains("such as Europe/Oslo"), "{said}");

    let in_oslo = json!({"messages": [user("m-3", "Gap?")], "timeZone": "Europe/Oslo"});
    assert_eq!(chat.ask(&in_oslo).status, 200);
    let said = result(&chat);
    assert!(said.contains("02:30 does not exist on that day"), "{said}");
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_user_and_page_is_told() {
    let chat = with_all_tools(rule).await;
    let page = json!({"url": "https://shop.example/cart", "title": "Cart"});
    ask(&chat, "m-1", "Who am I?", page);
    let said = result(&chat);
    for part in [
        "\"signed_in\":false",
        "\"conversation_id\":\"c-people\"",
        "\"mode\":\"text\"",
        "https://shop.example/cart",
        "Asia/Tokyo",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    ask(&chat, "m-2", "Who am I?", Value::Null);
    assert!(result(&chat).contains("\"known\":false"));

    let long = "a".repeat(301);
    for page in [json!({"title": long}), json!({"url": "file:///etc/passwd"})] {
        let body = json!({"messages": [user("m-3", "Who am I?")], "page": page});
        let answer = chat.ask(&body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains("page."), "{}", answer.body);
    }
    chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_calls_of_the_own_conversation_are_told_and_no_others() {
    let chat = with_all_tools(rule).await;
    ask(&chat, "m-1", "When?", Value::Null);
    ask(&chat, "m-2", "Before?", Value::Null);
    let said = result(&chat);
    assert!(said.contains("\"tool\":\"format_datetime\""), "{said}");
    assert!(said.contains("28 November 2026"), "{said}");
    ask(&chat, "m-3", "Whole?", Value::Null);
    assert!(result(&chat).contains("no call"), "{}", result(&chat));

    let other = json!({"messages": [user("m-4", "Before?")]});
    assert_eq!(chat.ask(&other).status, 200);
    assert!(result(&chat).contains("\"calls\":[]"), "{}", result(&chat));
    chat.close().await;
}
