//! Measures the costs of the in-process path; one JSON object a line. Only the measurements of scripts and of imported tools know their
//! goals.

#![expect(
    clippy::print_stdout,
    reason = "telling what was measured is this program's purpose"
)]

mod audio;
mod calendar;
mod chat_server;
mod conditions;
mod contacts;
mod core_steps;
mod dispatch;
mod entrance;
mod flood;
mod gate;
mod imported;
mod kit;
mod mcp;
mod measure;
mod path;
mod pieces;
mod process;
mod replay;
mod rest;
mod scripts;
mod snapshots;
mod startup;
mod store;

use gate::Stop;
use kit::Kit;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p windlass-benches -- <measurement>

  dispatch [VARIANT...]   one validated call through the whole path, and its parts
  dispatch places         single calls by their place in the turn
  core                    inputs that the session core takes in a second
  audio                   frames of audio through the codec
  calendar                free slots of 31 days among 10,000 events
  contacts                extract_contacts with a text of 100 kB
  conditions              conditions of tools: of one call, and of 200 tools at a session's start
  entrance                a request's key, and its ticket
  flood                   chat turns of others while one address floods (after `cargo build --release`, under `taskset -c 1`)
  startup                 loading the registry, and starting a server, with 5 and 200 tools
  pieces                  a piece of a result that grows, and how soon a call knows that it was stopped
  imported                a call of a tool of an imported MCP server (needs a shell)
  mcp                     processor time of a call over MCP, beside one in a turn of the chat
  process                 a call of a tool whose handler is a process of its own (needs a shell)
  rest                    memory of the program itself at rest (after `cargo build --release`)
  scripts                 calls of handlers in JavaScript and of processes, against their goals (after `cargo build --release`)
  replay                  running a recorded hour again
  snapshots               what a voice session leaves for its next process: bytes, instructions, how often
  store [FOLDER]          durable reservations at 1,000 calls a second, beside flushes of the same disk
  chat-server LISTEN URL  the server with the kit's tools, whose model is at the URL, for a load generator to chat with
  gate [update]           instructions of one call, compared with the committed number (needs valgrind)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["store", folder @ ..] = arguments.as_slice() {
        return code(store::run(folder.first().copied()));
    }
    if let ["process"] = arguments.as_slice() {
        return code(process::run());
    }
    if let ["imported"] = arguments.as_slice() {
        return code(imported::run());
    }
    if let ["scripts"] = arguments.as_slice() {
        return code(scripts::run());
    }
    if let ["calendar"] = arguments.as_slice() {
        return code(calendar::run());
    }
    if let ["contacts"] = arguments.as_slice() {
        return code(contacts::run());
    }
    if let ["conditions"] = arguments.as_slice() {
        return code(conditions::run());
    }
    if let ["entrance"] = arguments.as_slice() {
        return code(entrance::run());
    }
    if let ["flood"] = arguments.as_slice() {
        return code(flood::run());
    }
    if let ["rest"] = arguments.as_slice() {
        return code(rest::run());
    }
    if let ["started", folder] = arguments.as_slice() {
        return code(startup::start_once(folder));
    }
    let Some(kit) = Kit::load() else {
        println!(
            "failed: kb_search.schema.json and kb_search.args.json, the tool that is measured, are not in {}, a folder beside \
             the repository that is no part of it",
            Kit::folder().display()
        );
        return ExitCode::FAILURE;
    };
    let outcome = match arguments.as_slice() {
        ["dispatch", variants @ ..] => dispatch::run(&kit, variants),
        ["core"] => core_steps::run(&kit),
        ["audio"] => {
            audio::run();
            Ok(())
        }
        ["chat-server", listen, model_url] => chat_server::run(&kit, listen, model_url),
        ["mcp"] => mcp::run(),
        ["pieces"] => pieces::run(&kit),
        ["pieces-server", model] => pieces::server(&kit, model),
        ["replay"] => replay::run(&kit),
        ["snapshots"] => snapshots::run(&kit),
        ["saves", minutes, saves] => snapshots::save_often(&kit, minutes, saves),
        ["startup"] => startup::run(&kit),
        ["gate"] => said(gate::check()),
        ["gate", "update"] => said(gate::update()),
        ["calls", calls] => calls
            .parse()
            .map_err(|_| format!("{calls} is no number"))
            .and_then(|calls| said(gate::run(&kit, calls))),
        _ => {
            print!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    code(outcome)
}

fn code(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("failed: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// A gate that cannot look has no objection, and says so.
fn said(outcome: Result<(), Stop>) -> Result<(), String> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Stop::Skipped(reason)) => {
            println!("skipped: {reason}");
            Ok(())
        }
        Err(Stop::Failed(problem)) => Err(problem),
    }
}
