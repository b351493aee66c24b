//! Sources over one another, unknown keys, values that their keys refuse, and the document that lists the keys.

use super::*;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) struct Case<'a> {
    pub(super) file: &'a str,
    pub(super) environment: &'a [(&'a str, &'a str)],
    pub(super) flags: &'a [(&'static str, &'static str, &'a str)],
}

pub(super) const NOTHING: Case<'static> = Case {
    file: "",
    environment: &[],
    flags: &[],
};

pub(super) fn load(case: &Case<'_>) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE_NAME), case.file).unwrap();
    Loaded::load(&Sources {
        file: None,
        working_directory: folder.path().to_owned(),
        environment: case
            .environment
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect(),
        flags: case
            .flags
            .iter()
            .map(|(name, key, value)| Flag {
                name,
                key,
                value: (*value).to_owned(),
            })
            .collect(),
    })
}

fn refusal(case: &Case<'_>) -> String {
    load(case).unwrap_err().to_string()
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n";
    let environment = [("WINDLASS_SERVER_LISTEN", "127.0.0.1:2")];
    let flags = [("--listen", "server.listen", "localhost:3")];
    for (case, port, origin) in [
        (NOTHING, 8080, "default"),
        (Case { file, ..NOTHING }, 1, "from windlass.toml"),
        (
            Case {
                file,
                environment: &environment,
                ..NOTHING
            },
            2,
            "from the environment, WINDLASS_SERVER_LISTEN",
        ),
        (
            Case {
                file,
                environment: &environment,
                flags: &flags,
            },
            3,
            "from --listen",
        ),
    ] {
        let loaded = load(&case).unwrap();
        assert_eq!(loaded.config.server.listen.get().port(), port);
        let printed = loaded.to_toml();
        let line = printed
            .lines()
            .find(|line| line.starts_with("listen"))
            .unwrap();
        assert!(line.ends_with(&format!("# {origin}")), "{line}");
    }
}

#[test]
fn variables_of_others_are_ignored_and_empty_ones_count_as_not_set() {
    let environment = [
        ("WINDLASS_BINARY", "/bin/true"),
        ("WINDLASS_PROVIDER_URL", ""),
        (
            "WINDLASS_SERVER_ALLOWED_ORIGINS",
            "https://A.example:443, http://b:80",
        ),
        ("WINDLASS_VOICE_BARGE_IN", "false"),
        ("WINDLASS_PROVIDER_TEMPERATURE", "0.5"),
    ];
    let loaded = load(&Case {
        environment: &environment,
        ..NOTHING
    })
    .unwrap();
    assert_eq!(loaded.ignored_variables, ["WINDLASS_BINARY"]);
    let config = loaded.config;
    assert!(config.provider.url.is_none() && !config.voice.barge_in);
    assert_eq!(config.provider.temperature.unwrap().get(), 0.5);
    let origins: Vec<_> = config
        .server
        .allowed_origins
        .iter()
        .map(AllowedOrigin::as_str)
        .collect();
    assert_eq!(origins, ["http://b", "https://a.example"]);
}

#[test]
fn a_value_that_its_key_refuses_is_said_in_one_line() {
    for (file, message) in [
        (
            "[server]\nlisten = \"80\"",
            "server.listen has the value \"80\" (from windlass.toml), which is no address and port; \
             write it as in 127.0.0.1:8080, or [::]:8080 for all networks",
        ),
        (
            "[server]\nsessions_max = 0",
            "server.sessions_max has the value 0 (from windlass.toml), which is too small; \
             write a whole number from 1 to 1000000",
        ),
        (
            "server = 3",
            "server has the value 3 (from windlass.toml), which is no table; \
             docs/configuration.md lists the keys that it holds",
        ),
        (
            "[provider]\nkind = \"gemini\"",
            "provider.kind has the value \"gemini\" (from windlass.toml), which is no choice here; \
             write one of auto, gemini-live, openai-realtime, demo",
        ),
        (
            "[provider]\napi_key = \"top secret\"",
            "provider.api_key has the value … (from windlass.toml), which is no key or token; \
             copy it as the provider shows it, one line without spaces",
        ),
        (
            "[provider]\nurl = \"ftp://x\"",
            "provider.url has the value \"ftp://x\" (from windlass.toml), which is no address of a provider; \
             write it as in wss://host/path, without user, query or fragment",
        ),
        (
            "[provider]\nurl = { address = \"ws://u:PASS@h/p?key=K\" }",
            "provider.url has the value { address = \"ws://h/p…\" } (from windlass.toml), which is no text; write it in quotes",
        ),
        (
            "[provider]\nurl = \"ws://u:PASS@h/p?key=K\"",
            "provider.url has the value \"ws://h/p…\" (from windlass.toml), which is no address of a provider; \
             write it as in wss://host/path, without user, query or fragment",
        ),
        (
            "[provider]\ncompression_trigger_tokens = 10\ncompression_target_tokens = 10",
            "provider.compression_target_tokens has the value 10 (from windlass.toml), which is not below \
             provider.compression_trigger_tokens; make it smaller, or leave it out",
        ),
        (
            "[provider.vertex]\nproject = \"p\"",
            "provider.vertex.project has the value \"p\" (from windlass.toml), which is of no use without \
             provider.vertex.location; set the location too, such as europe-west4",
        ),
        (
            "[tools.kb_get.rate_limit]\ncalls = 1",
            "tools.kb_get.rate_limit is half a limit; set both calls and window_ms in it",
        ),
        (
            "[tools.kb-get]\ntimeout_ms = 1",
            "tools.kb-get names no tool; ids have small letters, digits and underscores, as in tools.kb_search",
        ),
        (
            "[models.m]\ncalls = \"none\"",
            "models.m.calls has the value \"none\" (from windlass.toml), which does not fit: unknown variant `none`, \
             expected one of `blocking_only`, `both`, `non_blocking_only`; see docs/configuration.md",
        ),
        (
            "a = ",
            "windlass.toml:1:5: string values must be quoted, expected literal string",
        ),
    ] {
        let said = refusal(&Case { file, ..NOTHING });
        assert_eq!(said, message);
        assert!(!said.contains('\n') && !said.contains("secret ("));
    }
}

#[test]
fn tools_models_and_limits_take_their_tables() {
    let file = "
        [tools.kb_get]
        requires_confirmation = true
        allowed_modes = [\"voice\"]
        rate_limit = { calls = 2, window_ms = 1000 }
        [models.\"gemini-3.8-live\"]
        scheduling = false
        context_tokens_max = 1000
        [voice.limits.turn]
        calls_max = 30
        [text.limits]
        open_calls_max = 4
    ";
    let config = load(&Case { file, ..NOTHING }).unwrap().config;
    let (id, tightening) = config.tools.first_key_value().unwrap();
    assert_eq!(id.as_str(), "kb_get");
    assert_eq!(tightening.requires_confirmation, Some(true));
    assert_eq!(
        tightening.rate_limit.map(|limit| limit.window_ms),
        Some(1000)
    );
    let change = &config.models["gemini-3.8-live"].live;
    assert_eq!(
        (change.scheduling, change.context_tokens_max),
        (Some(false), Some(1000))
    );
    let voice = windlass_session::limits::Limits::of(windlass_tool::kind::Mode::Voice);
    assert_eq!(config.voice.limits.turn.calls_max, 30);
    assert_eq!(
        config.voice.limits.turn.top_k_max, voice.turn.top_k_max,
        "what is not set keeps its default"
    );
    assert_eq!(config.text.limits.open_calls_max, 4);
    assert_eq!(config.text.limits.turn.calls_max, 10);
}

#[test]
fn a_key_of_the_provider_comes_from_the_variables_that_others_use_too() {
    for (file, environment, origin) in [
        (
            "",
            [("GEMINI_API_KEY", "k1"), ("GOOGLE_API_KEY", "k2")],
            "GEMINI_API_KEY",
        ),
        (
            "",
            [("GEMINI_API_KEY", ""), ("GOOGLE_API_KEY", "k2")],
            "GOOGLE_API_KEY",
        ),
        (
            "[provider]\napi_key_env = \"MINE\"",
            [("GEMINI_API_KEY", "k1"), ("MINE", "k2")],
            "MINE",
        ),
        (
            "",
            [
                ("GEMINI_API_KEY", "k1"),
                ("WINDLASS_PROVIDER_API_KEY", "k2"),
            ],
            "WINDLASS_PROVIDER_API_KEY",
        ),
    ] {
        let loaded = load(&Case {
            file,
            environment: &environment,
            ..NOTHING
        })
        .unwrap();
        let printed = loaded.to_toml();
        let expected = format!("api_key = \"********\"  # from the environment, {origin}\n");
        assert!(printed.contains(&expected), "{printed}");
        for (_, secret) in environment {
            assert!(secret.is_empty() || !printed.contains(secret));
            assert!(
                secret.is_empty()
                    || !format!("{:?}", loaded.config).contains(&format!("\"{secret}\""))
            );
        }
    }
}

#[test]
fn what_is_printed_is_a_configuration_that_means_the_same() {
    let file = "
        [server]
        allowed_origins = [\"https://a.example\"]
        [tools.kb_get]
        timeout_ms = 5
        rate_limit = { calls = 2, window_ms = 1000 }
        [models.\"a.b\"]
        vision = false
    ";
    let printed = load(&Case { file, ..NOTHING }).unwrap().to_toml();
    let again = load(&Case {
        file: &printed,
        ..NOTHING
    })
    .unwrap();
    let values = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split("  #").next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(values(&again.to_toml()), values(&printed));
}

#[test]
fn a_file_that_is_named_must_be_there_and_be_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.toml");
    let named = |file: &str| {
        Loaded::load(&Sources {
            file: Some(PathBuf::from(file)),
            working_directory: folder.path().to_owned(),
            ..Sources::default()
        })
    };
    let error = named("other.toml").unwrap_err().to_string();
    assert!(
        error.starts_with("the configuration other.toml cannot be read: "),
        "{error}"
    );
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = named("other.toml").unwrap_err().to_string();
    assert_eq!(
        error,
        "the configuration other.toml is no UTF-8 text; save it as such"
    );
    std::fs::write(&path, "[log]\nlevel = \"debug\"").unwrap();
    let config = named("other.toml").unwrap().config;
    assert_eq!(config.log.level, LogLevel::Debug);
}

/// `| `server.listen` | `"127.0.0.1:8080"` | … |`
fn documented() -> Vec<(String, String)> {
    let text = include_str!("../../../../docs/configuration.md");
    text.lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.trim_end_matches('`').to_owned();
            let default = cells.next()?.trim_matches('`').to_owned();
            Some((key, default))
        })
        .filter(|(key, _)| !key.starts_with("--"))
        .collect()
}

#[test]
fn every_key_is_documented_with_its_default_and_no_other() {
    let keys: Vec<(String, String)> = keys()
        .into_iter()
        .map(|key| {
            let path = key
                .path
                .replace("models.*", "models.MODEL")
                .replace("tools.*", "tools.TOOL")
                .replace("namespaces.*", "namespaces.NAMESPACE");
            let default = key
                .default
                .map_or("not set".to_owned(), |value| value.to_string());
            (path, default)
        })
        .collect();
    assert_eq!(documented(), keys);
}

#[test]
fn a_key_never_goes_to_another_company() {
    let both = [("GEMINI_API_KEY", "g"), ("OPENAI_API_KEY", "o")];
    for (kind, environment, key, text) in [
        (
            "openai-realtime",
            &both[..],
            Some("o"),
            TextProvider::Openai,
        ),
        ("openai-realtime", &both[..1], None, TextProvider::Demo),
        ("gemini-live", &both[..], Some("g"), TextProvider::Gemini),
        ("gemini-live", &both[1..], None, TextProvider::Openai),
    ] {
        let file = format!("[provider]\nkind = \"{kind}\"\n");
        let case = Case {
            file: &file,
            environment,
            ..NOTHING
        };
        let config = load(&case).unwrap().config;
        let found = config.provider.api_key.map(|key| key.sensitive());
        let found = found.as_ref().map(|key| key.expose().as_str());
        assert_eq!(
            (found, config.text.provider),
            (key, text),
            "{kind} {environment:?}"
        );
    }
}

#[test]
fn a_text_server_of_ones_own_gets_no_companys_key() {
    let both = [("GEMINI_API_KEY", "g"), ("OPENAI_API_KEY", "o")];
    for provider in ["auto", "openai", "gemini"] {
        for (own, expected) in [("", None), ("api_key = \"mine\"\n", Some("mine"))] {
            let file = format!(
                "[text]\nprovider = \"{provider}\"\nurl = \"http://127.0.0.1:9/v1\"\n{own}"
            );
            let case = Case {
                file: &file,
                environment: &both,
                ..NOTHING
            };
            let key = load(&case).unwrap().config.text.api_key;
            let key = key.map(|key| key.sensitive());
            let key = key.as_ref().map(|key| key.expose().as_str());
            assert_eq!(key, expected, "{provider}");
        }
    }
}

#[test]
fn the_voice_sessions_key_serves_text_where_it_is_the_companys_own() {
    for (file, expected) in [
        (
            "[provider]\napi_key = \"v\"\n",
            (TextProvider::Gemini, Some("v")),
        ),
        (
            "[provider]\nkind = \"openai-realtime\"\napi_key = \"v\"\n",
            (TextProvider::Openai, Some("v")),
        ),
        (
            "[provider]\napi_key = \"v\"\n[text]\nprovider = \"openai\"\n",
            (TextProvider::Openai, None),
        ),
        (
            "[provider]\napi_key = \"v\"\n[text]\napi_key = \"t\"\n",
            (TextProvider::Gemini, Some("t")),
        ),
        // It was set for that server, and opens nothing of the company's.
        (
            "[provider]\napi_key = \"v\"\nurl = \"ws://127.0.0.1:9\"\n",
            (TextProvider::Demo, None),
        ),
    ] {
        let case = Case { file, ..NOTHING };
        let text = load(&case).unwrap().config.text;
        let key = text.api_key.map(|key| key.sensitive());
        let key = key.as_ref().map(|key| key.expose().as_str());
        assert_eq!((text.provider, key), expected, "{file}");
    }
}

#[test]
fn an_embedding_service_of_ones_own_gets_no_companys_key() {
    let both = [("GEMINI_API_KEY", "g"), ("OPENAI_API_KEY", "o")];
    for (embedder, companys) in [("openai", "o"), ("gemini", "g")] {
        for (more, expected) in [
            ("", Some(companys)),
            ("embedder_url = \"http://127.0.0.1:9/v1\"\n", None),
            (
                "embedder_url = \"http://127.0.0.1:9/v1\"\nembedder_key = \"mine\"\n",
                Some("mine"),
            ),
        ] {
            let file = format!("[knowledge]\nembedder = \"{embedder}\"\n{more}");
            let case = Case {
                file: &file,
                environment: &both,
                ..NOTHING
            };
            let key = load(&case).unwrap().config.knowledge.embedder_key;
            let key = key.map(|key| key.sensitive());
            let key = key.as_ref().map(|key| key.expose().as_str());
            assert_eq!(key, expected, "{file}");
        }
    }
}
