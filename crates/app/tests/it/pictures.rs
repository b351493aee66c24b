//! Pictures from the user over real sockets, by text and by voice: they reach models that see, in each protocol's own form,
//! their own files in the data folder, and nothing else that is written down.

use crate::chat::chunks;
use crate::support::config;
use crate::support::http::{HttpAnswer, post};
use crate::support::live_provider::{LiveProvider, Speaks};
use crate::support::model_server::{ModelServer, Says};
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::path::Path;
use windlass_app::server::{Server, Setup, start};

/// Base64 of bytes that occur nowhere else.
const PICTURE: &str = "iVBORw0KGgoQUVSTUVWXWFla";

async fn served(data: &Path, keys: &[(&'static str, &str)]) -> (Server, String) {
    let setup = Setup {
        config: config(data, keys),
        handlers: windlass_handlers::builtin(),
        watch: false,
    };
    let server = start(setup).await.unwrap();
    let address = server.address().to_string();
    (server, address)
}

fn data_url(mime_type: &str) -> String {
    format!("data:{mime_type};base64,{PICTURE}")
}

fn message(id: &str, words: &str, urls: &[String]) -> Value {
    let words = json!({"type": "text", "text": words});
    let files = urls
        .iter()
        .map(|url| json!({"type": "file", "mediaType": "image/png", "url": url}));
    let parts: Vec<Value> = [words].into_iter().chain(files).collect();
    json!({"id": "c", "messages": [{"id": id, "role": "user", "parts": parts}]})
}

fn ask(address: &str, body: &Value) -> HttpAnswer {
    post(address, "/api/chat", body.to_string().as_bytes())
}

/// Where the text stands in a JSON value, as a path.
fn place_of(value: &Value, wanted: &str, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains(wanted).then(|| path.to_owned()),
        Value::Array(values) => values
            .iter()
            .find_map(|value| place_of(value, wanted, &format!("{path}/*"))),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(key, value)| place_of(value, wanted, &format!("{path}/{key}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Everything that the server wrote into its data folder, databases included, but for the files of pictures.
fn written(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("pictures") {
            continue;
        }
        if path.is_dir() {
            text.push_str(&written(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_in_the_chat_reaches_each_providers_model_and_nothing_else() {
    for (provider, place) in [
        ("openai", "/messages/*/content/*/image_url/url"),
        ("gemini", "/contents/*/parts/*/inlineData/data"),
    ] {
        let model = ModelServer::start(|_| Says::Words("Yes."));
        let data = tempfile::tempdir().unwrap();
        // A server that nobody knows is taken for one that does not see.
        let keys = [
            ("text.provider", provider),
            ("text.url", model.url.as_str()),
            ("text.model", "seer"),
            ("models.seer.vision", "true"),
            ("journal.enabled", "true"),
        ];
        let (server, address) = served(data.path(), &keys).await;
        let picture = message("a", "See?", &[data_url("image/png")]);
        let first = ask(&address, &picture);
        assert_eq!(first.status, 200, "{provider}: {}", first.body);
        assert!(first.body.contains("Yes."), "{provider}: {}", first.body);
        // The client brings what was said before, and with it the picture.
        let mut second = message("b", "And now?", &[]);
        let messages = second["messages"].as_array_mut().unwrap();
        messages.insert(0, picture["messages"][0].clone());
        ask(&address, &second);
        // Else the server has it.
        ask(&address, &message("c", "And then?", &[]));
        let seen = model.seen();
        assert_eq!(seen.len(), 3, "{provider}");
        for request in &seen {
            let found = place_of(request, PICTURE, "");
            assert_eq!(found.as_deref(), Some(place), "{provider}: {request}");
        }
        server.shut_down().await;
        let kept = files_of_pictures(data.path());
        let bytes = base64_simd::STANDARD.decode_to_vec(PICTURE).unwrap();
        assert_eq!(kept, [bytes], "{provider}");
        let text = written(data.path());
        assert!(text.contains("See?"), "{provider}: there is a journal");
        let bytes = base64_simd::STANDARD.decode_to_vec(PICTURE).unwrap();
        let bytes = String::from_utf8_lossy(&bytes[8..]).into_owned();
        assert!(!text.contains(PICTURE) && !text.contains(&bytes));
    }
}

/// What the files of pictures in a data folder hold, wherever it lies.
fn files_of_pictures(folder: &Path) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.ends_with("pictures") {
            true => {
                let files = std::fs::read_dir(&path).unwrap();
                kept.extend(files.map(|file| std::fs::read(file.unwrap().path()).unwrap()));
            }
            false if path.is_dir() => kept.extend(files_of_pictures(&path)),
            false => {}
        }
    }
    kept
}

/// A knowledge base with one picture as a file and one elsewhere.
fn base_with_pictures(folder: &Path) -> String {
    let records = folder.join("kb");
    std::fs::create_dir_all(records.join("photos")).unwrap();
    let bytes = base64_simd::STANDARD.decode_to_vec(PICTURE).unwrap();
    std::fs::write(records.join("photos/deck.png"), bytes).unwrap();
    let photos = json!([
        {"id": "photo:deck", "title": "Deck", "file": "photos/deck.png"},
        {"id": "photo:remote", "title": "Hull", "url": "https://example.org/hull.jpg"},
    ]);
    std::fs::write(records.join("photos.json"), photos.to_string()).unwrap();
    records.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_records_reach_a_model_that_sees_and_nothing_that_is_written_down() {
    for (vision, images_bytes_max, expected) in [
        ("true", "3145728", [Some(()), Some(())]),
        ("true", "10", [None, Some(())]),
        ("false", "3145728", [None, None]),
    ] {
        let model = ModelServer::start(|last| match last["content"].to_string() {
            said if said.contains("the deck") => Says::Calls("kb_get", json!({"id": "photo:deck"})),
            said if said.contains("the hull") => {
                Says::Calls("kb_get", json!({"id": "photo:remote"}))
            }
            _ => Says::Words("Yes."),
        });
        let data = tempfile::tempdir().unwrap();
        let records = base_with_pictures(data.path());
        let keys = [
            ("folders.knowledge", records.as_str()),
            ("text.provider", "openai"),
            ("text.url", model.url.as_str()),
            ("text.model", "seer"),
            ("models.seer.vision", vision),
            ("text.images_bytes_max", images_bytes_max),
            ("journal.enabled", "true"),
        ];
        let below = data.path().join("data");
        let (server, address) = served(&below, &keys).await;
        let places = [
            ("a", "Show the deck.", PICTURE, "/assets/photo:deck"),
            (
                "b",
                "Show the hull.",
                "https://example.org/hull.jpg",
                "https://example.org/hull.jpg",
            ),
        ];
        for ((id, words, wanted, url), expected) in places.into_iter().zip(expected) {
            let answer = ask(&address, &message(id, words, &[]));
            assert!(answer.body.contains("Yes."), "{vision}: {}", answer.body);
            // Whether or not the model sees, the client does.
            let mut files = chunks(&answer);
            files.retain(|chunk| chunk["type"] == "file");
            let file = json!({"type": "file", "url": url, "mediaType": "image/*"});
            assert_eq!(files, [file], "{vision}: {}", answer.body);
            let seen = model.seen();
            let last = seen.last().unwrap()["messages"].as_array().unwrap();
            let shown = last.last().unwrap();
            // The address stands in the text of the result as well.
            let found = place_of(shown, wanted, "").filter(|_| shown["role"] == "user");
            let place = expected.map(|()| "/content/*/image_url/url");
            assert_eq!(found.as_deref(), place, "{vision} {words}: {shown}");
            assert_eq!(
                shown["role"],
                if place.is_some() { "user" } else { "tool" },
                "{shown}"
            );
        }
        server.shut_down().await;
        let text = written(&below);
        let bytes = base64_simd::STANDARD.decode_to_vec(PICTURE).unwrap();
        let bytes = String::from_utf8_lossy(&bytes[8..]).into_owned();
        assert!(text.contains("Show the deck."), "there is a journal");
        assert!(!text.contains(PICTURE) && !text.contains(&bytes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_past_the_limits_and_of_other_types_are_refused_in_words() {
    let model = ModelServer::start(|_| Says::Words("Yes."));
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("text.provider", "openai"),
        ("text.url", model.url.as_str()),
        ("text.images_max", "2"),
        ("text.images_bytes_max", "40"),
    ];
    let (_server, address) = served(data.path(), &keys).await;
    let png = || data_url("image/png");
    for (urls, problem) in [
        (
            vec![png(), png(), png()],
            "at most 2 pictures (text.images_max)",
        ),
        (
            vec![png(), format!("{}{PICTURE}", png())],
            "at most 40 bytes together (text.images_bytes_max)",
        ),
        (vec![data_url("image/svg+xml")], "must be a picture"),
        (vec![data_url("text/html")], "must be a picture"),
        (vec!["data:image/png,abc".to_owned()], "written in base64"),
        (
            vec!["data:image/png;base64,%%%%".to_owned()],
            "not written in base64",
        ),
        (
            vec!["http://127.0.0.1/a.png".to_owned()],
            "must come as a data: URL",
        ),
        (vec![String::new()], "must come as a data: URL"),
    ] {
        let answer = ask(&address, &message("a", "See?", &urls));
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        let text = said["error"]["message"].as_str().unwrap();
        assert_eq!(answer.status, 400, "{problem}: {text}");
        assert!(text.contains(problem), "{problem}: {text}");
        let parts: Vec<Value> = urls
            .iter()
            .map(|url| json!({"type": "image_url", "image_url": {"url": url}}))
            .collect();
        let body = json!({"messages": [{"role": "user", "content": parts}]}).to_string();
        let answer = post(&address, "/v1/chat/completions", body.as_bytes());
        assert_eq!(answer.status, 400, "{problem}: {}", answer.body);
        assert!(answer.body.contains(problem), "{problem}: {}", answer.body);
    }
    assert!(model.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_the_provider_does_not_take_is_refused_at_the_door() {
    for (provider, refused, taken) in [
        ("gemini", "image/gif", "png, jpeg, webp, heic, heif"),
        ("openai", "image/heic", "png, jpeg, webp, gif"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let keys = [("text.provider", provider), ("text.api_key", "key")];
        let (_server, address) = served(data.path(), &keys).await;
        let answer = ask(&address, &message("a", "See?", &[data_url(refused)]));
        assert_eq!(answer.status, 400, "{provider}: {}", answer.body);
        for words in [refused, taken] {
            assert!(answer.body.contains(words), "{provider}: {}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_the_provider_refuses_breaks_no_later_turn() {
    let model = ModelServer::start(|last| match last.to_string() {
        message if message.contains("And now?") => Says::Words("Yes."),
        message if message.contains(PICTURE) || message.contains("Broken.") => Says::Refuses,
        _ => Says::Words("Yes."),
    });
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("text.provider", "openai"),
        ("text.url", model.url.as_str()),
        ("text.model", "sees"),
        ("models.sees.vision", "true"),
    ];
    let (_server, address) = served(data.path(), &keys).await;
    let picture = [data_url("image/png")];
    let answer = ask(&address, &message("a", "See?", &picture));
    assert!(answer.body.contains("Yes."), "{}", answer.body);
    assert!(
        answer.body.contains("refused the pictures"),
        "{}",
        answer.body
    );
    let seen = model.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].to_string().contains(PICTURE));
    assert!(seen[1].to_string().contains("refused it"), "{}", seen[1]);
    let next = ask(&address, &message("b", "And now?", &[]));
    assert!(next.body.contains("Yes."), "{}", next.body);
    assert!(!next.body.contains("refused"), "{}", next.body);
    assert!(!model.seen()[2].to_string().contains(PICTURE));
    // Where it was not the picture alone, the picture is out all the same, and the next turn is answered.
    let broken = ask(&address, &message("c", "Broken.", &picture));
    assert!(
        broken.body.contains("refused the request"),
        "{}",
        broken.body
    );
    let requests = model.seen().len();
    let next = ask(&address, &message("d", "And now?", &[]));
    assert!(next.body.contains("Yes."), "{}", next.body);
    assert!(!model.seen()[requests].to_string().contains(PICTURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_to_a_model_that_sees_is_a_refusal_laid_to_the_pictures_of_a_result() {
    for (vision, requests) in [("true", 3), ("false", 2)] {
        let model = ModelServer::start(|last| match last["content"].to_string() {
            said if said.contains("the hull") => {
                Says::Calls("kb_get", json!({"id": "photo:remote"}))
            }
            _ => Says::Refuses,
        });
        let data = tempfile::tempdir().unwrap();
        let records = base_with_pictures(data.path());
        let keys = [
            ("folders.knowledge", records.as_str()),
            ("text.provider", "openai"),
            ("text.url", model.url.as_str()),
            ("text.model", "seer"),
            ("models.seer.vision", vision),
        ];
        let (_server, address) = served(&data.path().join("data"), &keys).await;
        let answer = ask(&address, &message("a", "Show the hull.", &[]));
        assert!(
            answer.body.contains("refused the request"),
            "{}",
            answer.body
        );
        assert_eq!(model.seen().len(), requests, "{vision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_whose_model_does_not_see_says_so_and_answers_the_words() {
    let model = ModelServer::start(|_| Says::Words("Yes."));
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("text.provider", "openai"),
        ("text.url", model.url.as_str()),
        ("text.model", "blind"),
        ("models.blind.vision", "false"),
    ];
    let (_server, address) = served(data.path(), &keys).await;
    let answer = ask(&address, &message("a", "See?", &[data_url("image/png")]));
    assert!(
        answer.body.contains("does not see images"),
        "{}",
        answer.body
    );
    assert!(answer.body.contains("Yes."), "{}", answer.body);
    assert!(!model.seen()[0].to_string().contains(PICTURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_by_voice_reaches_each_providers_model_and_nothing_else() {
    for (kind, speaks, model, place) in [
        (
            "gemini-live",
            Speaks::GeminiLive,
            "gemini-3.8-live",
            "/realtimeInput/video/data",
        ),
        (
            "openai-realtime",
            Speaks::OpenaiRealtime,
            "gpt-realtime",
            "/item/content/*/image_url",
        ),
    ] {
        let mut provider = LiveProvider::start(speaks).await;
        let url = provider.url.clone();
        let data = tempfile::tempdir().unwrap();
        let keys = [
            ("provider.kind", kind),
            ("provider.url", url.as_str()),
            ("provider.api_key", "test"),
            ("provider.model", model),
            ("journal.enabled", "true"),
            ("voice.image_bytes_max", "1024"),
        ];
        let (server, address) = served(data.path(), &keys).await;
        let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
        let big = "A".repeat(2_000);
        client
            .send(json!({"type": "image", "mimeType": "image/png", "data": big}))
            .await;
        assert_eq!(client.expect("error").await["code"], "too_large", "{kind}");
        client
            .send(json!({"type": "image", "mimeType": "image/gif", "data": PICTURE}))
            .await;
        assert_eq!(
            client.expect("error").await["code"],
            "unsupported",
            "{kind}"
        );
        client
            .send(json!({"type": "image", "mimeType": "image/png", "data": PICTURE}))
            .await;
        loop {
            let (_, message) = provider.next().await;
            if let Some(found) = place_of(&message, PICTURE, "") {
                assert_eq!(found, place, "{kind}: {message}");
                break;
            }
        }
        client.send(json!({"type": "stop"})).await;
        client.expect_close().await;
        server.shut_down().await;
        assert!(!written(data.path()).contains(PICTURE), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_session_whose_model_does_not_see_refuses_pictures_and_goes_on() {
    let mut provider = LiveProvider::start(Speaks::GeminiLive).await;
    let url = provider.url.clone();
    let data = tempfile::tempdir().unwrap();
    let keys = [
        ("provider.kind", "gemini-live"),
        ("provider.url", url.as_str()),
        ("provider.api_key", "test"),
        ("provider.model", "blind"),
    ];
    let (_server, address) = served(data.path(), &keys).await;
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client
        .send(json!({"type": "image", "mimeType": "image/png", "data": PICTURE}))
        .await;
    let error = client.expect("error").await;
    assert_eq!(error["code"], "unsupported");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("does not see images"), "{message}");
    client.say("And words?").await;
    loop {
        let (_, message) = provider.next().await;
        let message = message.to_string();
        assert!(!message.contains(PICTURE), "{message}");
        if message.contains("And words?") {
            break;
        }
    }
}
