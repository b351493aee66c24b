//! The program and the server as a whole: real processes, real sockets, the real provider protocol. One binary for all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod answers_anywhere;
mod approvals_together;
mod asked_again;
mod audit_gone;
mod audit_places;
mod beginnings;
mod blocks;
mod bodies;
mod callbacks;
mod calls_shown;
mod chat;
mod chat_lasting;
mod chat_turns;
mod code_changed;
mod command_line;
mod completions;
mod composed;
mod connections;
mod disk_full;
mod doors;
mod floods;
mod gpt_live;
mod handler_kinds;
mod history_shown;
mod hostile_content;
#[cfg(feature = "documents")]
mod hostile_documents;
mod hours_end;
mod hung_handlers;
mod idempotency;
mod imports;
mod kills;
mod knowledge;
mod knowledge_moved;
#[cfg(feature = "postgres")]
mod knowledge_outage;
mod knowledge_served;
mod knowledge_services;
mod oddities;
mod pages;
mod pictures;
mod places;
mod planted_secrets;
mod ports;
mod processes;
mod provider_cuts;
mod provider_tools;
mod provider_wire;
mod questions_run_out;
mod refusals;
mod replays;
mod scripts;
mod streams;
mod support;
mod ten_minutes;
mod terminal;
mod terminal_chat;
mod turns_again;
mod turns_taken_up;
mod two_sessions;
mod voice;
mod warnings;
mod wrong_keys;
