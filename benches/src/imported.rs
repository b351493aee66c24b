//! Measures what a tool of an imported MCP server adds to a call: this process alone, beside a tool built in and a process of the
//! author's own. Needs a shell, whose own processor time is not counted.

use crate::measure::{PASS, cost, print, rounded};
use crate::process;
use crate::scripts::answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_compile::handler_file::{DefinitionHash, McpHandler};
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_runtime::fetch::SystemResolver;
use windlass_runtime::mcp::{
    McpLimits, McpPlace, McpProgram, McpServers, McpSettings, McpSurroundings,
};

/// Microseconds that such a tool is to add to a call at most.
const ADDED_US_MAX: f64 = 200.0;
/// The definition that the server lists for its one tool.
const DEFINITION: &str = r#"{"name":"echo","description":"Says it.","inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}}}}"#;
/// Reads a line, and answers under its id.
const SERVER: &str = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%,*}
case "$line" in
*server/discover*) result='"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}';;
*tools/list*) result='"tools":[DEFINITION]';;
*) result='"content":[{"type":"text","text":"{\"total\":1}"}],"structuredContent":{"total":1}';;
esac
printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}\n' $id "$result"; done"#;

/// Does the same without leaving this process.
struct BuiltIn;

impl Handler for BuiltIn {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::new(json!({"total": 1}))))
    }
}

pub(crate) fn run() -> Result<(), String> {
    let built_in = measured(|| Ok(Arc::new(BuiltIn)))?;
    let imported = measured(imported)?;
    let process = process::cpu_us()?;
    print(&json!({
        "bench": "imported",
        "cpu_us_per_call_built_in": rounded(built_in),
        "cpu_us_per_call_of_a_process": rounded(process),
        "cpu_us_per_call_imported": rounded(imported),
        "cpu_us_added": rounded(imported - built_in),
        "goal_at_most": ADDED_US_MAX,
        "met": imported - built_in <= ADDED_US_MAX,
    }));
    Ok(())
}

/// Microseconds of one call. All work of this process is on the thread that measures.
fn measured(handler: impl FnOnce() -> Result<Arc<dyn Handler>, String>) -> Result<f64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let handler = runtime.block_on(async { handler() })?;
    let mut failure = None;
    let cost = cost(PASS, |number| {
        let result = runtime.block_on(answer(&handler, number));
        failure = failure.take().or(result.err());
    });
    match failure {
        None => Ok(cost.processor_ns_per_call() / 1_000.0),
        Some(failure) => Err(format!("a call failed: {failure:?}")),
    }
}

fn imported() -> Result<Arc<dyn Handler>, String> {
    let place = McpPlace::Program(McpProgram {
        command: vec![
            "sh".to_owned(),
            "-c".to_owned(),
            SERVER.replace("DEFINITION", DEFINITION),
        ],
        folder: None,
        variables: Vec::new(),
        secrets: Vec::new(),
    });
    let settings = McpSettings {
        place,
        limits: McpLimits::default(),
    };
    let surroundings = McpSurroundings {
        connections: BTreeMap::new(),
        secrets: BTreeMap::new(),
        unlogged: Vec::new(),
        resolver: Arc::new(SystemResolver),
    };
    let servers = McpServers::new(
        BTreeMap::from([("echo".to_owned(), settings)]),
        &surroundings,
    );
    let definition: Value = serde_json::from_str(DEFINITION).map_err(|error| error.to_string())?;
    let definition = definition.as_object().ok_or("no object")?;
    Ok(servers.get("echo")?.handler(McpHandler {
        server: "echo".to_owned(),
        tool: "echo".to_owned(),
        definition: DefinitionHash::of(definition),
        timeout_ms: None,
    }))
}
