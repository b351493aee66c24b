//! The walk at the beginning of docs/tools.md, step by step, as a reader would take it.

use crate::support::http::post;
use crate::support::program::{Running, command};
use crate::support::root;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One block of the section: the line before it, its language and its text.
struct Step {
    before: String,
    language: String,
    text: String,
}

fn steps(section: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut before, mut open): (String, Option<Step>) = (String::new(), None);
    for line in section.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Step {
                    before: std::mem::take(&mut before),
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => steps.extend(open.take()),
            (Some(step), None) => {
                step.text.push_str(line);
                step.text.push('\n');
            }
            (None, None) if !line.is_empty() => {
                before.push_str(line);
                before.push(' ');
            }
            (None, None) => {}
        }
    }
    steps
}

/// The last text between backticks.
fn quoted(text: &str) -> &str {
    let parts: Vec<&str> = text.split('`').collect();
    parts[parts.len() - 2]
}

/// What a shell says to the lines, with the program on its path.
fn run(folder: &Path, lines: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let plain = command(folder);
    let mut shell = Command::new("sh");
    shell.args(["-ec", lines]).current_dir(folder);
    for (name, _) in plain.get_envs() {
        shell.env_remove(name);
    }
    let output = shell.env("PATH", path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{lines}\n{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_comes_from_nothing_to_a_confirmed_tool_that_does_not_block() {
    let document = fs::read_to_string(root().join("docs/tools.md")).unwrap();
    let (_, section) = document.split_once("## A tool in ten minutes\n").unwrap();
    let (section, _) = section.split_once("\n## schema.json\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut place: PathBuf = folder.path().to_owned();
    let (mut said, mut sentence) = (String::new(), None);
    for step in steps(section) {
        match step.language.as_str() {
            "sh" if step.text.starts_with("windlass serve") => sentence = Some(step.before),
            "sh" => {
                said = run(&place, &step.text);
                for line in step.text.lines() {
                    if let Some(inner) = line.strip_prefix("cd ") {
                        place.push(inner);
                    }
                }
            }
            "text" => {
                for line in step.text.lines() {
                    assert!(said.contains(line), "{line} is not in {said}");
                }
            }
            _ if step.before.contains("Add two members") => {
                let file = place.join(quoted(&step.before));
                let mut schema: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                let more: Value = serde_json::from_str(&step.text).unwrap();
                let members = more.as_object().unwrap().clone();
                schema.as_object_mut().unwrap().extend(members);
                fs::write(file, schema.to_string()).unwrap();
            }
            _ => fs::write(place.join(quoted(&step.before)), step.text).unwrap(),
        }
    }
    let sentence = sentence.unwrap();
    let sentence = sentence
        .split('`')
        .find(|part| part.starts_with("call "))
        .unwrap();
    let mut server =
        Running::start(command(&place).args(["serve", "--listen", "127.0.0.1:0", "--watch"]));
    let address = server.address();
    by_text(&address, sentence);
    by_voice(&address, sentence).await;
}

fn by_text(address: &str, sentence: &str) {
    let body = json!({"id": "talk", "message": sentence}).to_string();
    let asked = post(address, "/api/chat", body.as_bytes()).body;
    let request = asked
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .find(|chunk| chunk["type"] == "tool-approval-request");
    let token = &request.unwrap_or_else(|| panic!("{asked}"))["approvalId"];
    let yes = json!({"conversationId": "talk", "token": token, "approved": true}).to_string();
    let approved = post(address, "/api/confirm", yes.as_bytes()).body;
    assert!(approved.contains("\"table\":7"), "{approved}");
}

async fn by_voice(address: &str, sentence: &str) {
    let (mut client, _) = VoiceClient::start(address, json!({"type": "start"})).await;
    client.say(sentence).await;
    let request = client.expect("confirmation_request").await;
    assert_eq!(request["preview"], "Book a table for 4 at 20:00");
    let yes = json!({"type": "confirm", "token": request["token"], "approved": true});
    client.send(yes).await;
    let result = client.expect("confirmation_result").await;
    assert_eq!(result["response"]["data"]["table"], 7, "{result}");
}
