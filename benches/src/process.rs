//! Measures this side's cost of a call of a worker, without the process itself. Knows nothing of the pipeline around it.

use crate::measure::{PASS, cost, print, rounded};
use crate::path;
use crate::scripts;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::handler::{Execution, Handler, Numbers};
use windlass_contract::id::ToolId;
use windlass_runtime::worker::{ServedTool, Worker, WorkerLimits, WorkerOptions, WorkerProgram};

/// Answers each call at once; the processor time of a shell is not counted.
const ECHO: &str = r#"while read -r line; do id=${line#*\"id\":}; id=${id%%,*}
printf '{"jsonrpc":"2.0","id":%s,"result":{"ok":true,"data":{"total":1}}}\n' $id; done"#;

pub(crate) fn run() -> Result<(), String> {
    let (calls, cpu_us) = measured()?;
    print(&json!({
        "bench": "process",
        "calls": calls,
        "cpu_us_per_call": rounded(cpu_us),
    }));
    Ok(())
}

/// The cost of a call here, in microseconds of processor time.
pub(crate) fn cpu_us() -> Result<f64, String> {
    measured().map(|(_, cpu_us)| cpu_us)
}

pub(crate) fn goal() -> Result<(), String> {
    let cpu_us = cpu_us()?;
    scripts::goal(
        "a call of a process of the author's own, here",
        150.0,
        "us of processor time",
        cpu_us,
    );
    Ok(())
}

/// The number of calls, and the cost of one in microseconds.
fn measured() -> Result<(usize, f64), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let worker = Worker::new(WorkerOptions {
        name: "echo".into(),
        program: WorkerProgram {
            program: "sh".into(),
            arguments: vec!["-c".into(), ECHO.into()],
            folder: None,
            files: Vec::new(),
            variables: Vec::new(),
        },
        limits: WorkerLimits::default(),
        first_requests: Box::new(Vec::new),
        secrets: Vec::new(),
        granted: Default::default(),
        connections: Default::default(),
    });
    let tool = ToolId::parse("echo").ok_or("no id")?;
    let handler: Arc<dyn Handler> = worker.handler(ServedTool::new(tool, Numbers::Exact));
    let mut failed = 0;
    let mut once = |number: usize| {
        let invocation = path::invocation(number);
        let result = match handler.execute(invocation) {
            Execution::Ready(result) => result,
            Execution::Pending(future) => runtime.block_on(future),
        };
        failed += usize::from(result.is_err());
    };
    let cost = cost(PASS, &mut once);
    if failed > 0 {
        return Err(format!("{failed} calls failed"));
    }
    Ok((cost.calls, cost.processor_ns_per_call() / 1_000.0))
}
