//! The agent's own program: every command of `windlass`, with the tools of this crate beside the built-in ones.

mod say_hello;

use std::process::ExitCode;
use std::sync::Arc;
use windlass_contract::id::ToolId;

fn main() -> ExitCode {
    let mut handlers = windlass_handlers::builtin();
    let id = ToolId::parse("say_hello").expect("small letters and underscores are an id");
    handlers.insert(id, Arc::new(say_hello::SayHello));
    windlass_app::main(handlers)
}
