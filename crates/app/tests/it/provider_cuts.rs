//! A provider that breaks off within a frame and turns callers away: the session goes on, and what the model asks for again
//! happens once. The provider is the simulator as a process, so that its words are shown, too.

use crate::support::config;
use crate::support::model_server::Gate;
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use windlass_app::server::{Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::id::ToolId;

/// Counts how often something outside is asked for, and takes its time over it.
#[derive(Default)]
struct Order {
    orders: AtomicU32,
    may_end: Gate,
}

impl Handler for Order {
    fn execute(&self, _: Invocation) -> Execution {
        let receipt = self.orders.fetch_add(1, Ordering::SeqCst) + 1;
        self.may_end.pass();
        Execution::Ready(Ok(Success::new(json!({ "receipt": receipt }))))
    }

    fn placement(&self) -> Placement {
        Placement::Apart
    }
}

fn write_tool(tools: &Path) {
    let tool = tools.join("order");
    fs::create_dir_all(&tool).unwrap();
    let schema = json!({
        "toolId": "order", "version": "1.0.0", "description": "Orders an item.", "category": "action",
        "sideEffects": "writes", "idempotent": false, "requiresConfirmation": false,
        "allowedModes": ["voice"], "latencyBudgetMs": 1_000,
        "parameters": {
            "type": "object", "additionalProperties": false, "required": ["item"],
            "properties": { "item": { "type": "string", "description": "What is ordered" } }
        }
    });
    fs::write(tool.join("schema.json"), schema.to_string()).unwrap();
    fs::write(tool.join("guide.md"), "# Order\n\nOrders an item.\n").unwrap();
}

const SCRIPT: &str = "
settings: { speed: 0, await_playback: false }
exchanges:
  - when: { text: tent }
    turn: 2
    do:
      - call: { name: order, args: { item: tent } }
      - refuse_connects: 2
      - half_frame: { serverContent: { outputTranscription: { text: Your receipt is number } } }
  # The next connection knows nothing of the call, and is asked the same again.
  - when: { text: tent }
    do:
      - call: { name: order, args: { item: tent } }
      - expect_response
      - say: 'Your receipt is number {result.output.data.receipt}.'
  - when: any
    do:
      - say: Good day.
";

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_half_a_frame_and_refused_connections_with_one_effect() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script.yaml"), SCRIPT).unwrap();
    let mut simulator = command(folder.path());
    let mut simulator =
        Running::start(simulator.args(["sim", "gemini-live", "--script", "script.yaml"]));
    let url = format!("ws://{}", simulator.address());
    let tools = folder.path().join("tools");
    write_tool(&tools);
    let order = Arc::new(Order::default());
    let mut handlers = windlass_handlers::builtin();
    handlers.insert(ToolId::parse("order").unwrap(), order.clone());
    let keys = [
        ("folders.tools", tools.to_str().unwrap()),
        ("provider.kind", "gemini-live"),
        ("provider.url", url.as_str()),
    ];
    let server = start(Setup {
        config: config(&folder.path().join("data"), &keys),
        handlers,
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("Hello.").await;
    client.expect("turn_complete").await;

    client.say("Order a tent.").await;
    // Told of each attempt; the first two are refused. The order is under way all the while.
    for attempt in 1..=3 {
        assert_eq!(client.expect("reconnecting").await["attempt"], attempt);
    }
    client.expect("reconnected").await;
    order.may_end.open();
    let finished = client.expect("tool_call_finished").await;
    assert_eq!(finished["ok"], true, "{finished}");
    loop {
        let transcript = client.expect("transcript").await;
        if transcript["role"] == "assistant" && transcript["final"] == true {
            assert_eq!(transcript["text"], "Your receipt is number 1.");
            break;
        }
    }
    assert_eq!(order.orders.load(Ordering::SeqCst), 1);
    client.send(json!({"type": "stop"})).await;
    client.expect("session_complete").await;
    client.expect_close().await;
    server.shut_down().await;
}
