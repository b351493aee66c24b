//! What a ticket says, what the client is told, and what is left when it cannot be stored. The tickets are fakes.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Finding, HandoverError, NewHandover, Urgency};
use windlass_contract::id::{ConversationId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;

fn parcel() -> Value {
    json!({"reason": " Third wrong parcel. ", "summary": "Order A-1001.", "contact": "  "})
}

#[test]
fn a_ticket_is_opened_once_and_the_client_told() {
    for mode in [Mode::Text, Mode::Voice] {
        let bench = Bench::new(mode);
        let data = bench.data("escalate", parcel());
        assert_eq!(bench.data("escalate", parcel()), data, "the same attempt");
        let tickets = bench.fakes.tickets.lock().unwrap().clone();
        let id = data["ticket_id"].as_str().unwrap();
        assert_eq!(
            tickets,
            [NewHandover {
                id: id.to_owned(),
                conversation_id: ConversationId::new("conversation"),
                user_id: UserId::new("user"),
                reason: Sensitive("Third wrong parcel.".into()),
                summary: Sensitive("Order A-1001.".into()),
                urgency: Urgency::Normal,
                contact: None,
            }]
        );
        assert!(id.len() == 34 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(
            bench.client_messages()[0],
            json!({"type": "ticket", "ticketId": id, "reason": "Third wrong parcel.", "urgency": "normal", "status": "open"})
        );
        let (event, line) = bench.audit_lines()[0].clone();
        assert_eq!(event, "ticket_opened");
        assert_eq!(line, json!({"ticketId": id, "urgency": "normal"}));
    }
}

#[test]
fn a_ticket_that_takes_its_time_is_awaited() {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.knowledge_is_slow.lock().unwrap() = true;
    let arguments = json!({"reason": "R", "summary": "S", "urgency": "high", "contact": "+47"});
    assert_eq!(bench.data("escalate", arguments)["urgency"], "high");
    let tickets = bench.fakes.tickets.lock().unwrap();
    assert_eq!(tickets[0].contact, Some(Sensitive("+47".into())));
}

#[test]
fn a_client_that_cannot_be_told_has_its_ticket_all_the_same() {
    let bench = Bench::new(Mode::Voice);
    *bench.fakes.outbox_is_closed.lock().unwrap() = true;
    bench.succeed("escalate", parcel());
    assert_eq!(bench.fakes.tickets.lock().unwrap().len(), 1);
}

#[test]
fn what_became_of_a_ticket_is_found_by_its_change() {
    let bench = Bench::new(Mode::Text);
    assert_eq!(bench.look_up("escalate", parcel()), Finding::NotHappened);
    let success = bench.succeed("escalate", parcel());
    let Finding::Happened(found) = bench.look_up("escalate", parcel()) else {
        panic!("it was opened");
    };
    assert_eq!(found.data, success.data);
    let gone = HandoverError::Unavailable("gone".into());
    *bench.fakes.ticket_error.lock().unwrap() = Some(gone);
    assert_eq!(bench.look_up("escalate", parcel()), Finding::Unknown);
}

#[test]
fn where_no_ticket_is_opened_nobody_is_told_of_one() {
    for (error, kind, words) in [
        (
            HandoverError::TooMany("3 tickets of this conversation are open".into()),
            FailureKind::Conflict,
            "3 tickets",
        ),
        (
            HandoverError::Unavailable("disk full at /var/lib/x".into()),
            FailureKind::Transient,
            "nobody was asked",
        ),
    ] {
        let bench = Bench::new(Mode::Voice);
        *bench.fakes.ticket_error.lock().unwrap() = Some(error);
        let report = bench.report("escalate", parcel());
        assert_eq!(report.kind, kind);
        assert_eq!(report.partial_side_effects, Some(false));
        assert!(report.message.contains(words), "{}", report.message);
        assert!(!report.message.contains("/var"), "{}", report.message);
        assert_eq!(bench.client_messages(), [] as [Value; 0]);
    }
    let blank = json!({"reason": " ", "summary": "S"});
    let report = Bench::new(Mode::Text).report("escalate", blank);
    assert_eq!(report.kind, FailureKind::Validation);
    let mut over = Bench::new(Mode::Text);
    over.session_is_active = false;
    assert_eq!(
        over.report("escalate", parcel()).kind,
        FailureKind::SessionInactive
    );
}
