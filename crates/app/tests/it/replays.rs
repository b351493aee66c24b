//! Replays of recorded sessions far from where they were recorded, with the real program.

use crate::chat::{approval, chat, echo, question, words};
use crate::support::config;
use crate::support::model_server::Says;
use crate::support::program::{Run, Running, command, folders, run};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_app::server::{Setup, start};

/// Replays every session of a data folder, and says how many inputs they had together.
fn replayed(data: &Path) -> usize {
    let journals = fs::read_dir(data.join("journal")).unwrap();
    let mut inputs = 0;
    for journal in journals {
        let journal = journal.unwrap().path();
        let replayed = run(command(data)
            .args(["replay", "--data"])
            .arg(data)
            .arg(&journal));
        let output = &replayed.output;
        assert_eq!(replayed.code, 0, "{output} {:?}", replayed.problems);
        let count = output
            .strip_prefix("same: ")
            .and_then(|rest| rest.split(' ').next());
        inputs += count.unwrap().parse::<usize>().unwrap();
    }
    inputs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_whose_model_breaks_off_and_whose_user_consents_replays_the_same() {
    let asked = AtomicUsize::new(0);
    let unreliable = move |last: &Value| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Says::Cuts("One"),
        1 => Says::Refuses,
        _ => echo(last),
    };
    let keys = [
        ("journal.enabled", "true"),
        ("tools.start_voice_session.requires_confirmation", "true"),
    ];
    let chat = chat(unreliable, &keys).await;
    for message in ["Hello.", "Hello?", "Who?"] {
        chat.ask(&json!({"id": "c", "message": message}));
    }
    for approved in [true, false] {
        let request = question(&chat.ask(&json!({"id": "c", "message": "Talk."})));
        let token = request["token"].as_str().unwrap();
        let answer = chat.ask(&json!({"id": "c", "messages": [approval(token, approved)]}));
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let searched = chat.ask(&json!({"id": "c", "message": "Search."}));
    assert_eq!(words(&searched), "Found.");
    let data = chat.close().await;
    let inputs = replayed(data.path());
    assert!(inputs > 20, "{inputs} inputs");
}

const SCRIPT: &str = "
settings: { speed: 0, await_playback: false }
exchanges:
  - when: { text: Fram }
    turn: 2
    do:
      - call: { name: kb_search, args: { query: Fram } }
      - refuse_connects: 2
      - half_frame: { serverContent: { outputTranscription: { text: The ship was } } }
  - when: { text: Fram }
    do:
      - call: { name: kb_search, args: { query: Fram } }
      - expect_response
      - say: It is yours to say.
  - when: any
    do:
      - say: Good day.
";

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_session_that_loses_its_provider_and_has_a_consent_replays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script.yaml"), SCRIPT).unwrap();
    let mut simulator = command(folder.path());
    let mut simulator =
        Running::start(simulator.args(["sim", "gemini-live", "--script", "script.yaml"]));
    let url = format!("ws://{}", simulator.address());
    let data = folder.path().join("data");
    let keys = [
        ("journal.enabled", "true"),
        ("provider.kind", "gemini-live"),
        ("provider.url", url.as_str()),
        ("tools.kb_search.requires_confirmation", "true"),
    ];
    let server = start(Setup {
        config: config(&data, &keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    })
    .await
    .unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("Hello.").await;
    client.expect("turn_complete").await;
    client.say("Who designed the Fram?").await;
    let question = client.expect("confirmation_request").await;
    client.expect("reconnected").await;
    let token = &question["token"];
    client
        .send(json!({"type": "confirm", "token": token, "approved": true}))
        .await;
    assert_eq!(client.expect("confirmation_result").await["ok"], true);
    client
        .send(json!({"type": "confirm", "token": token, "approved": true}))
        .await;
    // A tool that changes nothing leaves nothing to say again.
    let again = client.expect("confirmation_result").await;
    assert_eq!(again["response"]["error"]["type"], "CONFIRMATION_EXPIRED");
    client.send(json!({"type": "stop"})).await;
    client.expect_close().await;
    server.shut_down().await;
    let inputs = replayed(&data);
    assert!(inputs > 20, "{inputs} inputs");
}

#[test]
fn a_replay_needs_neither_the_configuration_nor_the_knowledge_base_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let configuration = path.join("windlass.toml");
    let careful = "[tools.kb_search]\nrequires_confirmation = true\n";
    fs::write(&configuration, careful).unwrap();
    let recorded = run(command(path)
        .env("WINDLASS_JOURNAL_ENABLED", "true")
        .args(["call", "kb_search", "{\"query\": \"Fram\"}"])
        .args(folders(&path.join("data"))));
    assert_ne!(recorded.code, 0, "nobody was there to consent");
    fs::remove_file(configuration).unwrap();
    let journal = fs::read_dir(path.join("data/journal")).unwrap().next();
    let journal = journal.unwrap().unwrap().path();
    let elsewhere = run(command(path).arg("replay").arg(&journal));
    assert_eq!(elsewhere.code, 0, "{:?}", elsewhere.problems);
    assert!(
        elsewhere.output.starts_with("same: "),
        "{}",
        elsewhere.output
    );
}

/// The journal of one call, and what replays say of it when its text was changed.
fn of_one_call(arguments: &str, change: impl Fn(&str) -> String, print: bool) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let recorded = run(command(path)
        .env("WINDLASS_JOURNAL_ENABLED", "true")
        .args(["call", "kb_search", arguments])
        .args(folders(&path.join("data"))));
    assert_eq!(recorded.code, 0, "{:?}", recorded.problems);
    let journal = fs::read_dir(path.join("data/journal")).unwrap().next();
    let journal = journal.unwrap().unwrap().path();
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, change(&text)).unwrap();
    let mut command = command(path);
    command.arg("replay").arg(&journal);
    if print {
        command.arg("--print");
    }
    let replayed = run(&mut command);
    let said = format!("{}{}", replayed.output, replayed.problems.join("\n"));
    (replayed.code, said)
}

#[test]
fn a_journal_that_no_session_can_have_written_is_refused_with_its_line() {
    let fram = "{\"query\": \"Fram\"}";
    let limit = |text: &str| text.replace("\"open_calls_max\":32", "\"open_calls_max\":0");
    let (code, said) = of_one_call(fram, limit, false);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("line 1: no session can have the limit open_calls_max: it is a whole number from 1 to 1000000000"),
        "{said}"
    );
    let late = |text: &str| {
        let (header, _) = text.split_once('\n').unwrap();
        let lost = json!({"step": {
            "number": 1,
            "at": u64::MAX,
            "input": {"connection": {"lost": {"generation": 1, "reason": "setup_timeout"}}},
            "outputs": [],
        }});
        format!("{header}\n{lost}\n")
    };
    let (code, said) = of_one_call(fram, late, false);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("line 2: no session lasts for more than 36500 days"),
        "{said}"
    );
}

#[test]
fn a_journal_that_lacks_lines_is_not_called_the_same_without_a_word() {
    let fram = "{\"query\": \"Fram\"}";
    let whole = of_one_call(fram, str::to_owned, false);
    let said = whole.1.trim_end();
    assert!(
        whole.0 == 0 && said.ends_with("gave what they gave before"),
        "{said}"
    );
    // A process that is killed leaves such journals: nothing in them is wrong.
    let no_end = "gave what they gave before; the session's end is not in the journal";
    let cut = "; the last line is cut off, and the session's end is not in the journal";
    let keeps = |lines: usize| {
        move |text: &str| {
            let kept = text.split_inclusive('\n').take(lines);
            kept.collect::<String>()
        }
    };
    let half = |text: &str| text[..text.len() - 10].to_owned();
    for (kept, ending) in [
        (of_one_call(fram, keeps(1), false), no_end),
        (of_one_call(fram, keeps(4), false), no_end),
        (of_one_call(fram, half, false), cut),
        (of_one_call(fram, half, true), "the last line is cut off"),
    ] {
        assert_eq!(kept.0, 0, "{}", kept.1);
        assert!(kept.1.trim_end().ends_with(ending), "{}", kept.1);
    }
    // One out of two that change nothing may lack, or they may have changed places.
    let changed = |order: [usize; 3]| {
        move |text: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            let moved = order.map(|line| lines[line]);
            lines.splice(1..4, moved);
            lines.dedup();
            lines.join("\n") + "\n"
        }
    };
    for (order, line, what) in [
        ([2, 1, 3], 2, "this is input 2, and input 1 belongs here"),
        ([1, 3, 3], 3, "this is input 3, and input 2 belongs here"),
        ([2, 3, 3], 2, "this is input 2, and input 1 belongs here"),
    ] {
        let (code, said) = of_one_call(fram, changed(order), false);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("line {line}: {what}")), "{said}");
    }
}

#[test]
fn what_a_journal_says_moves_nothing_on_a_terminal() {
    let whole = |text: &str| text.to_owned();
    let query = "{\"query\": \"Fram \u{9b}31m\u{202e}marF\"}";
    let (code, said) = of_one_call(query, whole, true);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Fram \\u{9b}31m\\u{202e}marF"), "{said}");
    assert!(!said.contains(['\u{9b}', '\u{202e}']), "{said}");
    let forged = |text: &str| {
        let (header, steps) = text.split_once('\n').unwrap();
        let header = header.replacen("\"outputs\":[", "\"outputs\":[\"\\u001b[2J\",", 1);
        format!("{header}\n{steps}")
    };
    for (print, code) in [(true, 0), (false, 1)] {
        let (ended, said) = of_one_call("{\"query\": \"Fram\"}", forged, print);
        assert_eq!(ended, code, "{said}");
        assert!(said.contains("\\u{1b}[2J"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn a_recorded_call_is_replayed_and_printed_and_a_changed_journal_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let recorded = run(command(path)
        .env("WINDLASS_JOURNAL_ENABLED", "true")
        .args(["call", "kb_search", "{\"query\": \"Fram\"}"])
        .args(folders(&path.join("data"))));
    assert_eq!(recorded.code, 0, "{:?}", recorded.problems);
    let journals: Vec<_> = fs::read_dir(path.join("data/journal")).unwrap().collect();
    assert_eq!(journals.len(), 1);
    let journal = journals[0].as_ref().unwrap().path();
    let name = journal.to_str().unwrap();
    let same = replay(path, name);
    assert_eq!(same.code, 0, "{:?}", same.problems);
    assert!(same.output.starts_with("same: "), "{}", same.output);
    let printed = run(command(path).args(["replay", name, "--print"]));
    assert!(
        printed.output.contains(" < {\"model\":{\"calls\":"),
        "{}",
        printed.output
    );
    let text = fs::read_to_string(&journal).unwrap();
    let (header, inputs) = text.split_once('\n').unwrap();
    let changed = inputs.replacen("kb_search", "kb_get", 1);
    fs::write(&journal, format!("{header}\n{changed}")).unwrap();
    let other = replay(path, name);
    assert_eq!((other.code, other.output.as_str()), (1, ""));
    assert!(
        other.problems[0].contains(" differs: it was "),
        "{:?}",
        other.problems
    );
    fs::write(&journal, "{}\n").unwrap();
    let none = replay(path, name);
    assert!(
        none.problems[0].contains(", line 1: is no line of a journal: "),
        "{:?}",
        none.problems
    );
}

fn replay(path: &Path, journal: &str) -> Run {
    run(command(path)
        .args(["replay", journal])
        .args(folders(&path.join("data"))))
}
