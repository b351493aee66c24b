//! Sources over one another, unknown keys, values that their keys refuse, and the document that is made from the keys.

use super::*;
use std::ffi::OsString;
use std::path::PathBuf;
use windlass_contract::validate::Validator;

struct Case<'a> {
    file: &'a str,
    environment: &'a [(&'a str, &'a str)],
    flags: &'a [(&'static str, &'static str, &'a str)],
}

const NOTHING: Case<'static> = Case {
    file: "",
    environment: &[],
    flags: &[],
};

/// The schema of the editors accepts whatever file is taken.
fn load(case: &Case<'_>) -> Result<Loaded, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE_NAME), case.file).unwrap();
    let loaded = Loaded::load(&Sources {
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
    });
    if loaded.is_ok() {
        let violations = marks(case.file);
        assert_eq!(violations, [""; 0], "{}", case.file);
    }
    loaded
}

/// The places that an editor marks in a file.
fn marks(file: &str) -> Vec<String> {
    let schema = Validator::compile(&schema()).unwrap();
    let file: toml::Value = toml::from_str(file).unwrap();
    let violations = schema.violations(&serde_json::to_value(file).unwrap());
    let marks = violations.into_iter().map(|violation| violation.pointer);
    marks.collect()
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
        (Case { file, ..NOTHING }, 1, "from windlass.toml:2"),
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
fn a_mistake_is_said_in_one_line_with_its_place() {
    for (file, message) in [
        (
            "[server]\nlisten = \"80\"",
            "server.listen has the value \"80\" (from windlass.toml:2), which is not an address and port such as \
             127.0.0.1:8080, or [::]:8080 for all networks",
        ),
        (
            "[server]\nsessions_max = 0",
            "server.sessions_max has the value 0 (from windlass.toml:2), which is not a whole number from 1 to 1000000",
        ),
        (
            "[server]\nsessions_max = -1",
            "server.sessions_max has the value -1 (from windlass.toml:2), which is not a whole number from 1 to 1000000",
        ),
        (
            "\nserver = 3",
            "server (from windlass.toml:2) is not a table; docs/configuration.md lists the keys that it holds",
        ),
        (
            "[provider]\nkind = \"gemini\"",
            "provider.kind has the value \"gemini\" (from windlass.toml:2), which is not one of auto, gemini-live, \
             openai-realtime, gpt-live, demo",
        ),
        (
            "[condition_values]\nopen = [1, \"two\"]",
            "condition_values.open has the value [1, \"two\"] (from windlass.toml:2), which is not a text of 1000 characters at \
             most, a number, true or false, or a list of 1000 texts or numbers at most",
        ),
        (
            "[voice]\nbarge_in = \"yes\"",
            "voice.barge_in has the value \"yes\" (from windlass.toml:2), which is not true or false",
        ),
        (
            "[server]\nallowed_origins = [\"https://a\", \"b\"]",
            "server.allowed_origins has the value [\"https://a\", \"b\"] (from windlass.toml:2), which is not a list of \
             items that are each a web origin such as https://example.org",
        ),
        (
            "[voice.limits.turn]\ntop_k_max = 5000000000",
            "voice.limits.turn.top_k_max has the value 5000000000 (from windlass.toml:2), which is not a whole number \
             from 0 to 1000000000",
        ),
        (
            "[provider]\napi_key = \"top secret\"",
            "provider.api_key has the value … (from windlass.toml:2), which is not a key or token in one line without \
             spaces, as the provider shows it",
        ),
        (
            "[provider]\nurl = \"ftp://x\"",
            "provider.url has the value \"ftp://x\" (from windlass.toml:2), which is not an address such as \
             wss://host/path, without user, query or fragment",
        ),
        (
            "[provider]\nurl = { address = \"ws://u:PASS@h/p?key=K\" }",
            "provider.url has the value … (from windlass.toml:2), which is not an address such as wss://host/path, \
             without user, query or fragment",
        ),
        (
            "[provider]\ncompression_trigger_tokens = 10\ncompression_target_tokens = 10",
            "provider.compression_target_tokens has the value 10 (from windlass.toml:3), which is not below \
             provider.compression_trigger_tokens; make it smaller, or leave it out",
        ),
        (
            "[text]\nconversation_idle_seconds = 86401",
            "text.conversation_idle_seconds has the value 86401 (from windlass.toml:2), which is longer than \
             store.conversation_hours keeps a conversation; make it shorter, or raise store.conversation_hours",
        ),
        (
            "[text]\nconversation_idle_seconds = 604801\n[store]\nconversation_hours = 168\neffect_hours = 48",
            "text.conversation_idle_seconds has the value 604801 (from windlass.toml:2), which is longer than \
             store.conversation_hours keeps a conversation; make it shorter, or raise store.conversation_hours",
        ),
        (
            "[provider]\nephemeral_token = \"t\"\nvertex.location = \"global\"",
            "provider.ephemeral_token has the value … (from windlass.toml:2), which cannot be used with Vertex AI; set \
             provider.vertex.access_token in its place",
        ),
        (
            "[calendar]\nservice = \"google\"",
            "calendar.service has the value \"google\" (from windlass.toml:2), which needs credentials; set \
             calendar.google.service_account, or client_id, client_secret and refresh_token beside it",
        ),
        (
            "[calendar]\nservice = \"google\"\ngoogle = { service_account = \"key.json\", refresh_token = \"1//0g\" }",
            "calendar.google.refresh_token has the value … (from windlass.toml:3), which is of no use beside \
             calendar.google.service_account; leave one of the two out",
        ),
        (
            "[calendar.google]\nsubject = \"desk\"",
            "calendar.google.subject has the value \"desk\" (from windlass.toml:2), which is of no use without \
             calendar.google.service_account; leave it out",
        ),
        (
            "[calendar.google]\ncalendars = { primary = \"desk@example.org\", team = \"t\" }",
            "calendar.google.calendars.primary has the value … (from windlass.toml:2), which is of no use, \
             because calendar.google.calendar_id is the calendar that tools call primary; leave one of the two out",
        ),
        (
            "[calendar]\nconference = \"meet\"",
            "calendar.conference has the value \"meet\" (from windlass.toml:2), which needs Google Calendar; set \
             calendar.service = \"google\", or write zoom or none",
        ),
        (
            "[calendar]\nconference = \"zoom\"\n[calendar.zoom]\naccount_id = \"a\"",
            "calendar.conference has the value \"zoom\" (from windlass.toml:2), which needs credentials; set \
             calendar.zoom.account_id, calendar.zoom.client_id and calendar.zoom.client_secret",
        ),
        (
            "[provider.vertex]\nproject = \"p\"",
            "provider.vertex (from windlass.toml:2): missing field `location`",
        ),
        (
            "[tools.kb_get.rate_limit]\ncalls = 1",
            "tools.kb_get.rate_limit (from windlass.toml:2): missing field `window_ms`",
        ),
        (
            "[tools.kb-get]\ntimeout_ms = 1",
            "tools.kb-get (from windlass.toml:2): \"kb-get\" is not a tool id; ids have small letters, digits and \
             underscores, as in kb_search",
        ),
        (
            "[models.m]\ncalls = \"none\"",
            "models.m.calls has the value \"none\" (from windlass.toml:2), which is not one of blocking_only, both, \
             non_blocking_only",
        ),
        (
            "[models.m]\nlike = \"nobody\"",
            "models.m.like has the value \"nobody\" (from windlass.toml:2), which is not the name of a model family or of \
             a server in the tables of docs/providers.md",
        ),
        (
            "[knowledge.namespaces.a]\nreaders = \"owners\"",
            "knowledge.namespaces.a.readers has the value \"owners\" (from windlass.toml:2), which names no owners; list \
             them under owners beside it, as in owners = [\"ada\"]",
        ),
        (
            "[knowledge.namespaces.a]\nreaders = \"signed_in\"\nowners = [\"ada\"]",
            "knowledge.namespaces.a.owners has the value [\"ada\"] (from windlass.toml:3), which is of no use with those \
             readers; write readers = \"owners\", or leave one of the two out",
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
fn all_mistakes_are_said_at_once_in_the_order_of_their_places() {
    let said = refusal(&Case {
        file: "\
[server]
lissen = \"x\"
sessions_max = \"many\"

[tools.Search]
timeout_ms = 0

[provider]
compression_trigger_tokens = 10
compression_target_tokens = 20
[provider.vertex]
project = \"p\"
",
        environment: &[
            ("GEMINI_API_KEY", "two words"),
            ("WINDLASS_SERVER_LISTN", "y"),
            ("WINDLASS_VOICE_BARGE_IN", "yes"),
        ],
        flags: &[("--provider", "provider.kind", "gemini")],
    });
    expect_test::expect![[r#"
        there is no key server.lissen (from windlass.toml:2); the nearest one is server.listen
        server.sessions_max has the value "many" (from windlass.toml:3), which is not a whole number from 1 to 1000000
        tools.Search (from windlass.toml:6): "Search" is not a tool id; ids have small letters, digits and underscores, as in kb_search
        provider.compression_target_tokens has the value 20 (from windlass.toml:10), which is not below provider.compression_trigger_tokens; make it smaller, or leave it out
        provider.vertex (from windlass.toml:12): missing field `location`
        provider.api_key has the value … (from the environment, GEMINI_API_KEY), which is not a key or token in one line without spaces, as the provider shows it
        there is no setting for the environment variable WINDLASS_SERVER_LISTN; the nearest one is WINDLASS_SERVER_LISTEN
        voice.barge_in has the value "yes" (from the environment, WINDLASS_VOICE_BARGE_IN), which is not true or false
        provider.kind has the value "gemini" (from --provider), which is not one of auto, gemini-live, openai-realtime, gpt-live, demo"#]].assert_eq(&said);
}

#[test]
fn all_breaks_of_a_files_syntax_are_said_at_once() {
    let file = "[server]\nlisten = localhost\n[voice\nname = \"Kore\"\n";
    expect_test::expect![[r#"
        windlass.toml:2:10: string values must be quoted, expected literal string
        windlass.toml:3:7: unclosed table, expected `]`"#]]
    .assert_eq(&refusal(&Case { file, ..NOTHING }));
}

#[test]
fn a_file_of_mistakes_is_answered_with_the_first_of_them() {
    let values = |line: &str| {
        (0..20_000)
            .map(|n| line.replace('N', &n.to_string()))
            .collect::<String>()
    };
    for file in [
        values("N = 1\n"),
        values("[tools.tN]\ntimeout_ms = 0\n"),
        values("[knowledge.namespaces.aN]\nreaders = \"owners\"\n"),
        values("aN = \n"),
    ] {
        let case = Case {
            file: &file,
            ..NOTHING
        };
        let problems = load(&case).unwrap_err().problems;
        assert_eq!(problems.len(), 51);
        assert_eq!(problems[50], "there are more mistakes; mend these first");
    }
}

#[test]
fn conditions_read_the_values_that_are_listed() {
    let file = "
        [condition_values]
        open = true
        limit = 0.1
        region = \"north\"
        testers = [\"ada\", \"eve\"]
    ";
    let config = load(&Case { file, ..NOTHING }).unwrap().config;
    let values = serde_json::to_string(&*config.condition_facts).unwrap();
    assert_eq!(
        values,
        r#"{"limit":0.1,"open":true,"region":"north","testers":["ada","eve"]}"#
    );
    let many: String = (0..201)
        .map(|number| format!("v{number:03} = 1\n"))
        .collect();
    let file = format!("[condition_values]\n{many}");
    let file = &*file;
    let problems = load(&Case { file, ..NOTHING }).unwrap_err().problems;
    assert_eq!(
        problems,
        [
            "condition_values.v200 has the value 1 (from windlass.toml:202), which is one more value of conditions than the 200 that \
          there may be; leave some out"
        ]
    );
    for (value, shown, cause) in [
        (
            "9223372036854775808",
            "9223372036854775808",
            "has more than 64 bits",
        ),
        (
            "340282366920938463463374607431768211456",
            "340282366920938463463374607431768211456",
            "has more than 64 bits",
        ),
        (
            "0xffffffffffffffffff",
            "0xffffffffffffffffff",
            "has more than 64 bits",
        ),
        (
            "[1, -99999999999999999999]",
            "-99999999999999999999",
            "has more than 64 bits",
        ),
        (
            "100.00000000000000000001",
            "100.00000000000000000001",
            "has more digits than are kept",
        ),
        ("1e400", "1e400", "has more digits than are kept"),
    ] {
        let file = &*format!("[condition_values]\nlimit = {value}");
        let problems = load(&Case { file, ..NOTHING }).unwrap_err().problems;
        let expected = format!(
            "condition_values.limit has the number {shown} (from windlass.toml:2), which {cause}; write "
        );
        assert!(
            problems.len() == 1 && problems[0].starts_with(&expected),
            "{problems:?}"
        );
    }
    for value in [
        "-9223372036854775808",
        "1_000.50",
        "+2.5e-3",
        "0x10",
        "[0.1, 2.0]",
    ] {
        let file = &*format!("[condition_values]\nlimit = {value}");
        assert!(load(&Case { file, ..NOTHING }).is_ok(), "{value}");
    }
    let file = "[condition_values]\n2b = 1";
    let problems = load(&Case { file, ..NOTHING }).unwrap_err().problems;
    assert!(
        problems[0].contains("which has a name that no condition can read"),
        "{problems:?}"
    );
}

#[test]
fn tools_models_and_limits_take_their_tables() {
    let file = "
        [tools.kb_get]
        requires_confirmation = true
        allowed_modes = [\"voice\"]
        rate_limit = { calls = 2, window_ms = 1000 }
        [models.\"gemini-3.8-live\"]
        like = \"gemini-3.8-live\"
        hold_microphone = false
        context_tokens_max = 1000
        [voice.limits.turn]
        calls_max = 30
        [text.limits]
        open_calls_max = 4
    ";
    let config = load(&Case { file, ..NOTHING }).unwrap().config;
    let (id, tightening) = config.tightenings.first_key_value().unwrap();
    assert_eq!(id.as_str(), "kb_get");
    assert_eq!(tightening.requires_confirmation, Some(true));
    assert_eq!(
        tightening.rate_limit.map(|limit| limit.window_ms),
        Some(1000)
    );
    let change = config.models["gemini-3.8-live"].profile_change();
    assert_eq!(
        (change.like.as_deref(), change.context_tokens_max),
        (Some("gemini-3.8-live"), Some(1000))
    );
    assert_eq!(change.hold_microphone, Some(false));
    let voice = windlass_session::limits::Limits::of(windlass_contract::kind::Mode::Voice);
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
fn versions_of_a_tool_have_their_users() {
    let file = "
        [tools.book_table]
        version = \"1.0.0\"
        timeout_ms = 1000
        [tools.book_table.versions.\"1.2.0\"]
        users = [\"user:ada\"]
        roles = [\"beta\"]
        tenants = [\"acme\"]
        percent = 10
        [tools.kb_get]
        timeout_ms = 1000
    ";
    let loaded = load(&Case { file, ..NOTHING }).unwrap();
    let rollouts = &loaded.config.rollouts;
    assert_eq!(rollouts.len(), 1);
    let rollout = &rollouts["book_table"];
    assert_eq!(rollout.version.as_ref().unwrap().as_str(), "1.0.0");
    let (version, recipients) = rollout.versions.first_key_value().unwrap();
    assert_eq!((version.as_str(), recipients.percent), ("1.2.0", 10));
    assert!(recipients.users.contains("user:ada") && recipients.tenants.contains("acme"));
    assert_eq!(recipients.roles.len(), 1);
    let printed = loaded.to_toml();
    assert!(
        printed.contains("[tools.book_table.versions.\"1.2.0\"]\n"),
        "{printed}"
    );
    let again = load(&Case {
        file: &printed,
        ..NOTHING
    });
    assert_eq!(&again.unwrap().config.rollouts, rollouts);
}

#[test]
fn rules_for_versions_that_make_no_sense_are_refused() {
    for (file, expected) in [
        (
            "[tools.book]\nversion = \"1.0\"",
            "tools.book.version has the value \"1.0\" (from windlass.toml:2), which is not a semantic version, such as 1.2.0",
        ),
        (
            "[tools.book.versions.v2]\npercent = 10",
            "tools.book.versions.v2 (from windlass.toml:2): \"v2\" is not a semantic version; write one in quotes, as in \"1.2.0\"",
        ),
        (
            "[tools.book.versions.\"2.0.0\"]\npercent = 101",
            "tools.book.versions.\"2.0.0\".percent has the value 101 (from windlass.toml:2), which is not a whole number from 0 to 100",
        ),
        (
            "[tools.book.versions.\"2.0.0\"]\npercent = 60\n[tools.book.versions.\"3.0.0\"]\npercent = 41",
            "tools.book.versions.\"3.0.0\".percent has the value 41 (from windlass.toml:4), which makes more than 100 together with the \
             percentages of the tool's other versions; lower one of them",
        ),
        (
            "[tools.book]\nversion = \"1.0.0\"\n[tools.book.versions.\"1.0.0\"]\npercent = 60\n[tools.book.versions.\"2.0.0\"]\npercent = 30",
            "tools.book.versions.\"1.0.0\".percent has the value 60 (from windlass.toml:4), which does not make 100 together with the \
             percentages of the tool's other versions, although the version for everybody else has a percentage, too; let them add up to \
             100, or leave that one out",
        ),
        (
            "[tools.book.versions.\"1.0.0\"]\nusers = [\"ada\"]\n[tools.book.versions.\"2.0.0\"]\nusers = [\"bob\", \"ada\"]",
            "tools.book.versions.\"2.0.0\".users has the value [\"bob\", \"ada\"] (from windlass.toml:4), which names one whom another \
             version of the tool names, too; name each once",
        ),
        (
            "[tools.book.versions.\"2.0.0+a\"]\npercent = 10\n[tools.book.versions.\"2.0.0+b\"]\npercent = 10",
            "tools.book.versions.\"2.0.0+b\".percent has the value 10 (from windlass.toml:4), which is of a version that another one has \
             the number of; what stands behind a + makes no other version",
        ),
    ] {
        let said = refusal(&Case { file, ..NOTHING });
        assert_eq!(said, expected);
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

/// `1000` is 1,000.
fn grouped(word: &str) -> String {
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    let groups = word.as_bytes().rchunks(3).rev();
    let groups: Vec<&str> = groups
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}

/// The table of the keys that a marker in the document names: those of a section, without the ones that a longer marker has.
fn table(keys: &[Key], marker: &str, markers: &[&str]) -> String {
    let mut table = "| key | default | takes | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    let is_of = |key: &Key, marker: &str| key.path.starts_with(&format!("{marker}."));
    for key in keys {
        let marked = markers.iter().filter(|marker| is_of(key, marker));
        if marked.max_by_key(|marker| marker.len()) != Some(&marker) {
            continue;
        }
        let default = key.default.as_ref();
        let default = default.map_or("not set".to_owned(), |value| format!("`{value}`"));
        let takes = key.takes.trim_start_matches("a whole number from ");
        let takes: Vec<String> = takes.split(' ').map(grouped).collect();
        let takes = takes.join(" ");
        let secret = if key.is_secret { "Secret. " } else { "" };
        let (path, meaning) = (&key.path, &key.meaning);
        table += &format!("| `{path}` | {default} | {takes} | {secret}{meaning} |\n");
    }
    table
}

#[test]
fn the_tables_of_the_documentation_are_those_of_the_keys() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let marker = |line: &'_ str| {
        line.strip_prefix("<!-- keys: ")?
            .strip_suffix(" -->")
            .map(str::to_owned)
    };
    let markers: Vec<String> = document.lines().filter_map(marker).collect();
    let markers: Vec<&str> = markers.iter().map(String::as_str).collect();
    let keys = keys();
    for key in &keys {
        let is_of = |marker: &&str| key.path.starts_with(&format!("{marker}."));
        assert!(
            markers.iter().any(is_of),
            "no table is marked for {}",
            key.path
        );
    }
    let mut expected = String::new();
    let mut is_in_table = false;
    for line in document.lines() {
        is_in_table &= line.starts_with('|');
        if is_in_table {
            continue;
        }
        expected += line;
        expected.push('\n');
        if let Some(marker) = marker(line) {
            expected += &table(&keys, &marker, &markers);
            is_in_table = true;
        }
    }
    expect_test::expect_file![path].assert_eq(&expected);
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
            (found, config.text_provider),
            (key, text),
            "{kind} {environment:?}"
        );
    }
    // Other companies speak OpenAI's protocol, too.
    for (url, expected) in [
        ("https://api.x.ai/v1", None),
        ("https://r.services.ai.azure.com/voice-live/realtime", None),
        ("ws://127.0.0.1:9", Some("o")),
    ] {
        let file = format!("[provider]\nkind = \"openai-realtime\"\nurl = \"{url}\"\n");
        let case = Case {
            file: &file,
            environment: &both,
            ..NOTHING
        };
        let key = load(&case).unwrap().config.provider.api_key;
        let key = key.map(|key| key.sensitive());
        let key = key.as_ref().map(|key| key.expose().as_str());
        assert_eq!(key, expected, "{url}");
    }
}

#[test]
fn the_key_that_is_there_decides_who_speaks_and_why_is_told() {
    const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "o");
    const GEMINI: (&str, &str) = ("GEMINI_API_KEY", "g");
    let no_key = ("no key is set", "no key is set");
    for (file, environment, kind, text, (why_voice, why_text)) in [
        ("", &[][..], ProviderKind::Auto, TextProvider::Demo, no_key),
        (
            "",
            &[OPENAI][..],
            ProviderKind::OpenaiRealtime,
            TextProvider::Openai,
            ("OPENAI_API_KEY is set", "OPENAI_API_KEY is set"),
        ),
        (
            "[provider]\nmodel = \"gpt-realtime-mini\"\n",
            &[OPENAI],
            ProviderKind::OpenaiRealtime,
            TextProvider::Openai,
            ("OPENAI_API_KEY is set", "OPENAI_API_KEY is set"),
        ),
        (
            "",
            &[GEMINI, OPENAI],
            ProviderKind::Auto,
            TextProvider::Gemini,
            ("GEMINI_API_KEY is set", "GEMINI_API_KEY is set"),
        ),
        (
            "[text]\nprovider = \"openai\"\n",
            &[GEMINI, OPENAI],
            ProviderKind::Auto,
            TextProvider::Openai,
            (
                "GEMINI_API_KEY is set",
                "text.provider is set (from windlass.toml:2)",
            ),
        ),
        // Each of these says that another one is meant.
        (
            "[provider]\nkind = \"demo\"\n",
            &[OPENAI],
            ProviderKind::Demo,
            TextProvider::Openai,
            (
                "provider.kind is set (from windlass.toml:2)",
                "OPENAI_API_KEY is set",
            ),
        ),
        (
            "[provider]\nurl = \"ws://127.0.0.1:9\"\n",
            &[OPENAI],
            ProviderKind::Auto,
            TextProvider::Openai,
            (
                "provider.url is set (from windlass.toml:2)",
                "OPENAI_API_KEY is set",
            ),
        ),
        (
            "[provider]\napi_key_env = \"STUDIO_KEY\"\n",
            &[OPENAI],
            ProviderKind::Auto,
            TextProvider::Openai,
            ("no key is set", "OPENAI_API_KEY is set"),
        ),
        (
            "[provider]\nmodel = \"gemini-next-live\"\n",
            &[OPENAI],
            ProviderKind::Auto,
            TextProvider::Openai,
            ("no key is set", "OPENAI_API_KEY is set"),
        ),
    ] {
        let case = Case {
            file,
            environment,
            ..NOTHING
        };
        let config = load(&case).unwrap().config;
        assert_eq!(
            (config.provider.kind, config.text_provider),
            (kind, text),
            "{file} {environment:?}"
        );
        let why = (config.reasons.voice.as_str(), config.reasons.text.as_str());
        assert_eq!(why, (why_voice, why_text), "{file} {environment:?}");
        let is_openais = config.provider.api_key.as_ref().map(|key| key.sensitive());
        let is_openais = is_openais.is_some_and(|key| key.expose() == "o");
        assert_eq!(is_openais, kind == ProviderKind::OpenaiRealtime, "{file}");
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
        // It was set for that server, and opens nothing of the provider's.
        (
            "[provider]\napi_key = \"v\"\nurl = \"ws://127.0.0.1:9\"\n",
            (TextProvider::Demo, None),
        ),
    ] {
        let case = Case { file, ..NOTHING };
        let config = load(&case).unwrap().config;
        let key = config.text.api_key.map(|key| key.sensitive());
        let key = key.as_ref().map(|key| key.expose().as_str());
        assert_eq!((config.text_provider, key), expected, "{file}");
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

#[test]
fn services_of_tools_get_the_key_of_their_own_company_and_one_of_ones_own_gets_none() {
    let all = [
        ("GEMINI_API_KEY", "g"),
        ("OPENAI_API_KEY", "o"),
        ("BRAVE_API_KEY", "b"),
        ("TAVILY_API_KEY", "t"),
    ];
    for (section, service, companys) in [
        ("images", "local", None),
        ("images", "gemini", Some("g")),
        ("images", "openai", Some("o")),
        ("search", "none", None),
        ("search", "brave", Some("b")),
        ("search", "tavily", Some("t")),
        ("search", "openai", Some("o")),
    ] {
        for (more, expected) in [
            ("", companys),
            ("url = \"http://127.0.0.1:9/v1\"\n", None),
            (
                "url = \"http://127.0.0.1:9/v1\"\napi_key = \"mine\"\n",
                Some("mine"),
            ),
        ] {
            let file = format!("[{section}]\nservice = \"{service}\"\n{more}");
            let case = Case {
                file: &file,
                environment: &all,
                ..NOTHING
            };
            let config = load(&case).unwrap().config;
            let key = match section {
                "images" => config.images.api_key,
                _ => config.search.api_key,
            };
            let key = key.map(|key| key.sensitive());
            let key = key.as_ref().map(|key| key.expose().as_str());
            assert_eq!(key, expected, "{file}");
        }
    }
}

const NONE: &str = "docs/configuration.md lists those that there are";

fn cure(case: &Case<'_>) -> String {
    let refused = load(case).unwrap_err().to_string();
    let (problem, cure) = refused.split_once("; ").unwrap();
    assert!(problem.starts_with("there is no "), "{refused}");
    cure.to_owned()
}

#[test]
fn an_unknown_key_is_answered_with_one_that_may_be_meant() {
    for (file, nearest) in [
        ("[server]\nlisten_on = \"x\"", "server.listen"),
        ("[servr]\nlisten = \"x\"", "server"),
        (
            "[voice.limits.turn]\ncall_max = 1",
            "voice.limits.turn.calls_max",
        ),
        (
            "[models.\"gemini-3.8\"]\ncall = 1",
            "models.\"gemini-3.8\".calls",
        ),
        (
            "[tools.kb_search]\ntimeout = 1",
            "tools.kb_search.timeout_ms",
        ),
        // A key of another table is suggested only if it has the same name and is the only one with that name.
        (
            "[tools.kb_search]\nwindow_ms = 1",
            "tools.kb_search.rate_limit.window_ms",
        ),
        ("listen = \"x\"", "server.listen"),
        ("[server]\nlanguage = \"de\"", "voice.language"),
    ] {
        let expected = format!("the nearest one is {nearest}");
        assert_eq!(cure(&Case { file, ..NOTHING }), expected, "{file}");
    }
}

#[test]
fn an_unknown_key_that_is_like_none_is_not_answered_with_one_of_another_table() {
    for file in [
        "[tools.kb_search]\nfoo = 1",
        "[tools.kb_search]\nexact_max = 1",
        "[server]\ntemperature = 1",
        "[server]\ntimeout_ms = 1",
        "[models.m]\nx = 1",
        "foo = 1",
        "\"\" = 1",
        "[server]\n\"*\" = 1",
        &format!("[server]\n{} = 1", "x".repeat(10_000)),
    ] {
        assert_eq!(cure(&Case { file, ..NOTHING }), NONE, "{file}");
    }
}

#[test]
fn an_unknown_variable_is_answered_with_one_of_its_section() {
    for (variable, expected) in [
        (
            "WINDLASS_SERVER_LISTN",
            "the nearest one is WINDLASS_SERVER_LISTEN",
        ),
        ("WINDLASS_SERVER_FOO", NONE),
        ("WINDLASS_TOOLS_KB_SEARCH_TIMEOUT_MS", NONE),
        ("WINDLASS_AUDIT_", NONE),
    ] {
        let environment = &[(variable, "x")][..];
        let case = Case {
            environment,
            ..NOTHING
        };
        assert_eq!(cure(&case), expected, "{variable}");
    }
}

fn refusal_of(name: &str) -> Option<String> {
    let file = format!("[knowledge.namespaces.{name}]\nreaders = \"signed_in\"");
    let file = file.as_str();
    let loaded = load(&Case { file, ..NOTHING });
    loaded.err().map(|error| error.to_string())
}

#[test]
fn calendars_at_google_have_the_names_that_tools_call_them() {
    let loaded = load(&Case {
        file: "[calendar]\nservice = \"google\"\nconference = \"meet\"\n[calendar.google]\nclient_id = \"c\"\nclient_secret = \"GOCSPX-hidden\"\n[calendar.google.calendars]\nteam = \"team@example.org\"",
        environment: &[("WINDLASS_CALENDAR_GOOGLE_REFRESH_TOKEN", "1//0g-hidden")],
        ..NOTHING
    })
    .unwrap();
    let google = &loaded.config.calendar.google;
    let named: Vec<String> = (google.calendars.iter())
        .map(|(name, id)| format!("{}={}", name.as_str(), id.as_str()))
        .collect();
    assert_eq!(named, ["team=team@example.org"]);
    assert_eq!(google.calendar_id.as_str(), "primary");
    assert!(!loaded.to_toml().contains("hidden"));
    let unlogged = loaded.config.unlogged();
    assert_eq!(unlogged.len(), 2);
}

#[test]
fn a_rule_for_a_namespace_that_no_record_can_have_is_refused() {
    assert_eq!(
        refusal_of("Staff").unwrap(),
        "knowledge.namespaces.Staff (from windlass.toml:2): no record can be in a namespace of that name; names have at most \
         63 small letters, digits and underscores and begin with a letter"
    );
    let (longest, longer) = ("a".repeat(63), "a".repeat(64));
    for name in [
        "my-staff", "7up", "_a", "\"a b\"", "\"a.b\"", "\"é\"", &longer,
    ] {
        let said = refusal_of(name).unwrap_or_default();
        assert!(said.starts_with("knowledge.namespaces."), "{name}: {said}");
        assert!(
            said.contains(": no record can be in a namespace"),
            "{name}: {said}"
        );
    }
    for name in ["staff", "a", "a_7", &longest] {
        assert_eq!(refusal_of(name), None, "{name}");
    }
}

#[test]
fn secrets_of_handlers_are_a_space_of_their_own() {
    let loaded = load(&Case {
        file: "[secrets.SHOP_KEY]\nvalue = \"from-the-file\"\nhosts = [\"Shop.Example.com\", \"127.0.0.1:3000\"]\n[secrets.MAIL_KEY]\nhosts = [\"mail.example.com\"]",
        environment: &[
            ("GEMINI_API_KEY", "models"),
            ("MAIL_KEY", "plain"),
            ("WINDLASS_SECRET_SHOP_KEY", "from-the-environment"),
            ("WINDLASS_SECRET_LOOSE", "no-host"),
        ],
        ..NOTHING
    })
    .unwrap();
    assert!(loaded.ignored_variables.is_empty());
    let secrets = loaded.config.handler_secrets();
    let shown: Vec<String> = secrets
        .iter()
        .map(|(name, secret)| format!("{name}={} {:?}", secret.value.expose(), secret.hosts))
        .collect();
    assert_eq!(
        shown,
        [
            "LOOSE=no-host {}",
            "SHOP_KEY=from-the-environment {\"127.0.0.1:3000\", \"shop.example.com\"}",
        ]
    );
    assert!(!loaded.to_toml().contains("from-the"));
}

#[test]
fn a_tool_is_granted_the_secrets_that_it_names_and_that_are_set() {
    let loaded = load(&Case {
        file: "[secrets.SHOP_KEY]\nvalue = \"from-the-file\"\n[secrets.MAIL_KEY]\nhosts = [\"mail.example.com\"]\n[tools.order]\nsecrets = [\"SHOP_KEY\", \"MAIL_KEY\"]\n[tools.other]\nsecrets = [\"MAIL_KEY\"]\n[tools.none]\ntimeout_ms = 1000",
        ..NOTHING
    })
    .unwrap();
    let shown: Vec<String> = loaded
        .config
        .granted_secrets()
        .iter()
        .flat_map(|(tool, secrets)| {
            let secrets = secrets.iter();
            secrets.map(move |(name, secret)| format!("{tool}: {name}={}", secret.expose()))
        })
        .collect();
    assert_eq!(shown, ["order: SHOP_KEY=from-the-file"]);
    assert!(!loaded.to_toml().contains("from-the-file"));
}

#[test]
fn an_mcp_server_is_an_address_or_a_program_and_never_both() {
    let whole = "[mcp.docs]\nurl = \"https://a.example/mcp/\"\nbearer = \"KEY\"\n[mcp.docs.headers]\nX-Api-Key = \"OTHER\"\n\
        [mcp.files]\ncommand = [\"npx\", \"-y\", \"files\"]\nfolder = \"/srv\"\nenv = [\"NODE_OPTIONS\"]\nsecrets = [\"KEY\"]\nconcurrency = 2";
    let loaded = load(&Case {
        file: whole,
        ..NOTHING
    })
    .unwrap();
    let servers = loaded.config.mcp_servers();
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    assert_eq!(names, ["docs", "files"]);
    assert_eq!(servers["files"].limits.concurrency, 2);
    assert!(loaded.config.permissions().mcp_servers.contains("docs"));
    for (file, expected) in [
        (
            "[mcp.a]\nurl = \"https://a.example\"\ncommand = [\"a\"]",
            "mcp.a.command has the value [\"a\"] (from windlass.toml:3), which is of no use beside url",
        ),
        (
            "[mcp.a]\ncommand = []",
            "mcp.a.command has the value [] (from windlass.toml:2), which names no program",
        ),
        ("[mcp.a]\ncommand = [\"\"]", "which names no program"),
        (
            "[mcp.a]\nconcurrency = 2",
            "mcp.a.concurrency has the value 2 (from windlass.toml:2), which is of no use without a server",
        ),
        (
            "[mcp.a]\nsecrets = [\"KEY\"]",
            "which is of no use without a server",
        ),
        (
            "[mcp.a]\nurl = \"https://a.example\"\nenv = [\"HOME\"]",
            "mcp.a.env has the value [\"HOME\"] (from windlass.toml:3), which is for a server that is a program",
        ),
        (
            "[mcp.a]\ncommand = [\"a\"]\nbearer = \"KEY\"",
            "mcp.a.bearer has the value \"KEY\" (from windlass.toml:3), which is for a server with a url",
        ),
        (
            "[mcp.a]\ncommand = [\"a\"]\n[mcp.a.headers]\nX-Key = \"KEY\"",
            "which is for a server with a url",
        ),
        (
            "[mcp.a]\ncommand = [\"a\"]\n[mcp.a.headers]\n\" X-Key\" = \"KEY\"",
            "mcp.a.headers",
        ),
        ("[mcp.a]\nurl = \"ftp://a.example\"", "mcp.a.url"),
        (
            "[mcp.\"a b\"]\ncommand = [\"a\"]",
            "no MCP server can have that name",
        ),
    ] {
        let said = refusal(&Case { file, ..NOTHING });
        assert!(said.contains(expected), "{file}: {said}");
    }
}

#[test]
fn the_strongest_source_says_the_port() {
    let listen = "[server]\nlisten = \"127.0.0.1:1\"\n";
    let both = "[server]\nlisten = \"127.0.0.1:1\"\nport = 2\n";
    let flag = |name, key, value| [(name, key, value)];
    let listen_flag = flag("--listen", "server.listen", "[::1]:3");
    let port_flag = flag("--port", "server.port", "4");
    for (file, environment, flags, address) in [
        ("", &[("PORT", "5")][..], &[][..], "127.0.0.1:5"),
        ("", &[("PORT", "")], &[], "127.0.0.1:8080"),
        (listen, &[("PORT", "5")], &[], "127.0.0.1:5"),
        (both, &[], &[], "127.0.0.1:2"),
        (both, &[("PORT", "5")], &[], "127.0.0.1:5"),
        (
            "",
            &[("PORT", "5"), ("WINDLASS_SERVER_LISTEN", "0.0.0.0:6")],
            &[],
            "0.0.0.0:6",
        ),
        (
            "",
            &[("PORT", "5"), ("WINDLASS_SERVER_PORT", "7")],
            &[],
            "127.0.0.1:7",
        ),
        (both, &[("PORT", "5")], &listen_flag, "[::1]:3"),
        (both, &[("PORT", "5")], &port_flag, "127.0.0.1:4"),
    ] {
        let case = Case {
            file,
            environment,
            flags,
        };
        let listens = load(&case).unwrap().config.server.listen.get();
        assert_eq!(listens.to_string(), address, "{file} {environment:?}");
    }
    let said = refusal(&Case {
        environment: &[("PORT", "tcp")],
        ..NOTHING
    });
    assert_eq!(
        said,
        "server.port has the value \"tcp\" (from the environment, PORT), which is not a whole number from 0 to 65535"
    );
}

#[test]
fn a_mistake_of_the_command_line_is_told_from_one_of_a_file() {
    let file = "[server]\nport = -1\n";
    let flags = [("--port", "server.port", "x")];
    let is_of_flags = |case| load(&case).unwrap_err().is_of_flags;
    assert!(!is_of_flags(Case { file, ..NOTHING }));
    assert!(is_of_flags(Case {
        flags: &flags,
        ..NOTHING
    }));
    let missing = Loaded::load(&Sources {
        file: Some(PathBuf::from("missing.toml")),
        ..Sources::default()
    });
    assert!(missing.unwrap_err().is_of_flags);
}

#[test]
fn a_file_may_name_the_schema_of_its_editor() {
    let file = "\"$schema\" = \"./config.schema.json\"\n[log]\nlevel = \"warn\"\n";
    assert!(load(&Case { file, ..NOTHING }).is_ok());
    let file = "\"$schema\" = 1\n";
    let said = refusal(&Case { file, ..NOTHING });
    assert!(said.starts_with("there is no key \"$schema\" "), "{said}");
}

#[test]
fn an_editor_marks_what_is_not_taken() {
    for (file, mark) in [
        ("[server]\nlissen = \"x\"\n", "/server/lissen"),
        ("[server]\nport = 65536\n", "/server/port"),
        ("[server]\nlisten = 8080\n", "/server/listen"),
        ("[log]\nlevel = \"loud\"\n", "/log/level"),
        (
            "[voice.limits.turn]\ncalls_max = -1\n",
            "/voice/limits/turn/calls_max",
        ),
        (
            "[tools.kb_get]\ntimeout_ms = 0\n",
            "/tools/kb_get/timeout_ms",
        ),
        ("[tools.kb_get]\ntimout_ms = 9\n", "/tools/kb_get/timout_ms"),
        (
            "[tools.kb_get]\nallowed_modes = [\"video\"]\n",
            "/tools/kb_get/allowed_modes/0",
        ),
        (
            "[provider]\ntemperature = \"hot\"\n",
            "/provider/temperature",
        ),
        ("[handlers]\nprocesses = 1\n", "/handlers/processes"),
        ("sections = 1\n", "/sections"),
    ] {
        assert_eq!(marks(file), [mark], "{file}");
        assert!(load(&Case { file, ..NOTHING }).is_err(), "{file}");
    }
}

#[test]
fn a_connection_names_its_authorization_server_and_the_id_there() {
    let file = "[connections.shop]\nissuer = \"https://login.example\"\nclient_id = \"windlass\"\nhosts = [\"API.example\"]\n\
        [connections.desk]\nauthorization_url = \"https://a.example/authorize\"\ntoken_url = \"https://a.example/token\"\n\
        client_id = \"w\"\nscopes = [\"read\", \"write\"]\n\
        [tools.order]\nconnections = [\"shop\", \"gone\"]";
    let loaded = load(&Case { file, ..NOTHING }).unwrap();
    let hosts = &loaded.config.permissions().connections["shop"];
    assert_eq!(hosts.iter().collect::<Vec<_>>(), ["api.example"]);
    let granted = loaded.config.granted_connections();
    assert_eq!(granted.values().flatten().collect::<Vec<_>>(), ["shop"]);
    for (file, expected) in [
        (
            "[connections.shop]\nissuer = \"https://login.example\"",
            "connections.shop.issuer has the value \"https://login.example\" (from windlass.toml:2), which is of no use without client_id",
        ),
        (
            "[connections.shop]\ntoken_url = \"https://a.example/token\"\nclient_id = \"w\"",
            "connections.shop.token_url has the value \"https://a.example/token\" (from windlass.toml:2), which is one of two addresses",
        ),
        (
            "[connections.shop]\nclient_id = \"w\"",
            "connections.shop.client_id has the value \"w\" (from windlass.toml:2), which is of no use without an authorization server",
        ),
        (
            "[connections.shop]\nissuer = \"https://a.example\"\nclient_id = \"w\"\nscopes = [\"a b\"]",
            "connections.shop.scopes",
        ),
        ("[connections.\"a b\"]\nclient_id = \"w\"", "connections"),
    ] {
        let refusal = refusal(&Case { file, ..NOTHING });
        assert!(refusal.contains(expected), "{refusal}");
    }
}
