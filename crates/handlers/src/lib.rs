//! The built-in tools, one file each. Knows arguments, capabilities and answers; no session, no provider, no policy:
//! budgets, modes and confirmation were settled before a handler runs.

mod arguments;
mod calendar;
mod calendar_change;
mod calendar_get_availability;
mod calendar_list_events;
mod capability;
pub mod describe_tool;
mod end_voice_session;
mod escalate;
mod extract_contacts;
mod format_datetime;
mod get_context;
mod ignore_user;
mod image_draft_prompt;
mod image_generate;
mod kb_get;
mod kb_search;
mod outcome;
mod query_tool_memory;
mod rank_results;
mod record;
mod send_image;
mod service;
mod start_voice_session;
mod tasks;
mod web_search;

pub use describe_tool::describe_tool;

use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::handler::Handler;
use windlass_contract::id::ToolId;

/// The handlers that are built into the binary for tool directories, under their tools' ids. [`describe_tool()`] is not among them: it
/// has no directory, and the caller gives it the guides.
pub fn builtin() -> BTreeMap<ToolId, Arc<dyn Handler>> {
    use calendar_change::Changer;
    let handlers: [(&str, Arc<dyn Handler>); 23] = [
        ("calendar_cancel_event", Arc::new(Changer::Cancel)),
        ("calendar_create_event", Arc::new(Changer::Create)),
        (
            "calendar_get_availability",
            Arc::new(calendar_get_availability::Finder),
        ),
        (
            "calendar_list_events",
            Arc::new(calendar_list_events::Lister),
        ),
        ("calendar_move_event", Arc::new(Changer::Move)),
        ("cancel_task", Arc::new(tasks::Tasks::Cancel)),
        ("end_voice_session", Arc::new(end_voice_session::Ender)),
        ("escalate", Arc::new(escalate::Escalator)),
        ("extract_contacts", Arc::new(extract_contacts::Extractor)),
        ("format_datetime", Arc::new(format_datetime::Formatter)),
        ("get_context", Arc::new(get_context::Teller)),
        ("get_task", Arc::new(tasks::Tasks::Get)),
        ("ignore_user", Arc::new(ignore_user::Blocker)),
        ("image_draft_prompt", Arc::new(image_draft_prompt::Drafter)),
        ("image_generate", Arc::new(image_generate::Generator)),
        ("kb_get", Arc::new(kb_get::KbGet)),
        ("kb_search", Arc::new(kb_search::Searcher)),
        ("list_tasks", Arc::new(tasks::Tasks::List)),
        ("query_tool_memory", Arc::new(query_tool_memory::Rememberer)),
        ("rank_results", Arc::new(rank_results::Ranker)),
        ("send_image", Arc::new(send_image::Sender)),
        (
            "start_voice_session",
            Arc::new(start_voice_session::Starter),
        ),
        ("web_search", Arc::new(web_search::WebSearcher)),
    ];
    handlers
        .into_iter()
        .map(|(id, handler)| {
            let id = ToolId::parse(id).expect("the ids above keep the rule for ids");
            (id, handler)
        })
        .collect()
}
