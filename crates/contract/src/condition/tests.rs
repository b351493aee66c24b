//! Conditions as authors write them: their outcomes, and refusals with their positions. Knows no session.

use super::*;
use crate::arguments::Arguments;
use crate::kind::Mode;
use crate::rights::{Rights, Role};
use serde_json::{Value, json};

fn values() -> Values {
    Values::new([
        ("beta".to_owned(), json!(true)),
        ("limit".to_owned(), json!(100)),
        ("region".to_owned(), json!("north")),
        ("testers".to_owned(), json!(["user:ada", "user:eve"])),
        ("hours".to_owned(), json!([9, 10, 11])),
    ])
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["amount", "filter"],
        "properties": {
            "amount": {"type": "number"},
            "note": {"type": "string"},
            "rush": {"type": "boolean", "default": false},
            "guests": {"type": "array", "items": {"type": "string"}},
            "filter": {"type": "object", "properties": {"kind": {"type": "string"}}},
            "any": {},
            "maybe": {"type": ["integer", "null"]},
            "top-k": {"type": "integer"},
        },
    })
}

/// Saturday, 28 November 2026, 17:00 UTC.
const SATURDAY: u64 = 1_795_885_200_000;

fn judged(text: &str, arguments: Value) -> Result<bool, Unjudged> {
    judged_for(
        text,
        arguments,
        &Rights::signed_in([Role::parse("staff").unwrap()]),
    )
}

fn judged_for(text: &str, arguments: Value, rights: &Rights) -> Result<bool, Unjudged> {
    let condition = Condition::parse(text).unwrap_or_else(|flaw| panic!("{text}: {flaw}"));
    let arguments: Arguments = serde_json::from_str(&arguments.to_string()).unwrap();
    condition.holds(&Facts {
        rights,
        user_id: "user:ada",
        tenant: "acme",
        mode: Mode::Voice,
        unix_ms: SATURDAY,
        given: &Given {
            clock: LocalClock::new([(0, 3_600)]),
            values: Arc::new(values()),
        },
        arguments: Some(&arguments),
    })
}

#[test]
fn a_condition_holds_by_its_facts() {
    for (text, expected) in [
        (
            "context.user.isAuthenticated && context.mode === 'voice'",
            true,
        ),
        ("user.isAuthenticated", true),
        ("!user.isAuthenticated", false),
        ("!!user.isAuthenticated", true),
        ("user.id == \"user:ada\"", true),
        ("user.id !== 'user:eve'", true),
        ("tenant == 'acme' && mode != 'text'", true),
        ("'staff' in roles", true),
        ("'staff' in (roles)", true),
        ("\"manager\" in roles || \"nurse\" in roles", false),
        ("!('manager' in roles)", true),
        ("mode in ('text', 'voice')", true),
        ("mode in ['text']", false),
        ("mode in ()", false),
        ("time.hour == 18 && time.weekday == 'saturday'", true),
        ("time.hour >= 9 && time.hour < 17", false),
        ("time.weekday in ('saturday', \"sunday\")", true),
        ("config.beta", true),
        ("user.id in config.testers", true),
        ("time.hour in config.hours", false),
        ("config.limit >= 100 && config.region == 'north'", true),
        // && binds more than ||.
        ("true || false && false", true),
        ("(true || false) && false", false),
        ("1e2 == 100.0 && -1 < 0", true),
        ("'it\\'s' == \"it's\"", true),
        ("context.config.beta == true", true),
        ("  true\n&&\ttrue ", true),
    ] {
        assert_eq!(judged(text, json!({})), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("user.isAuthenticated", false),
        ("'staff' in roles", false),
        ("!('staff' in roles)", true),
    ] {
        let judged = judged_for(text, json!({}), &Rights::Anonymous);
        assert_eq!(judged, Ok(expected), "{text}");
    }
}

#[test]
fn arguments_are_compared_by_their_exact_values() {
    let written = |digits: &str| -> Value { digits.parse().unwrap() };
    for (text, amount, expected) in [
        ("args.amount > 100", written("100.5"), true),
        ("args.amount > 100", written("100"), false),
        (
            "args.amount > 9007199254740992",
            written("9007199254740993"),
            true,
        ),
        (
            "args.amount == 9007199254740992",
            written("9007199254740993"),
            false,
        ),
        (
            "args.amount == 2512292042121000001",
            written("2512292042121000001.0"),
            true,
        ),
        (
            "args.amount > 0.1",
            written("0.1000000000000000055511151231257827"),
            true,
        ),
        (
            "args.amount <= 1e400",
            written("99999999999999999999999"),
            true,
        ),
        (
            "args.amount < -1",
            written("-1.0000000000000000000001"),
            true,
        ),
        ("context.args.amount in (1, 2.50)", written("2.5"), true),
    ] {
        let judged = judged(text, json!({ "amount": amount }));
        assert_eq!(judged, Ok(expected), "{text} {amount}");
    }
    let all = json!({
        "guests": ["ada", "eve"], "filter": {"kind": "x"}, "top-k": 3, "rush": true
    });
    for (text, expected) in [
        ("args.guests.length > 1", true),
        ("'ada' in args.guests", true),
        ("'bob' in args.guests", false),
        ("args.filter.kind == 'x'", true),
        ("args[\"top-k\"] == 3 && args['rush']", true),
    ] {
        assert_eq!(judged(text, all.clone()), Ok(expected), "{text}");
    }
}

#[test]
fn what_cannot_be_judged_says_so_unless_nobody_needs_it() {
    for (text, arguments, expected) in [
        (
            "args.amount > 1",
            json!({}),
            Err("args.amount is not there"),
        ),
        (
            "args.filter.kind == 'x'",
            json!({"filter": {}}),
            Err("args.filter.kind is not there"),
        ),
        (
            "args.any > 1",
            json!({"any": "2"}),
            Err("args.any is not of the kind that the condition needs"),
        ),
        (
            "args.any",
            json!({"any": 1}),
            Err("args.any is not of the kind that the condition needs"),
        ),
        (
            "args.any == 'x'",
            json!({"any": null}),
            Err("args.any is not of the kind that the condition needs"),
        ),
        (
            "'x' in args.any",
            json!({"any": [1]}),
            Err("args.any is not of the kind that the condition needs"),
        ),
        ("config.gone", json!({}), Err("config.gone is not there")),
        (
            "user.isAuthenticated || args.amount > 1",
            json!({}),
            Ok(true),
        ),
        (
            "!user.isAuthenticated && args.amount > 1",
            json!({}),
            Ok(false),
        ),
        (
            "args.amount > 1 || user.isAuthenticated",
            json!({}),
            Err("args.amount is not there"),
        ),
    ] {
        let judged = judged(text, arguments).map_err(|problem| problem.to_string());
        assert_eq!(judged, expected.map_err(str::to_owned), "{text}");
    }
}

#[test]
fn a_text_that_is_no_condition_is_refused_at_its_place() {
    for (text, column, message) in [
        ("", 1, "a value is missing"),
        ("mode ==", 8, "a value is missing"),
        ("mode = 'text'", 6, "`=` means nothing here"),
        ("true & false", 6, "`&` means nothing here"),
        ("true && ", 8, "a value is missing"),
        ("(true", 1, "the bracket that begins here has no )"),
        ("true)", 5, "nobody expects `)` here"),
        ("true and false", 6, "nobody expects `and` here"),
        (
            "mode == 'text",
            9,
            "the text that begins here has no ' at its end",
        ),
        ("mode == 'a\\n'", 11, "this escape is not known"),
        ("1 < 2 < 3", 7, "one comparison follows another"),
        ("(1 < 2) == true", 1, "a condition is compared here"),
        ("!true == false", 1, "a condition is compared here"),
        ("é == 1", 1, "there is no `é`"),
        ("'é' == userid", 8, "there is no `userid`"),
        (
            "user.isAuthentcated",
            1,
            "there is no `user.isAuthentcated`",
        ),
        ("roles.includes('staff')", 1, "there is no `roles.includes`"),
        ("null == user.id", 1, "there is no `null`"),
        ("process.exit(1)", 1, "there is no `process.exit`"),
        ("config", 1, "there is no `config`"),
        ("args", 1, "there is no `args`"),
        ("args.", 5, "there is no name behind the dot"),
        ("args[0]", 5, "there is no name in the bracket"),
        ("01 == 1", 1, "`01` is no number"),
        ("1e9999 == 1", 1, "the exponent of a number is at most 1000"),
        ("args.a - 1 == 2", 8, "nobody expects `-` here"),
        ("- mode == 1", 1, "there is no number behind the minus"),
        ("[1] == 1", 1, "a list stands where one value is needed"),
        ("mode in ('text', mode)", 18, "a list is made of values"),
        (
            "mode in ('text'",
            9,
            "the bracket that begins here has no )",
        ),
        ("mode == `text`", 9, "`\u{60}` means nothing here"),
    ] {
        let flaw = Condition::parse(text).unwrap_err();
        assert!(
            flaw.column == column && flaw.message.starts_with(message) && !flaw.cure.is_empty(),
            "{text}: {flaw}"
        );
    }
}

#[test]
fn a_condition_has_a_bounded_length_and_nesting() {
    let long = format!("mode == '{}'", "x".repeat(10_000));
    let flaw = Condition::parse(&long).unwrap_err();
    assert!(
        flaw.message
            .contains("10010 bytes long, and 4000 are the limit"),
        "{flaw}"
    );
    for (open, close) in [("(", ")"), ("!", ""), ("!(", ")")] {
        let deep = format!("{}true{}", open.repeat(1_000), close.repeat(1_000));
        let flaw = Condition::parse(&deep).unwrap_err();
        assert!(flaw.message.contains("more than 32 deep"), "{flaw}");
        let times = NESTING_MAX / open.len();
        let allowed = format!("{}true{}", open.repeat(times), close.repeat(times));
        assert!(Condition::parse(&allowed).is_ok());
    }
    // Conditions side by side are not nested.
    let wide = vec!["(!true)"; 400].join("||");
    assert_eq!(judged(&wide, json!({})), Ok(false));
}

fn flaws(text: &str, arguments: ArgumentsOf<'_>) -> Vec<String> {
    let values = values();
    let scope = Scope {
        values: &values,
        arguments,
    };
    let condition = Condition::parse(text).unwrap_or_else(|flaw| panic!("{text}: {flaw}"));
    let flaws = condition.flaws(&scope).into_iter();
    flaws
        .map(|flaw| format!("{}: {} ({})", flaw.column, flaw.message, flaw.cure))
        .collect()
}

#[test]
fn unknown_names_and_impossible_comparisons_are_flaws_with_their_column() {
    let schema = parameters();
    for (text, expected) in [
        ("args.amount > 100 || !user.isAuthenticated", None),
        ("args.any == 1 && args.any == 'x' && args.any", None),
        ("args.maybe > 1 && args.guests.length > 1", None),
        ("args.filter.kind == 'x' && args['top-k'] in (1, 2)", None),
        ("mode in () && user.id in config.testers", None),
        ("args.amount > 'ten'", Some("15: a text has no order")),
        (
            "args.amount == 'ten'",
            Some("13: a number is compared with a text, which it never is"),
        ),
        ("user.id == 7", Some("9: a text is compared with a number")),
        (
            "user.isAuthenticated == 'true'",
            Some("22: true or false is compared with a text"),
        ),
        ("user.id < 'x'", Some("1: a text has no order")),
        (
            "roles == 'staff'",
            Some("1: a list of texts is compared as if it were one value"),
        ),
        ("'staff' in tenant", Some("12: a text stands behind `in`")),
        (
            "roles in ('staff')",
            Some("1: a list of texts stands before `in`"),
        ),
        (
            "7 in roles",
            Some("1: a number is never in a list of texts"),
        ),
        (
            "time.hour in ('nine')",
            Some("1: a number is never in a list of texts"),
        ),
        (
            "mode in ('text', 1)",
            Some("9: the list has values of several kinds"),
        ),
        (
            "mode == 'vioce'",
            Some("9: it is never \"vioce\" (did you mean \"voice\"?)"),
        ),
        (
            "time.weekday == 'Monday'",
            Some("17: it is never \"Monday\" (did you mean \"monday\"?)"),
        ),
        (
            "time.weekday in ('monday', 'someday')",
            Some("17: it is never \"someday\" (it is one of monday, "),
        ),
        (
            "user.id",
            Some("1: a text stands where true or false is needed"),
        ),
        (
            "true && time.hour",
            Some("9: a number stands where true or false is needed"),
        ),
        (
            "config.betta",
            Some("1: the configuration lists no value `betta` (did you mean config.beta?)"),
        ),
        (
            "config.zzz",
            Some("1: the configuration lists no value `zzz` (list it under [condition_values]"),
        ),
        (
            "args.amonut > 1",
            Some("1: there is no argument `args.amonut` (did you mean `amount`?)"),
        ),
        (
            "args.filter.knid == 'x'",
            Some("1: there is no argument `args.filter.knid` (did you mean `kind`?)"),
        ),
        ("args.filter == 'x'", Some("1: an object is compared")),
        (
            "args.amount.length > 1",
            Some("1: there is no argument `args.amount.length`"),
        ),
    ] {
        let found = flaws(text, ArgumentsOf::Schema(&schema));
        match expected {
            None => assert!(found.is_empty(), "{text}: {found:?}"),
            Some(expected) => assert!(
                found.len() == 1 && found[0].starts_with(expected),
                "{text}: {found:?}"
            ),
        }
    }
    // Each flaw is reported.
    assert_eq!(
        flaws("config.a || config.b || user.id", ArgumentsOf::Unread).len(),
        3
    );
    let before = flaws("args.amount > 1", ArgumentsOf::Nothing);
    assert!(
        before[0].contains("not known before there is a call"),
        "{before:?}"
    );
    assert!(flaws("args.whatever > 1", ArgumentsOf::Unread).is_empty());
    let condition = Condition::parse(
        "args.amount > 1 && args.rush && args.note == 'x' && args.filter.kind == 'y' && args.guests.length > 1",
    );
    assert_eq!(
        condition.unwrap().may_be_missing(&schema),
        ["args.filter.kind", "args.guests.length", "args.note"]
    );
}

#[test]
fn a_condition_is_its_text_in_files() {
    let availability: Availability =
        serde_json::from_value(json!({"condition": "mode === 'voice'"})).unwrap();
    assert_eq!(
        serde_json::to_value(&availability).unwrap(),
        json!({"condition": "mode === 'voice'"})
    );
    for wrong in [
        json!({}),
        json!({"condition": "mode ="}),
        json!({"condition": "true", "x": 1}),
    ] {
        assert!(serde_json::from_value::<Availability>(wrong).is_err());
    }
}

#[test]
fn the_hour_and_the_day_are_those_of_the_clock() {
    // Oslo: summer time begins on 28 March 2027, 01:00 UTC.
    let spring = 1_806_195_600_000;
    let oslo = LocalClock::new([(SATURDAY, 3_600), (spring, 7_200)]);
    for (clock, unix_ms, hour, weekday) in [
        (&LocalClock::default(), 0, 0, "thursday"),
        (&LocalClock::default(), SATURDAY, 17, "saturday"),
        (&oslo, SATURDAY - 1, 17, "saturday"),
        (&oslo, SATURDAY, 18, "saturday"),
        (&oslo, spring - 1, 1, "sunday"),
        (&oslo, spring, 3, "sunday"),
        (&LocalClock::new([(0, -18_000)]), 0, 19, "wednesday"),
        (
            &LocalClock::new([(0, 20_700)]),
            SATURDAY + 3_600_000 * 2,
            0,
            "sunday",
        ),
        (
            &oslo,
            u64::MAX,
            oslo.at(u64::MAX).hour,
            oslo.at(u64::MAX).weekday,
        ),
    ] {
        assert_eq!(clock.at(unix_ms), Moment { hour, weekday }, "{unix_ms}");
    }
}

#[test]
fn values_are_plain_and_bounded() {
    for (value, expected) in [
        (json!(true), Ok(())),
        (json!(1.5), Ok(())),
        (json!("x"), Ok(())),
        (json!(["a", "b"]), Ok(())),
        (json!([1, 2]), Ok(())),
        (json!([]), Ok(())),
        (json!(["a", 1]), Err(NotAValue::Kind)),
        (json!([[1]]), Err(NotAValue::Kind)),
        (json!({}), Err(NotAValue::Kind)),
        (json!(null), Err(NotAValue::Kind)),
        (json!("x".repeat(1_001)), Err(NotAValue::TooLong)),
        (json!(["x".repeat(1_001)]), Err(NotAValue::TooLong)),
        (json!(vec![1; 1_001]), Err(NotAValue::TooMany)),
    ] {
        assert_eq!(Values::check(&value), expected, "{value}");
    }
    for (name, good) in [
        ("beta", true),
        ("_B2", true),
        ("2b", false),
        ("a-b", false),
        ("", false),
        ("é", false),
    ] {
        assert_eq!(is_value_name(name), good, "{name}");
    }
    assert!(!is_value_name(&"n".repeat(65)));
}

/// Pieces of conditions in a seeded order: most are no condition, and none may panic when it is read, checked or judged.
#[test]
fn no_text_makes_a_condition_panic() {
    const PIECES: [&str; 40] = [
        "user",
        ".",
        "isAuthenticated",
        "id",
        "tenant",
        "roles",
        "mode",
        "time",
        "hour",
        "weekday",
        "config",
        "beta",
        "limit",
        "args",
        "amount",
        "guests",
        "length",
        "context",
        "&&",
        "||",
        "!",
        "==",
        "===",
        "!=",
        "<",
        "<=",
        ">",
        "in",
        "(",
        ")",
        "[",
        "]",
        ",",
        "'text'",
        "\"é\"",
        "'",
        "\\",
        "9007199254740993",
        "-",
        "1e400",
    ];
    let schema = parameters();
    let values = values();
    let arguments = json!({"amount": 5, "guests": ["x"], "any": {"length": 1}});
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let mut read = 0;
    for _ in 0..40_000 {
        let mut text = String::new();
        for _ in 0..=next(12) {
            text.push_str(PIECES[next(PIECES.len())]);
            if next(3) == 0 {
                text.push(' ');
            }
        }
        if next(20) == 0 {
            text.push(char::from_u32(u32::try_from(next(0x3000)).unwrap()).unwrap_or('x'));
        }
        if Condition::parse(&text).is_ok() {
            read += 1;
            flaws_of(&text, &values, &schema);
            let _either = judged(&text, arguments.clone());
        }
    }
    assert!(read > 300, "{read} texts were conditions");
}

fn flaws_of(text: &str, values: &Values, schema: &Value) {
    let condition = Condition::parse(text).unwrap();
    for arguments in [
        ArgumentsOf::Nothing,
        ArgumentsOf::Unread,
        ArgumentsOf::Schema(schema),
    ] {
        for flaw in condition.flaws(&Scope { values, arguments }) {
            assert!(flaw.column <= text.chars().count() + 1, "{text}: {flaw}");
        }
    }
}

#[test]
fn what_a_condition_always_comes_to_is_known_where_it_is_plain() {
    let schema = json!({
        "type": "object",
        "properties": {
            "amount": {"type": "number", "minimum": 1, "maximum": 50},
            "count": {"type": "integer"},
            "plan": {"enum": ["basic", "premium"]},
            "guests": {"type": "array", "items": {"type": "string"}},
            "rush": {"type": "boolean"},
            "note": {"type": "string"},
        },
    });
    let constant = |text: &str, modes: &[Mode]| {
        let condition = Condition::parse(text).unwrap_or_else(|flaw| panic!("{text}: {flaw}"));
        condition.constant(ArgumentsOf::Schema(&schema), modes)
    };
    let both = [Mode::Text, Mode::Voice];
    let (holds, never) = (Some(Constant::Holds), Some(Constant::Never));
    for (text, expected) in [
        ("true", holds),
        ("1 > 2", never),
        ("'a' in ('a', 'b') && 2 in (1, 2.0)", holds),
        ("mode in ('text', 'voice')", holds),
        ("mode != 'text' || mode != 'voice'", holds),
        ("mode == 'text' && mode == 'voice'", never),
        ("mode in ()", never),
        ("user.id != 'a' || user.id != 'b'", holds),
        ("user.id == 'a' && tenant == 'b' && 'a' != user.id", never),
        ("time.hour >= 0 && 24 > time.hour", holds),
        ("time.hour == 25", never),
        ("time.hour > 9 && time.hour < 10", never),
        ("time.hour > 9 && time.hour < 11", None),
        (
            "time.weekday in ('monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday')",
            holds,
        ),
        ("user.isAuthenticated || !user.isAuthenticated", holds),
        (
            "user.isAuthenticated == true && !user.isAuthenticated",
            never,
        ),
        ("!user.isAuthenticated && 'staff' in roles", never),
        ("user.isAuthenticated && 'staff' in roles", None),
        ("'staff' in roles || !('staff' in roles)", holds),
        ("'staff' in roles && 'nurse' in roles", None),
        ("args.amount > 10 && args.amount < 5", never),
        ("args.amount > 10 || args.amount <= 10", holds),
        ("args.amount > 10 && args.amount < 11", None),
        ("args.amount >= 1", holds),
        ("args.amount > 50", never),
        ("args.count > 10 && args.count < 11", never),
        ("args.count == 1.5", None),
        ("args.guests.length >= 0", holds),
        ("args.guests.length > 0", None),
        ("'ada' in args.guests && !('ada' in args.guests)", never),
        ("args.plan == 'basic' || args.plan == 'premium'", holds),
        ("args.rush", None),
        ("args.rush == false || args.rush", holds),
        ("args.note == user.id && args.note != user.id", None),
        ("config.limit > 5 && config.limit < 5", never),
        ("config.beta", None),
    ] {
        assert_eq!(constant(text, &both), expected, "{text}");
    }
    assert_eq!(constant("mode == 'text'", &[Mode::Text]), holds);
    assert_eq!(constant("mode == 'text'", &[Mode::Voice]), never);
    // A condition with too many cases gets no answer.
    let many: Vec<String> = (0..20)
        .map(|number| format!("config.v{number} == {number}"))
        .collect();
    assert_eq!(constant(&many.join(" && "), &both), None);
}

#[test]
fn a_condition_says_which_arguments_it_reads() {
    for (text, pointers, expected) in [
        ("args.pin == '1' || mode == 'text'", &["/pin"][..], true),
        ("args.amount > 1", &["/pin"], false),
        ("args.card.number == 1", &["/card"], true),
        ("args.card.number == 1", &["/card/name"], false),
        ("args.guests.length > 1", &["/guests/*/name"], true),
        ("args['a/b'] == 1", &["/a~1b"], true),
        ("args.any", &["/*"], true),
        ("args.any", &[""], true),
        ("args.any", &[], false),
        ("mode == 'text'", &[""], false),
    ] {
        let condition = Condition::parse(text).unwrap();
        let pointers: Vec<String> = pointers.iter().map(|&pointer| pointer.to_owned()).collect();
        assert_eq!(
            condition.reads_argument(&pointers),
            expected,
            "{text} {pointers:?}"
        );
    }
}
