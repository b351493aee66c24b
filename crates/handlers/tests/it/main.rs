//! The built-in tools through their public contract: real handlers, real schemas, a world of fakes.

mod bench;
mod describe_tool;
mod end_voice_session;
mod ignore_user;
mod kb_get;
mod kb_search;
mod schemas;
mod start_voice_session;
