//! Measures a server's cost of one call over MCP, beside one that a model makes in a turn of the chat. The server is a process of its
//! own; its model and the clients are this one.

use crate::measure::{print, rounded};
use crate::pieces::{ask, in_a_server, model, post_with, processor};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

const CALLS: usize = 200;
const PASSES: usize = 5;
const HEADERS: &str = "Content-Type: application/json\r\nAccept: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n\
    Mcp-Method: tools/call\r\nMcp-Name: kb_search\r\n";

pub(crate) fn run() -> Result<(), String> {
    in_a_server(model()?, compare)
}

fn compare(address: SocketAddr, server: u32) -> Result<(), String> {
    let (mut chats, mut calls) = (Vec::new(), Vec::new());
    // The first pass warms up.
    for pass in 0..=PASSES {
        let before = processor(server)?;
        for number in 0..CALLS {
            chat(address, &format!("m-{pass}-{number}"))?;
        }
        let between = processor(server)?;
        (0..CALLS).try_for_each(|number| call(address, number))?;
        let after = processor(server)?;
        if pass > 0 {
            chats.push(each(between.saturating_sub(before)));
            calls.push(each(after.saturating_sub(between)));
        }
    }
    chats.sort_by(f64::total_cmp);
    calls.sort_by(f64::total_cmp);
    let (chat, call) = (chats[PASSES / 2], calls[PASSES / 2]);
    print(&json!({
        "bench": "mcp", "calls": CALLS * PASSES,
        "cpu_us_per_chat_turn_with_a_call": rounded(chat),
        "cpu_us_per_call_over_mcp": rounded(call),
        "ratio": rounded(call / chat),
    }));
    Ok(())
}

/// Microseconds of one of them.
fn each(spent: Duration) -> f64 {
    spent.as_secs_f64() * 1e6 / CALLS as f64
}

fn chat(address: SocketAddr, id: &str) -> Result<(), String> {
    let heard = ask(address, &json!({"id": id, "message": "0"}))?;
    match heard.contains("tool-output-available") {
        true => Ok(()),
        false => Err(format!("the turn has no call: {heard}")),
    }
}

fn call(address: SocketAddr, number: usize) -> Result<(), String> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({"query": "0", "limit": 5});
    let params = json!({"name": "kb_search", "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
    let heard = post_with(address, ("/mcp", HEADERS), &body)?;
    match heard.contains("\"structuredContent\"") {
        true => Ok(()),
        false => Err(format!("the call is not made: {heard}")),
    }
}
