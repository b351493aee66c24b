//! What a server reads beforehand, so that no first call waits for it.

use crate::support::change::write_tool;
use crate::support::config;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use windlass_app::server::{Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

type Told = (Mutex<Sender<&'static str>>, Mutex<Receiver<&'static str>>);

static TOLD: LazyLock<Told> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    (Mutex::new(sender), Mutex::new(receiver))
});

fn tell(name: &'static str) {
    TOLD.0.lock().unwrap().send(name).unwrap();
}

/// A handler that reads something beforehand.
struct Reader(fn());

impl Handler for Reader {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }

    fn preparation(&self) -> Option<fn()> {
        Some(self.0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reads_beforehand_what_its_tools_need_and_no_others() {
    let tools = tempfile::tempdir().unwrap();
    write_tool(tools.path(), serde_json::json!({}));
    let handlers: [(&str, Arc<dyn Handler>); 2] = [
        ("change", Arc::new(Reader(|| tell("on")))),
        ("another", Arc::new(Reader(|| tell("off")))),
    ];
    let handlers = handlers
        .into_iter()
        .map(|(id, handler)| (ToolId::parse(id).unwrap(), handler));
    let handlers: BTreeMap<_, _> = handlers.collect();
    for _ in 0..2 {
        let data = tempfile::tempdir().unwrap();
        let keys = [("folders.tools", tools.path().to_str().unwrap())];
        let server = start(Setup {
            config: config(data.path(), &keys),
            handlers: handlers.clone(),
            watch: false,
        })
        .await
        .unwrap();
        // By the second server everything of the first one has been told.
        let told = TOLD.1.lock().unwrap().recv_timeout(PATIENCE);
        assert_eq!(told, Ok("on"));
        server.shut_down().await;
    }
}
