//! Arguments beside the tree of values that they stand for.

use super::Arguments;
use crate::json;
use crate::json_reader::Reader;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

fn read(text: &str) -> Arguments {
    let mut reader = Reader::new(text);
    let arguments = reader.arguments().expect("the text is plainly good");
    reader.end().expect("nothing follows");
    arguments
}

fn copied(value: &Value) -> Arguments {
    Arguments::from(value.as_object().unwrap().clone())
}

#[test]
fn what_was_read_and_what_was_copied_are_the_same_arguments() {
    for text in [
        "{}",
        r#"{"b":[1,{"z":null,"y":[[],{}]},"x"],"a":true,"":"","é":"ß 😀","c":{"d":{"e":-1.5}}}"#,
        r#"{"m":1,"a":2,"z":3,"b":4,"y":5,"c":6}"#,
        r#"{"whole":3.0,"long":12345678901234567890}"#,
    ] {
        let value = json::parse(text.as_bytes()).unwrap();
        let (read, copied) = (read(text), copied(&value));
        assert_eq!(read, copied, "{text}");
        assert_eq!(read.to_value(), value, "{text}");
        // The form that is written is that of a map, whose names are sorted.
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(written, value.to_string());
        assert_eq!(serde_json::from_str::<Arguments>(&written).unwrap(), read);
        assert_eq!(
            format!("{read:?}"),
            format!("{:?}", value.as_object().unwrap())
        );
    }
}

#[test]
fn arguments_differ_where_their_values_differ() {
    let texts = [
        "{}",
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"a":"1"}"#,
        r#"{"a":1.5}"#,
        r#"{"a":[1]}"#,
        r#"{"a":[1,1]}"#,
        r#"{"a":{"b":1}}"#,
        r#"{"a":{"c":1}}"#,
        r#"{"a":null}"#,
        r#"{"a":1,"b":1}"#,
        r#"{"b":1}"#,
    ];
    for (index, one) in texts.iter().enumerate() {
        for (other_index, other) in texts.iter().enumerate() {
            assert_eq!(
                read(one) == read(other),
                index == other_index,
                "{one} {other}"
            );
        }
    }
}

#[test]
fn a_name_that_is_there_twice_or_one_of_very_many_is_left_to_the_general_parser() {
    let many: Map<String, Value> = (0..100).map(|n| (format!("{n}"), json!(n))).collect();
    let many = Value::Object(many);
    for text in [
        r#"{"a":1,"b":2,"a":3}"#.to_owned(),
        r#"{"b":1,"a":2,"a":3}"#.to_owned(),
        r#"{"c":1,"a":2,"b":{"y":1,"x":2,"y":3}}"#.to_owned(),
        many.to_string(),
    ] {
        assert_eq!(Reader::new(&text).arguments(), None, "{text}");
    }
    assert_eq!(copied(&many).to_value(), many);
}

#[test]
fn an_integer_takes_the_place_of_an_argument() {
    let mut arguments = read(r#"{"top_k":10,"query":"maud"}"#);
    arguments.replace_integer("top_k", 3);
    arguments.replace_integer("missing", 7);
    assert_eq!(arguments.to_value(), json!({"top_k": 3, "query": "maud"}));
    assert_eq!(arguments.get("top_k"), Some(json!(3)));
    assert_eq!(arguments.get("missing"), None);
}

#[derive(Debug, PartialEq, Deserialize)]
struct Search<'a> {
    query: &'a str,
    #[serde(borrow)]
    lang: Option<Cow<'a, str>>,
    limit: Option<u32>,
    order: Order,
    tags: Vec<String>,
    #[serde(default)]
    area: Area,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Newest,
    By { field: String },
    Weights(f64, f64),
    Named(String),
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Area(Vec<(i8, Option<bool>)>);

#[test]
fn a_type_reads_the_same_from_arguments_as_from_a_tree_of_values() {
    for text in [
        r#"{"query":"maud","lang":null,"order":"newest","tags":[]}"#,
        r#"{"query":"maud","lang":"no","limit":5,"order":{"by":{"field":"age"}},"tags":["a","b"],"more":{}}"#,
        r#"{"query":"m","order":{"weights":[1,0.5]},"tags":[],"area":[[-1,true],[2,null]]}"#,
        r#"{"query":"m","order":{"named":"x"},"tags":[]}"#,
        r#"{"query":1,"order":"newest","tags":[]}"#,
        r#"{"query":"m","order":"oldest","tags":[]}"#,
        r#"{"query":"m","order":{},"tags":[]}"#,
        r#"{"query":"m","order":"by","tags":[]}"#,
        r#"{"query":"m","order":[],"tags":[]}"#,
        r#"{"query":"m","order":{"newest":1},"tags":[]}"#,
        r#"{"query":"m","order":"newest","tags":{}}"#,
        r#"{"query":"m","order":"newest","tags":[],"limit":-1}"#,
        r#"{"query":"m","order":"newest","tags":[],"area":[[1]]}"#,
        r#"{"query":"m","order":"newest","tags":[],"area":[[1,true,2]]}"#,
        "{}",
    ] {
        let (arguments, value) = (read(text), json::parse(text.as_bytes()).unwrap());
        let (own, expected) = (arguments.read::<Search<'_>>(), Search::deserialize(&value));
        assert_eq!(
            own.is_ok(),
            expected.is_ok(),
            "{text}: {own:?} {expected:?}"
        );
        assert_eq!(own.ok(), expected.ok(), "{text}");
    }
}
