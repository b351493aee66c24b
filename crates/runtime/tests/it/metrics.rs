//! Metrics in both forms, as direct sessions cause them.

use crate::support::tools::{echo, registry};
use crate::support::{StillCapabilities, session_config, shared};
use serde_json::json;
use std::sync::Arc;
use windlass_contract::id::{ClientId, ConversationId, SessionId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Tool;
use windlass_runtime::direct::{DirectRequest, DirectSession, call_asking, call_once};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::subscriber::{SessionIdentity, Subscriber};
use windlass_session::context::{ContextEstimate, ContextUse};
use windlass_session::event::SessionEvent;
use windlass_session::model::{IncomingCall, Usage};

fn identity(session: &str) -> SessionIdentity {
    SessionIdentity {
        client_id: ClientId::new("client"),
        session_id: SessionId::new(session),
        user_id: UserId::new("ada"),
        tenant: windlass_contract::id::TenantId::default(),
        rights: windlass_contract::rights::Rights::Anonymous,
        conversation_id: ConversationId::new("c"),
        mode: Mode::Voice,
        ledger: None,
    }
}

fn used(tokens: u64) -> ContextUse {
    ContextUse {
        model: "a \"fine\" model".into(),
        tokens,
        window_tokens: 1_000,
    }
}

async fn measured() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::default());
    let estimate = ContextEstimate {
        system_prompt_tokens: 2,
        tool_decl_tokens: 1,
        history_tokens: 0,
    };
    let context = used(3);
    let estimated = SessionEvent::ContextEstimated { estimate, context };
    metrics.event(&identity("s-0"), 0, &estimated);
    for (name, arguments) in [
        ("echo", json!({ "text": "12345678" })),
        ("echo", json!({ "text": 7 })),
        ("invented_1", json!({})),
        ("invented_2", json!({})),
    ] {
        let request = DirectRequest {
            session: session_config(Mode::Voice, registry(vec![echo()])),
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(StillCapabilities),
            shared: shared(vec![metrics.clone()]),
        };
        let call = IncomingCall {
            id: Some("delivery-1".into()),
            name: Some(name.into()),
            arguments: Ok(arguments.as_object().unwrap().clone().into()),
        };
        call_once(request, call).await;
    }
    metrics
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_documented_shape() {
    let metrics = measured().await.json();
    let echo = &metrics["tools"]["echo"];
    assert_eq!(echo["calls"], 2);
    assert_eq!(echo["errors"], json!({ "VALIDATION": 1 }));
    assert_eq!(echo["successRate"], 0.5);
    assert_eq!(echo["latencyMs"], json!({ "p50": 0, "p95": 0, "p99": 0 }));
    assert_eq!(
        metrics["context"],
        json!({
            "sessionInitTokens": 3, "systemPromptTokens": 2, "toolDeclTokens": 1, "historyTokens": 0, "models": {}, "peakTokens": 0
        })
    );
    assert_eq!(metrics["loopDetection"]["activeSessions"], 0);
    assert!(metrics["responseSizes"]["echo"]["p50"].as_u64().unwrap() >= 19);
    assert!(metrics["responseTokens"]["echo"]["avg"].as_u64().unwrap() >= 5);
    assert_eq!(metrics["sessions"]["total"], 4);
}

#[tokio::test(start_paused = true)]
async fn spent_budgets_and_loops_are_counted_per_tool() {
    // By voice a turn has three calls, and the third identical one is a loop.
    for (texts, error, violations) in [
        (vec!["a", "a", "a"], "LOOP_DETECTED", 0),
        (vec!["a", "b", "c", "d"], "BUDGET_EXCEEDED", 1),
    ] {
        let metrics = Arc::new(Metrics::default());
        let mut session = DirectSession::begin(DirectRequest {
            session: session_config(Mode::Voice, registry(vec![echo()])),
            client_id: ClientId::new("shell"),
            capabilities: Arc::new(StillCapabilities),
            shared: shared(vec![metrics.clone()]),
        });
        session.user_says("go");
        for (number, text) in texts.iter().enumerate() {
            let call = IncomingCall {
                id: Some(format!("delivery-{number}").into()),
                name: Some("echo".into()),
                arguments: Ok(json!({ "text": text }).as_object().unwrap().clone().into()),
            };
            session.call(call).await;
        }
        session.end().await;
        let echo = &metrics.json()["tools"]["echo"];
        assert_eq!(echo["errors"], json!({ error: 1 }), "{echo}");
        assert_eq!(echo["budgetViolations"], violations, "{echo}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_to_the_user_is_neither_an_error_nor_an_end() {
    for (approved, calls, errors) in [
        (true, 2, json!({})),
        (false, 2, json!({ "CONFIRMATION_DECLINED": 2 })),
    ] {
        let metrics = Arc::new(Metrics::default());
        for _ in 0..calls {
            let confirmed = Tool {
                requires_confirmation: true,
                ..echo()
            };
            let request = DirectRequest {
                session: session_config(Mode::Voice, registry(vec![confirmed])),
                client_id: ClientId::new("shell"),
                capabilities: Arc::new(StillCapabilities),
                shared: shared(vec![metrics.clone()]),
            };
            let call = IncomingCall {
                id: Some("delivery-1".into()),
                name: Some("echo".into()),
                arguments: Ok(json!({ "text": "a" }).as_object().unwrap().clone().into()),
            };
            call_asking(request, call, &|_| approved).await;
        }
        let echo = &metrics.json()["tools"]["echo"];
        assert_eq!(echo["asked"], 2, "{echo}");
        assert_eq!(echo["calls"], calls, "{echo}");
        assert_eq!(echo["errors"], errors, "{echo}");
        assert_eq!(echo["successRate"], f64::from(u8::from(approved)), "{echo}");
        let line = "windlass_tool_questions_total{tool=\"echo\",version=\"1.0.0\"} 2";
        let text = metrics.prometheus();
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_that_a_model_invents_share_one_place() {
    let metrics = measured().await.json();
    let names: Vec<&String> = metrics["tools"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["(unknown)", "echo"]);
    assert_eq!(
        metrics["tools"]["(unknown)"]["errors"],
        json!({ "NOT_FOUND": 2 })
    );
}

#[tokio::test(start_paused = true)]
async fn prometheus_reads_the_same_numbers() {
    let text = measured().await.prometheus();
    for line in [
        "# TYPE windlass_sessions_total counter",
        "windlass_sessions_total 4",
        "windlass_tool_calls_total{tool=\"echo\",version=\"1.0.0\",outcome=\"ok\"} 1",
        "windlass_tool_calls_total{tool=\"echo\",version=\"1.0.0\",outcome=\"VALIDATION\"} 1",
        "windlass_tool_latency_milliseconds_count{tool=\"echo\",version=\"1.0.0\"} 2",
        "windlass_tool_refusals_total{tool=\"echo\",version=\"1.0.0\"} 1",
        "windlass_tool_calls_total{tool=\"(unknown)\",outcome=\"NOT_FOUND\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let is_well_formed = |line: &str| {
        line.starts_with("# ")
            || line
                .rsplit_once(' ')
                .is_some_and(|(_, n)| n.parse::<f64>().is_ok())
    };
    assert!(text.lines().all(is_well_formed), "{text}");
}

#[test]
fn nothing_measured_is_no_error() {
    let json = Metrics::default().json();
    assert_eq!(json["responseSizes"], json!({}));
    assert_eq!(json["tools"], json!({}));
    assert_eq!(json["context"]["peakTokens"], 0);
    assert_eq!(json["sessions"]["total"], 0);
}

#[test]
fn the_peak_of_a_context_is_the_most_that_any_session_has_had() {
    let metrics = Metrics::default();
    for (session, total_tokens) in [("s-1", 700), ("s-2", 1_200), ("s-1", 900)] {
        let identity = identity(session);
        let usage = Usage {
            prompt_tokens: 9_999,
            total_tokens,
            ..Usage::default()
        };
        metrics.event(&identity, 0, &SessionEvent::Usage(usage));
    }
    assert_eq!(metrics.json()["context"]["peakTokens"], 1_200);
    let line = "windlass_context_peak_tokens 1200";
    let text = metrics.prometheus();
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn how_full_windows_were_is_shown_per_model() {
    let metrics = Metrics::default();
    for tokens in [400, 950, 300] {
        metrics.event(
            &identity("s-1"),
            0,
            &SessionEvent::ContextUsed(used(tokens)),
        );
    }
    let context = used(950);
    let warned = SessionEvent::ContextNearlyFull {
        context,
        is_estimate: false,
    };
    metrics.event(&identity("s-1"), 0, &warned);
    assert_eq!(
        metrics.json()["context"]["models"],
        json!({"a \"fine\" model": {"windowTokens": 1_000, "peakTokens": 950, "peakShare": 0.95, "warnings": 1}})
    );
    let text = metrics.prometheus();
    for line in [
        r#"windlass_context_peak_share{model="a \"fine\" model"} 0.95"#,
        r#"windlass_context_warnings_total{model="a \"fine\" model"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    // Names have an end, whoever gives them.
    for number in 0..100 {
        let model = number.to_string().into();
        let context = ContextUse { model, ..used(1) };
        metrics.event(&identity("s-1"), 0, &SessionEvent::ContextUsed(context));
    }
    let models = &metrics.json()["context"]["models"];
    assert_eq!(models.as_object().unwrap().len(), 65);
}

#[test]
fn what_nobody_understands_is_counted_by_kind_and_kinds_have_an_end() {
    let metrics = Metrics::default();
    let identity = SessionIdentity {
        client_id: ClientId::new("client"),
        session_id: SessionId::new("s-1"),
        user_id: UserId::new("ada"),
        conversation_id: ConversationId::new("c"),
        mode: Mode::Voice,
        ledger: None,
        tenant: windlass_contract::id::TenantId::default(),
        rights: windlass_contract::rights::Rights::Anonymous,
    };
    let odd = |problem: String| {
        metrics.event(&identity, 0, &SessionEvent::ProviderOddity { problem });
    };
    for column in 0..3 {
        odd(format!("it is no JSON (line 1, column {column})"));
    }
    for number in 0..100 {
        odd(format!("unknown field: type=\"{number}\""));
    }
    let provider = &metrics.json()["provider"];
    assert_eq!(provider["oddities"], 103);
    assert_eq!(provider["odditiesByKind"]["it is no JSON"], 3);
    assert_eq!(provider["odditiesByKind"]["(other)"], 37);
    let text = metrics.prometheus();
    let line = r#"windlass_provider_oddities_total{kind="unknown field: type=\"7\""} 1"#;
    assert!(text.lines().any(|found| found == line), "{text}");
}

/// One call of a version of the tool, by this user.
async fn call_of(metrics: &Arc<Metrics>, version: &str, user: usize, text: serde_json::Value) {
    let tool = Tool {
        version: version.into(),
        ..echo()
    };
    let mut session = session_config(Mode::Voice, registry(vec![tool]));
    session.user_id = UserId::new(format!("user-{user}"));
    let request = DirectRequest {
        session,
        client_id: ClientId::new("shell"),
        capabilities: Arc::new(StillCapabilities),
        shared: shared(vec![metrics.clone()]),
    };
    let call = IncomingCall {
        id: Some("delivery-1".into()),
        name: Some("echo".into()),
        arguments: Ok(json!({ "text": text }).as_object().unwrap().clone().into()),
    };
    call_once(request, call).await;
}

#[tokio::test(start_paused = true)]
async fn versions_stand_side_by_side_with_what_their_difference_says() {
    let metrics = Arc::new(Metrics::default());
    for user in 0..30 {
        call_of(&metrics, "1.2.0", user, json!("12345678")).await;
        // Half of them are refused.
        let text = if user % 2 == 0 { json!(7) } else { json!("1") };
        call_of(&metrics, "1.10.0", user % 5, text).await;
    }
    let json = metrics.versions_json();
    let echo = &json["tools"]["echo"];
    let versions = &echo["versions"];
    let counts = ["calls", "succeeded", "refused", "users"];
    let of = |version: &str| counts.map(|name| versions[version][name].as_u64().unwrap());
    assert_eq!(of("1.2.0"), [30, 30, 0, 30]);
    assert_eq!(of("1.10.0"), [30, 15, 15, 5]);
    assert_eq!(versions["1.2.0"]["successRate"], 1.0);
    let interval = versions["1.2.0"]["successInterval"].as_array().unwrap();
    assert!(
        (interval[0].as_f64().unwrap() - 0.886).abs() < 0.001,
        "{interval:?}"
    );
    assert_eq!(versions["1.10.0"]["latencyMs"]["count"], 15);
    assert_eq!(
        versions["1.10.0"]["errorsByType"],
        json!({ "VALIDATION": 15 })
    );

    let differences = echo["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1);
    let difference = &differences[0];
    assert_eq!(
        (&difference["version"], &difference["with"]),
        (&json!("1.10.0"), &json!("1.2.0"))
    );
    let verdicts =
        ["successRate", "refusalRate", "latencyMs"].map(|name| &difference[name]["verdict"]);
    assert_eq!(verdicts, ["lower", "higher", "nothing_yet"]);
    assert_eq!(difference["fewUsers"], true);

    // The tool's own figures are those of both.
    let tool = &metrics.json()["tools"]["echo"];
    assert_eq!(
        (&tool["calls"], &tool["versions"]["1.10.0"]["calls"]),
        (&json!(60), &json!(30))
    );
    assert_eq!(metrics.tools_json()["echo"]["calls"], 60);
}

#[tokio::test(start_paused = true)]
async fn too_few_calls_say_nothing_of_a_version() {
    let metrics = Arc::new(Metrics::default());
    for user in 0..19 {
        call_of(&metrics, "1.0.0", user, json!("1")).await;
        call_of(&metrics, "2.0.0", user, json!(7)).await;
    }
    let json = metrics.versions_json();
    let difference = &json["tools"]["echo"]["differences"][0];
    assert_eq!(difference["successRate"]["difference"], -1.0);
    assert_eq!(difference["successRate"]["verdict"], "nothing_yet");
    assert_eq!(json["callsMin"], 20);
}

#[tokio::test(start_paused = true)]
async fn versions_have_an_end_however_often_the_tools_are_built_again() {
    let metrics = Arc::new(Metrics::default());
    for number in 0..40 {
        call_of(&metrics, &format!("1.{number}.0"), 1, json!("1")).await;
    }
    let json = metrics.versions_json();
    let versions = json["tools"]["echo"]["versions"].as_object().unwrap();
    assert_eq!(versions.len(), 33);
    assert_eq!(versions["(other)"]["calls"], 8);
}
