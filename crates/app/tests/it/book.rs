//! The pages of the book that a reader follows: each is done word for word in a fresh folder, with the real program.

use crate::support::http::{get, post};
use crate::support::program::{Running, command};
use crate::support::root;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The port of every service that a page starts. Each walk has one of its own in its place.
const PORT: &str = "9001";

/// One block of a page: the line before it, its language and its text.
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

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// A reader at a page, in a folder that was empty at its beginning.
struct Walk {
    folder: TempDir,
    /// Where it stands below the folder.
    inner: PathBuf,
    port: String,
    /// What the last commands said.
    said: String,
    services: Vec<Child>,
    /// What is written before the command that starts the server: the walk goes on by other means there.
    before_serve: Option<String>,
}

impl Walk {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            inner: PathBuf::new(),
            port: free.local_addr().unwrap().port().to_string(),
            folder,
            said: String::new(),
            services: Vec::new(),
            before_serve: None,
        }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join(&self.inner)
    }

    fn follow(&mut self, section: &str) {
        for step in steps(section) {
            let text = step.text.replace(PORT, &self.port);
            match step.language.as_str() {
                "sh" if text.starts_with("windlass serve") => self.before_serve = Some(step.before),
                "sh" if step.before.contains("another terminal") => self.start(&text),
                "sh" => self.run(&text),
                // What is not to be done here: an installation, or the line of another program.
                "text" if text.starts_with("cargo ") || text.contains("_API_KEY=") => {}
                "text" => {
                    for line in text.lines() {
                        assert!(self.said.contains(line), "{line} is not in {}", self.said);
                    }
                }
                _ if step.before.contains("Add two members") => self.add_members(&step, &text),
                _ if step.before.contains("Add to ") => self.append(quoted(&step.before), &text),
                _ => self.write(quoted(&step.before), &text),
            }
        }
    }

    /// A shell with the program on its path, and nothing of the machine's configuration.
    fn shell(&self, lines: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let plain = command(&self.place());
        let mut shell = Command::new("sh");
        shell.args(["-ec", lines]).current_dir(self.place());
        for (name, _) in plain.get_envs() {
            shell.env_remove(name);
        }
        shell.env("PATH", path);
        shell
    }

    fn run(&mut self, lines: &str) {
        let output = self.shell(lines).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        self.said = String::from_utf8(said).unwrap();
        assert!(output.status.success(), "{lines}\n{}", self.said);
        for inner in lines.lines().filter_map(|line| line.strip_prefix("cd ")) {
            self.inner.push(inner);
        }
    }

    /// A service, which says in one line that it listens.
    fn start(&mut self, lines: &str) {
        // The shell becomes its last command, so that ending it ends the service.
        let (first, last) = lines.trim_end().rsplit_once('\n').unwrap_or(("", lines));
        let mut shell = self.shell(&format!("{first}\nexec {last}"));
        let mut service = shell.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = service.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{lines} said nothing");
        self.services.push(service);
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.place().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn append(&self, file: &str, text: &str) {
        let file = OpenOptions::new()
            .append(true)
            .open(self.place().join(file));
        write!(file.unwrap(), "\n{text}").unwrap();
    }

    fn add_members(&self, step: &Step, text: &str) {
        let file = self.place().join(quoted(&step.before));
        let mut schema: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let more: Value = serde_json::from_str(text).unwrap();
        let members = more.as_object().unwrap().clone();
        schema.as_object_mut().unwrap().extend(members);
        fs::write(file, schema.to_string()).unwrap();
    }

    fn serve(&self) -> Running {
        let mut serve = command(&self.place());
        Running::start(serve.args(["serve", "--listen", "127.0.0.1:0", "--watch"]))
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        for service in &mut self.services {
            // It may have ended by itself.
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

#[test]
fn a_reader_starts_in_five_minutes() {
    let mut walk = Walk::begin();
    walk.follow(&page("start.md"));
    assert!(walk.before_serve.is_some());
    let mut server = walk.serve();
    let address = server.address();
    assert!(get(&address, "/").body.contains("<html"));
    let body = json!({"message": "When is breakfast served?"}).to_string();
    let answer = post(&address, "/api/chat", body.as_bytes()).body;
    let chunks = answer
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let words: String = chunks
        .filter_map(|chunk| chunk["delta"].as_str().map(str::to_owned))
        .collect();
    assert!(words.contains("in the winter garden"), "{answer}");
    assert!(answer.contains("doc:breakfast"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_comes_from_nothing_to_a_confirmed_tool_that_does_not_block() {
    let mut walk = Walk::begin();
    walk.follow(&page("first-tool.md"));
    let before = walk.before_serve.take().unwrap();
    let sentence = before.split('`').find(|part| part.starts_with("call "));
    let mut server = walk.serve();
    let address = server.address();
    book_by_text(&address, sentence.unwrap());
    book_by_voice(&address, sentence.unwrap()).await;
}

fn book_by_text(address: &str, sentence: &str) {
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

async fn book_by_voice(address: &str, sentence: &str) {
    let (mut client, _) = VoiceClient::start(address, json!({"type": "start"})).await;
    client.say(sentence).await;
    let request = client.expect("confirmation_request").await;
    assert_eq!(request["preview"], "Book a table for 4 at 20:00");
    let yes = json!({"type": "confirm", "token": request["token"], "approved": true});
    client.send(yes).await;
    let result = client.expect("confirmation_result").await;
    assert_eq!(result["response"]["data"]["table"], 7, "{result}");
}

/// The recipe of this name, and what every recipe begins with.
fn cook(name: &str) {
    let cookbook = page("cookbook.md");
    let (beginning, recipes) = cookbook.split_once("\n## ").unwrap();
    let recipe = recipes
        .split("\n## ")
        .find(|recipe| recipe.lines().next() == Some(name));
    let mut walk = Walk::begin();
    walk.follow(beginning);
    walk.follow(recipe.unwrap_or_else(|| panic!("there is no recipe {name:?}")));
}

/// A test for each recipe, and one that none is left out.
macro_rules! recipes {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            cook($name);
        })*

        #[test]
        fn every_recipe_of_the_cookbook_has_its_test() {
            let cookbook = page("cookbook.md");
            let found: Vec<&str> = cookbook
                .lines()
                .filter_map(|line| line.strip_prefix("## "))
                .collect();
            assert_eq!(found, [$($name),*]);
        }
    };
}

recipes! {
    recipe_look_up_an_order: "Look up an order",
    recipe_book_an_appointment: "Book an appointment with the user's consent",
    recipe_hand_over: "Hand over to a person",
    recipe_answer_from_documents: "Answer from documents, with sources",
    recipe_staff_alone: "A tool for signed-in staff alone",
    recipe_rate_limit: "A tool with a rate limit",
    recipe_once: "Do it once, however often it is asked for",
    recipe_other_tools: "A tool that uses other tools",
    recipe_python: "A tool with Python's libraries",
    recipe_openapi: "A whole interface at once",
}

#[test]
fn the_smallest_voice_client_holds_a_conversation() {
    let page = page("voice-clients.md");
    let client = steps(&page)
        .into_iter()
        .find(|step| step.text.contains("new WebSocket("));
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command(&root());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
    let mut server = Running::start(serve.arg(folder.path().join("data")));
    let client = client
        .unwrap()
        .text
        .replace("127.0.0.1:8080", &server.address());
    fs::write(folder.path().join("client.mjs"), client).unwrap();
    let mut node = Command::new("node");
    // Node 20 has WebSocket behind a flag; later ones have it as it is.
    node.args(["--experimental-websocket", "client.mjs"]);
    let output = node.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Colin Archer"), "{said}");
}
