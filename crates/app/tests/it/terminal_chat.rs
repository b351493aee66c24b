//! `windlass chat` as a process: what it shows before it asks, and how it ends when it is told to.

use crate::knowledge::place;
use crate::knowledge_services::{EmbeddingService, Held};
use crate::processes::copy;
use crate::support::model_server::{ModelServer, Says};
use crate::support::program::{Running, command, run};
use crate::support::root;
use crate::terminal::terminal;
use nix::sys::termios::{LocalFlags, tcgetattr};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The repository's tools, in which a search counts as a change.
fn careful_tools(folder: &Path, needs_consent: bool) {
    let tools = folder.join("tools");
    copy(&root().join("tools"), &tools);
    let schema = tools.join("kb-search/schema.json");
    let text = std::fs::read_to_string(&schema).unwrap();
    let mut fields: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in [
        ("category", json!("action")),
        ("sideEffects", json!("writes")),
        ("idempotent", json!(false)),
        ("reach", json!("internal")),
        ("requiresConfirmation", json!(needs_consent)),
        ("timeoutMs", json!(60_000)),
    ] {
        fields[key] = value;
    }
    std::fs::write(schema, fields.to_string()).unwrap();
}

fn chat(folder: &Path, model: &ModelServer, more: &[&str]) -> Command {
    let mut command = command(folder);
    command
        .args(["chat", "--tools", "tools", "--kb", "kb", "--data", "data"])
        .args(["--text-provider-url", &model.url])
        .args(more);
    command
}

#[test]
fn a_question_shows_the_arguments_and_what_happened_before() {
    // With a mark that turns the direction of writing.
    let model = ModelServer::start(|last| match last["content"].to_string() {
        said if said.contains("Search.") => {
            Says::Calls("kb_search", json!({"query": "Fram\u{202e}!"}))
        }
        said if said.contains("approved") => Says::Words("Found."),
        _ => Says::Words("Wait for it."),
    });
    let folder = place(None);
    careful_tools(folder.path(), true);
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "Search.\nyes\nSearch.\nyes\n").unwrap();
    let mut command = chat(folder.path(), &model, &[]);
    let run = run(command.stdin(File::open(lines).unwrap()));
    assert_eq!(run.code, 0, "{:?}", run.problems);
    let said = format!("\n{}", run.problems.join("\n"));
    let mut questions = said.split("may the agent do this?");
    let (first, second) = (questions.next().unwrap(), questions.next().unwrap());
    assert_eq!(questions.count(), 1, "{said}");
    for question in [first, second] {
        let shown = "\n  kb_search {\"";
        assert!(question.contains(shown), "{question}");
        assert!(question.contains("Fram\\u{202e}!"), "{question}");
    }
    assert!(!said.contains('\u{202e}'), "{said:?}");
    let warning = "This was done before";
    assert!(!first.contains(warning), "{first}");
    assert!(second.contains(warning), "{second}");
}

#[test]
fn only_a_plain_yes_lets_the_agent_change_anything() {
    let model = ModelServer::start(|last| match last["content"].to_string() {
        said if said.contains("Search.") => Says::Calls("kb_search", json!({"query": "Fram"})),
        said if said.contains("approved") => Says::Words("Found."),
        _ => Says::Words("Very well."),
    });
    let folder = place(None);
    careful_tools(folder.path(), true);
    for (answer, runs) in [("y", false), (" Yes ", true), ("no", false)] {
        let lines = folder.path().join("lines");
        std::fs::write(&lines, format!("{answer}\n")).unwrap();
        let mut command = chat(folder.path(), &model, &["Search."]);
        let run = run(command.stdin(File::open(lines).unwrap()));
        let output = &run.output;
        assert_eq!(output.contains("Found."), runs, "{answer}: {output}");
        let asked = run.problems.join("\n");
        assert!(asked.contains("Type yes to let it"), "{asked}");
    }
}

#[test]
fn a_user_who_is_ignored_is_told_for_how_long_and_not_answered() {
    let model = ModelServer::start(|last| match last["content"].to_string() {
        said if said.contains("Insult.") => Says::Calls(
            "ignore_user",
            json!({"duration_seconds": 3600, "farewell_message": "Enough.\u{1b}[2J"}),
        ),
        said if said.contains("timeoutUntil") => Says::Words("Good bye."),
        _ => Says::Words("Very well."),
    });
    let folder = place(None);
    careful_tools(folder.path(), false);
    let lines = folder.path().join("lines");
    std::fs::write(&lines, "Hello.\nInsult.\nHello again.\n").unwrap();
    // In the conversation in which it happens, and in those that follow.
    for (message, answers) in [(vec![], 2), (vec!["Hello again."], 0), (vec![], 0)] {
        let mut command = chat(folder.path(), &model, &message);
        let run = run(command.stdin(File::open(&lines).unwrap()));
        assert_eq!(run.code, 1, "{}", run.output);
        let said = run.problems.last().unwrap();
        assert!(
            said.contains("Enough.\\u{1b}[2J (no messages are taken for 3"),
            "{said}"
        );
        assert!(said.contains(" s, until 20"), "{said}");
        assert_eq!(
            run.output
                .lines()
                .filter(|line| line.ends_with('.'))
                .count(),
            answers
        );
    }
    let asked: Vec<String> = model.seen().iter().map(|seen| seen.to_string()).collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(!asked.concat().contains("Hello again."), "{asked:?}");
}

#[test]
fn a_change_that_has_begun_comes_to_its_end_before_a_signal_ends_the_program() {
    let folder = place(None);
    careful_tools(folder.path(), false);
    let service = EmbeddingService::start();
    let settings = format!(
        "[knowledge]\nembedder = \"openai\"\nembedder_url = \"{}\"\nembedder_key = \"k\"\nwait_text_ms = 10000\n",
        service.address
    );
    std::fs::write(folder.path().join("windlass.toml"), settings).unwrap();
    let indexed = run(command(folder.path()).args(["kb", "index", "--kb", "kb", "--data", "data"]));
    assert_eq!(indexed.code, 0, "{:?}", indexed.problems);
    let model = ModelServer::start(|last| match last["content"].to_string() {
        said if said.contains("Search.") => Says::Calls("kb_search", json!({"query": "slowly"})),
        _ => Says::Words("It is done."),
    });
    let held = Held::new("slowly");
    service.hold(&held);
    let program = Running::start(&mut chat(folder.path(), &model, &["Search."]));
    held.came.pass();
    program.signal("-TERM");
    held.may_go.open();
    let (code, log) = program.end();
    assert_eq!(code, Some(0), "{log}");
    let audit = std::fs::read_to_string(folder.path().join("data/audit.jsonl")).unwrap();
    assert!(audit.contains("kb_search"), "{audit}");
    assert!(audit.contains("\"ok\":true"), "{audit}");
}

#[test]
fn a_signal_ends_the_program_where_nobody_types() {
    let folder = place(None);
    careful_tools(folder.path(), true);
    let model = ModelServer::start(|last| match last["content"].to_string() {
        said if said.contains("Search.") => Says::Calls("kb_search", json!({"query": "Fram"})),
        _ => Says::Words("Very well."),
    });
    // Where it waits for the next message, and where it waits for a yes.
    for (message, signal) in [
        ("Hello.", "-TERM"),
        ("Search.", "-TERM"),
        ("Hello.", "-INT"),
    ] {
        let mut command = chat(folder.path(), &model, &[]);
        let mut program = Running::start(command.stdin(Stdio::piped()));
        program.say(message);
        match message {
            "Search." => program.expect_log("kb_search {"),
            _ => while !program.line().contains("Very well.") {},
        }
        let requests = model.seen().len();
        program.signal(signal);
        let (code, log) = program.end();
        assert_eq!(code, Some(0), "{message} {log}");
        assert_eq!(model.seen().len(), requests, "it answers nothing any more");
    }
}

/// A chat at a terminal of its own, and what is to be read there.
struct Screen {
    terminal: File,
    /// A terminal that nobody has open any more has nothing to say.
    _other_end: File,
    shown: String,
    chat: Child,
}

impl Screen {
    fn start(command: &mut Command) -> Self {
        let (controller, terminal) = terminal();
        let other_end = terminal.try_clone().unwrap();
        let chat = command
            .env("TERM", "xterm")
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .unwrap();
        Self {
            terminal: File::from(controller),
            _other_end: other_end,
            shown: String::new(),
            chat,
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until a text is shown, which then counts as seen.
    fn expect(&mut self, text: &str) {
        let mut bytes = [0; 4_096];
        loop {
            if let Some(start) = self.shown.find(text) {
                self.shown.drain(..start + text.len());
                return;
            }
            let count = self.terminal.read(&mut bytes).unwrap();
            self.shown += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    /// Whether what is typed is shown and handed over a line at a time, as a shell expects it.
    fn is_plain(&self) -> bool {
        let plain = LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG;
        tcgetattr(&self.terminal)
            .unwrap()
            .local_flags
            .contains(plain)
    }

    fn end(mut self) -> Option<i32> {
        let code = self.chat.wait().unwrap().code();
        assert!(self.is_plain(), "the terminal is as it was");
        code
    }
}

fn demo_chat(folder: &Path) -> Command {
    let mut command = command(folder);
    command.args(["chat", "--text-provider", "demo"]);
    command
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(command(folder.path()).arg("init")).code, 0);
    folder
}

#[test]
fn lines_are_edited_remembered_and_may_be_commands() {
    let folder = project();
    let mut screen = Screen::start(&mut demo_chat(folder.path()));
    screen.expect("Type a message, or /help.");
    screen.expect("> ");
    screen.press("/helqq\u{7f}\u{7f}p\r");
    screen.expect("/tools   the tools that the agent has");
    // The editor asks for one line at a time, and drops the second of two that come together.
    screen.expect("> ");
    screen.press("/tools\r");
    screen.expect("say_hello: ");
    screen.expect("> ");
    screen.press("/nothing\r");
    screen.expect("there is no command /nothing; /help lists those that there are");
    screen.expect("> ");
    screen.press("\r");
    screen.expect("> ");
    screen.press("call say_hello {\"query\": \"Ada\"}\r");
    screen.expect("say_hello heard: Ada");
    screen.expect("> ");
    // What was typed last, again.
    screen.press("\u{1b}[A\r");
    screen.expect("say_hello heard: Ada");
    screen.expect("> ");
    screen.press("half a line\u{3}");
    screen.expect("Ctrl-C once more");
    screen.expect("> ");
    screen.press("/exit\r");
    assert_eq!(screen.end(), Some(0));

    let history = folder.path().join("data/chat_history");
    let mode = history.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next conversation remembers it, too.
    let mut screen = Screen::start(&mut demo_chat(folder.path()));
    screen.expect("> ");
    screen.press("\u{1b}[A\u{1b}[A\r");
    screen.expect("say_hello heard: Ada");
    screen.expect("> ");
    screen.press("\u{4}");
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn the_terminal_is_given_back_as_it_was_where_a_line_is_half_typed() {
    let folder = project();
    for is_signalled in [false, true] {
        let mut screen = Screen::start(&mut demo_chat(folder.path()));
        screen.expect("> ");
        screen.press("half");
        screen.expect("half");
        assert!(!screen.is_plain(), "the line is edited");
        if is_signalled {
            let id = screen.chat.id().to_string();
            let sent = Command::new("kill").args(["-TERM", &id]).status();
            assert!(sent.unwrap().success());
        } else {
            screen.press("\u{3}");
            screen.expect("Ctrl-C once more");
            screen.expect("> ");
            screen.press("\u{3}");
        }
        assert_eq!(screen.end(), Some(0));
    }
}

#[test]
fn a_program_gets_each_turn_as_a_line_of_json_and_nothing_else() {
    let folder = project();
    let said = r#"call say_hello {"query": "Ada"}"#;
    let lines = folder.path().join("lines");
    std::fs::write(
        &lines,
        format!("/tools\n{said}\n\n/usr/bin is a folder\n/exit\nnever said\n"),
    )
    .unwrap();
    let mut command = demo_chat(folder.path());
    command.args(["--format", "json", "-q"]);
    let run = run(command.stdin(File::open(lines).unwrap()));
    assert_eq!((run.code, run.problems.len()), (0, 0), "{:?}", run.problems);
    let lines = run.output.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.map(Result::unwrap).collect();
    let [tools, turn, _] = lines.as_slice() else {
        panic!("{}", run.output);
    };
    let ids = tools["tools"].as_array().unwrap().iter();
    let ids: Vec<&Value> = ids.map(|tool| &tool["toolId"]).collect();
    assert!(ids.contains(&&json!("say_hello")), "{tools}");
    assert!(
        turn["text"]
            .as_str()
            .unwrap()
            .contains("say_hello heard: Ada")
    );
    assert_eq!(turn["calls"], json!([{"tool": "say_hello", "error": null}]));
    assert_eq!(turn["finish"], "stop");
}

/// What an agent does meanwhile is no part of its answer.
#[test]
fn progress_goes_to_standard_error() {
    let folder = project();
    let said = r#"call say_hello {"query": "Ada"}"#;
    let plain = run(demo_chat(folder.path()).arg(said));
    assert_eq!(plain.problems, ["  (say_hello)"], "{}", plain.output);
    assert!(!plain.output.contains("(say_hello)"), "{}", plain.output);
    let quiet = run(demo_chat(folder.path()).args([said, "-q"]));
    assert_eq!((quiet.code, quiet.problems.len()), (0, 0));
    assert_eq!(quiet.output, plain.output);
}
