//! What is said of user, session, page and time.

use crate::bench::Bench;
use serde_json::json;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{HandlerMessage, Page};
use windlass_contract::kind::Mode;
use windlass_contract::rights::{Rights, Role};
use windlass_contract::sensitive::Sensitive;

fn is_external(bench: &Bench) -> bool {
    let messages = bench.fakes.messages.lock().unwrap();
    messages.contains(&HandlerMessage::External)
}

fn on_a_page() -> Bench {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.page.lock().unwrap() = Some(Page {
        url: Some(Sensitive("https://shop.example/cart".into())),
        title: None,
    });
    bench
}

#[test]
fn everything_but_the_page_is_said_unless_fields_are_named() {
    let bench = on_a_page();
    assert_eq!(
        bench.data("get_context", json!({})),
        json!({
            "user": {"id": "user", "signed_in": false, "roles": []},
            "session": {"mode": "text", "conversation_id": "conversation", "turn": 1},
            "time": {"time_zone": null, "now": "2027-01-15T13:30:00+05:30"},
        })
    );
    assert!(!is_external(&bench));
}

#[test]
fn proven_roles_and_a_known_zone_are_said() {
    let bench = Bench::new(Mode::Voice);
    let roles = ["staff", "admin"].map(|role| Role::parse(role).unwrap());
    *bench.fakes.rights.lock().unwrap() = Rights::signed_in(roles);
    *bench.fakes.zone.lock().unwrap() = Some("Asia/Kolkata".into());
    assert_eq!(
        bench.data("get_context", json!({"fields": ["time", "user"]})),
        json!({
            "user": {"id": "user", "signed_in": true, "roles": ["admin", "staff"]},
            "time": {"time_zone": "Asia/Kolkata", "now": "2027-01-15T13:30:00+05:30"},
        })
    );
}

#[test]
fn a_page_is_the_clients_word_and_counts_as_text_of_others() {
    let fields = json!({"fields": ["page"]});
    let bench = on_a_page();
    assert_eq!(
        bench.data("get_context", fields.clone()),
        json!({"page": {"known": true, "url": "https://shop.example/cart", "title": null}})
    );
    assert!(is_external(&bench));

    let unknown = Bench::new(Mode::Text);
    assert_eq!(
        unknown.data("get_context", fields.clone()),
        json!({"page": {"known": false}})
    );
    assert!(!is_external(&unknown));

    let deaf = on_a_page();
    *deaf.fakes.outbox_is_closed.lock().unwrap() = true;
    assert_eq!(
        deaf.report("get_context", fields).kind,
        FailureKind::Transient
    );
}
