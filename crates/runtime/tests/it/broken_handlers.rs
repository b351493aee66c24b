//! What a handler costs that panics, or that says more than anybody can read: its call, and nothing else.

use crate::support::peers::{Peer, Setting, Stage, call};
use crate::support::tools::{echo, ready, tool, tool_at};
use crate::support::{ledger_over, memory_store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, Failure, Handler, Invocation, Lookup, LookupInvocation, OutboxClosed, OutcomeLookup,
    Placement, Report,
};
use windlass_contract::kind::SideEffects;
use windlass_contract::registry::Tool;

const PLACEMENTS: [Placement; 2] = [Placement::Inline, Placement::Apart];

/// The response that the provider gets to one call, and the virtual time until then.
async fn answer(provider: &mut Peer, id: &str, name: &str, args: Value) -> (Value, Duration) {
    let begin = Instant::now();
    provider.send(call(id, name, args)).await;
    let answer = provider.until("toolResponse").await;
    let response = &answer["toolResponse"]["functionResponses"][0];
    assert_eq!(response["id"], id);
    (response["response"].clone(), begin.elapsed())
}

async fn goes_on(provider: &mut Peer) {
    let (response, _) = answer(provider, "call-00099", "echo", json!({ "text": "on" })).await;
    assert_eq!(response["output"]["data"]["said"], "on");
}

fn panics(placement: Placement, is_later: bool) -> Tool {
    tool_at("panics", placement, move |_| {
        assert!(is_later, "boom at secret/path");
        Execution::Pending(Box::pin(async { panic!("boom at secret/path") }))
    })
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_costs_its_call_and_nothing_else() {
    for (placement, is_later) in PLACEMENTS
        .into_iter()
        .flat_map(|at| [(at, false), (at, true)])
    {
        for (side_effects, expected) in [
            (SideEffects::None, "INTERNAL"),
            (SideEffects::Writes, "OUTCOME_UNKNOWN"),
        ] {
            let broken = Tool {
                side_effects,
                ..panics(placement, is_later)
            };
            let timeout = Duration::from_millis(broken.timeout_ms);
            let (_stage, mut provider) = Stage::running(Setting {
                tools: vec![echo(), broken],
                ..Setting::default()
            })
            .await;
            let (response, took) = answer(&mut provider, "call-00001", "panics", json!({})).await;
            let case = format!("{placement:?} {is_later} {side_effects:?}: {response}");
            assert_eq!(response["error"]["type"], expected, "{case}");
            assert!(!response.to_string().contains("secret"), "{case}");
            assert!(took < timeout, "{case}");
            goes_on(&mut provider).await;
        }
    }
}

/// Breaks while it changes something, and again when it is asked what has become of that.
struct Forgetful {
    placement: Placement,
    is_later: bool,
    asked: Arc<AtomicUsize>,
}

impl Handler for Forgetful {
    fn execute(&self, _: Invocation) -> Execution {
        panic!("boom")
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }

    fn placement(&self) -> Placement {
        self.placement
    }
}

impl OutcomeLookup for Forgetful {
    fn look_up(&self, _: LookupInvocation) -> Lookup {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(self.is_later, "boom");
        Lookup::Pending(Box::pin(async { panic!("boom") }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_lookup_has_found_nothing_out_and_costs_nothing_else() {
    for (placement, is_later) in PLACEMENTS
        .into_iter()
        .flat_map(|at| [(at, false), (at, true)])
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let ledger = ledger_over(memory_store());
        let setting = |number| Setting {
            tools: vec![
                echo(),
                Tool {
                    side_effects: SideEffects::Writes,
                    idempotent: false,
                    handler: Arc::new(Forgetful {
                        placement,
                        is_later,
                        asked: asked.clone(),
                    }),
                    ..tool("order", |_| unreachable!("its handler is another one"))
                },
            ],
            ledger: Some(ledger.clone()),
            number,
            ..Setting::default()
        };
        let (stage, mut provider) = Stage::running(setting(1)).await;
        answer(&mut provider, "call-00001", "order", json!({})).await;
        stage.served.abort();

        let (_next, mut provider) = Stage::running(setting(2)).await;
        let (response, took) = answer(&mut provider, "call-00009", "order", json!({})).await;
        let case = format!("{placement:?} {is_later}: {response}");
        assert_eq!(response["error"]["type"], "CONFIRMATION_REQUIRED", "{case}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{case}");
        assert!(took < Duration::from_secs(5), "{case}");
        goes_on(&mut provider).await;
    }
}

const HUGE: usize = 50 << 20;

#[tokio::test(start_paused = true)]
async fn a_failure_of_fifty_megabytes_is_a_short_answer() {
    let fails = tool("fails", |_| {
        let failure = Failure::from(Report {
            suggestion: Some("s".repeat(HUGE)),
            details: Some(json!({ "log": "d".repeat(HUGE) })),
            ..Report::new(FailureKind::Permanent, "m".repeat(HUGE))
        });
        Execution::Ready(Err(failure))
    });
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo(), fails],
        ..Setting::default()
    })
    .await;
    let (response, _) = answer(&mut provider, "call-00001", "fails", json!({})).await;
    assert_eq!(response["error"]["type"], "PERMANENT");
    let message = response["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("mmm") && message.ends_with("m…"));
    let length = response.to_string().chars().count();
    assert!((3_000..=4_000).contains(&length), "{length}");
    let finished = stage.client.until("tool_call_finished").await;
    assert_eq!(finished["errorType"], "PERMANENT");
    assert!(finished.to_string().len() < 1_000);
    goes_on(&mut provider).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_of_fifty_megabytes_is_not_taken_and_the_next_one_is() {
    let talks = tool("talks", |invocation| {
        let context = invocation.context;
        assert_eq!(context.progress("p".repeat(HUGE), None), Err(OutboxClosed));
        context.progress("short", None).unwrap();
        ready(json!({ "done": true }))
    });
    let (mut stage, mut provider) = Stage::running(Setting {
        tools: vec![echo(), talks],
        ..Setting::default()
    })
    .await;
    let (response, _) = answer(&mut provider, "call-00001", "talks", json!({})).await;
    assert_eq!(response["output"]["data"]["done"], true, "{response}");
    let progress = stage.client.until("tool_progress").await;
    assert_eq!(progress["message"], "short");
    goes_on(&mut provider).await;
}
