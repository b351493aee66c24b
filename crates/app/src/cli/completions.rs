//! `windlass completions`: a shell's completions, made of the same description as the help.

use super::{Cli, CompletionsArguments, PROGRAM};
use crate::failure::Failure;
use crate::printer::Printer;
use clap::{Command, CommandFactory};
use std::path::Path;

pub(super) fn run(arguments: &CompletionsArguments) -> Result<(), Failure> {
    // A user's own program has its own name.
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_stem().and_then(|name| name.to_str());
    let name = name.filter(|name| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !name.is_empty() && name.bytes().all(is_plain)
    });
    let mut text = Vec::new();
    let mut command = visible(&Cli::command());
    clap_complete::generate(
        arguments.shell,
        &mut command,
        name.unwrap_or(PROGRAM),
        &mut text,
    );
    Printer.result(String::from_utf8_lossy(&text).trim_end());
    Ok(())
}

/// The same without hidden names, which completions would offer.
fn visible(command: &Command) -> Command {
    // Names of commands last as long as the program, which prints this and ends.
    let name: &'static str = Box::leak(command.get_name().to_owned().into_boxed_str());
    let inner = command.get_subcommands();
    let inner = inner.filter(|inner| !inner.is_hide_set()).map(visible);
    let copy = Command::new(name)
        .args(command.get_arguments().cloned())
        .subcommands(inner);
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}
