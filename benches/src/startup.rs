//! Measures how long the registry takes to load: an artifact on disk with 5 and with 200 tools, until sessions can begin.

use crate::kit::{Kit, artifact_path, build, load};
use crate::measure::{cost, print, rounded};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn run(kit: &Kit) -> Result<(), String> {
    for tools in [5, 200] {
        print(&measure_load(kit, tools).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn measure_load(kit: &Kit, tools: usize) -> std::io::Result<Value> {
    let folder = tempfile::tempdir()?;
    build(folder.path(), &kit.many(tools))?;
    let artifact = artifact_path(folder.path());
    let bytes = std::fs::metadata(&artifact)?.len();
    let loaded = load(&artifact)?.len();
    let cost = cost(Duration::from_secs(3), |_| {
        std::hint::black_box(load(&artifact).map(|registry| registry.len()).ok());
    });
    Ok(json!({
        "bench": "startup", "label": "load of the registry", "tools": loaded, "artifact_bytes": bytes,
        "loads": cost.calls, "cpu_ms_per_load": rounded(cost.processor_ns_per_call() / 1e6),
    }))
}
