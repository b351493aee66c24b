//! The server with the kit's two tools, for a load generator to chat with. Owns the tools and their made-up answers; the
//! model that asks for them is the load generator's.

use crate::kit::Kit;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use windlass_app::server::config::{Flag, Loaded, Sources};
use windlass_app::server::{Setup, start};
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::id::ToolId;

/// More than any load has in a minute.
const MANY: &str = "100000000";

/// Serves until the process is ended.
pub(crate) fn run(kit: &Kit, listen: &str, model_url: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let setup = setup(kit, folder.path(), listen, model_url, handlers())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let server = start(setup).await.map_err(|error| format!("{error:?}"))?;
        println!("READY {} {}", server.address(), std::process::id());
        std::future::pending::<()>().await;
        Ok(())
    })
}

/// A server with the kit's tools, which these handlers answer.
pub(crate) fn setup(
    kit: &Kit,
    folder: &Path,
    listen: &str,
    model_url: &str,
    handlers: BTreeMap<ToolId, Arc<dyn Handler>>,
) -> Result<Setup, String> {
    write_tools(kit, folder).map_err(|error| error.to_string())?;
    let at = |name: &str| folder.join(name).display().to_string();
    let keys = [
        ("server.listen", listen.to_owned()),
        ("folders.tools", at("tools")),
        ("folders.knowledge", at("kb")),
        ("folders.prompts", at("prompts")),
        ("folders.data", at("data")),
        ("text.provider", "openai".to_owned()),
        ("text.url", model_url.to_owned()),
        ("log.level", "error".to_owned()),
        ("mcp_server.enabled", "true".to_owned()),
        // All of the load comes from one address, and is to be measured and not refused.
        ("shares.address.requests_per_minute_max", MANY.to_owned()),
        ("shares.address.turns_per_minute_max", MANY.to_owned()),
        ("shares.tenant.requests_per_minute_max", MANY.to_owned()),
        ("shares.tenant.turns_per_minute_max", MANY.to_owned()),
    ];
    let flags = keys.into_iter().map(|(key, value)| Flag {
        name: "--bench",
        key,
        value,
    });
    let sources = Sources {
        working_directory: folder.to_owned(),
        flags: flags.collect(),
        ..Sources::default()
    };
    let loaded = Loaded::load(&sources).map_err(|error| error.to_string())?;
    Ok(Setup {
        config: loaded.config,
        handlers,
        watch: false,
    })
}

fn handlers() -> BTreeMap<ToolId, Arc<dyn Handler>> {
    [("kb_search", Made::Hits), ("kb_get", Made::Article)]
        .into_iter()
        .filter_map(|(id, made)| Some((ToolId::parse(id)?, Arc::new(made) as Arc<dyn Handler>)))
        .collect()
}

fn write_tools(kit: &Kit, folder: &Path) -> std::io::Result<()> {
    let article = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "pattern": "^doc-[0-9]+$"},
            "format": {"type": "string", "enum": ["markdown", "text"], "default": "text"},
        },
    });
    std::fs::create_dir_all(folder.join("kb"))?;
    for (id, words, schema) in [
        ("kb_search", "Search the knowledge base", &kit.schema),
        ("kb_get", "Read one article", &article),
    ] {
        let directory = folder.join("tools").join(id.replace('_', "-"));
        std::fs::create_dir_all(&directory)?;
        let manifest: Value = json!({
            "toolId": id, "version": "1.0.0", "description": words,
            "category": "retrieval", "sideEffects": "read_only", "idempotent": true,
            "requiresConfirmation": false, "allowedModes": ["text", "voice"], "latencyBudgetMs": 800,
            "parameters": schema,
        });
        std::fs::write(directory.join("schema.json"), manifest.to_string())?;
        std::fs::write(directory.join("guide.md"), format!("# {id}\n\n{words}.\n"))?;
    }
    Ok(())
}

/// The answers of the kit's handlers.
enum Made {
    Hits,
    Article,
}

impl Handler for Made {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        let argument = |name| invocation.arguments.get(name).unwrap_or_default();
        let data = match self {
            Self::Hits => json!({
                "hits": [{"id": "doc-1", "title": "Refunds", "score": 0.87}],
                "total": 1,
                "query": argument("query"),
                "limit": argument("limit"),
            }),
            Self::Article => json!({
                "id": argument("id"),
                "title": "Refunds",
                "body": "Annual plans can be refunded within 30 days.",
            }),
        };
        Execution::Ready(Ok(Success::new(data)))
    }
}
