//! The built-in tools through their public contract: real handlers, real schemas, a world of fakes.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod calendar;
#[cfg(test)]
mod describe_tool;
#[cfg(test)]
mod end_voice_session;
#[cfg(test)]
mod escalate;
#[cfg(test)]
mod extract_contacts;
#[cfg(test)]
mod format_datetime;
#[cfg(test)]
mod get_context;
#[cfg(test)]
mod ignore_user;
#[cfg(test)]
mod images;
#[cfg(test)]
mod kb_get;
#[cfg(test)]
mod kb_search;
#[cfg(test)]
mod lookups;
#[cfg(test)]
mod query_tool_memory;
#[cfg(test)]
mod rank_results;
#[cfg(test)]
mod schemas;
#[cfg(test)]
mod send_image;
#[cfg(test)]
mod start_voice_session;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod web_search;
