//! `windlass tools compare`: the versions of a tool side by side, as a server has counted them. Knows how the figures are shown, and
//! nothing of how they are made.

use super::healthcheck::reached_at;
use super::{CompareArguments, load_config};
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use windlass_contract::template::escaped;
use windlass_contract::version::Version;

/// A server that does not answer in this time is not well.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than the figures of any server.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longer than any key.
const KEY_BYTES_MAX: u64 = 4_096;
const PATH: &str = "/api/tools/stats?by=version";

/// An answer of the server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    tools: BTreeMap<String, Value>,
    calls_min: u64,
}

#[derive(Deserialize)]
struct Tool {
    versions: BTreeMap<String, Counts>,
    #[serde(default)]
    differences: Vec<Differences>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    calls: u64,
    success_rate: Option<f64>,
    success_interval: Option<(f64, f64)>,
    refusal_rate: Option<f64>,
    refusal_interval: Option<(f64, f64)>,
    asked: u64,
    latency_ms: Spread,
    response_characters: Spread,
    response_tokens: Spread,
    users: u64,
    users_are_more: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spread {
    p50: Option<f64>,
    p50_interval: Option<(f64, f64)>,
    p95: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Differences {
    version: String,
    with: String,
    success_rate: Difference,
    refusal_rate: Difference,
    latency_ms: Difference,
    response_characters: Difference,
    response_tokens: Difference,
    few_users: bool,
}

#[derive(Deserialize)]
struct Difference {
    difference: Option<f64>,
    interval: Option<(f64, f64)>,
    verdict: String,
}

pub(super) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let text = match &arguments.from {
        Some(path) => read_answer(path)?,
        None => ask(arguments)?,
    };
    let unread = |error| {
        Failure::Failed(format!(
            "what was answered is no answer of GET {PATH}: {error}; ask a server of this version"
        ))
    };
    let mut answer: Answer = serde_json::from_str(&text).map_err(unread)?;
    let name = &arguments.name;
    let Some(tool) = answer.tools.remove(name) else {
        let known: Vec<String> = answer.tools.into_keys().collect();
        let known = match known.is_empty() {
            true => "no tool was called".to_owned(),
            false => format!("it has counted {}", known.join(", ")),
        };
        return Err(Failure::Failed(escaped(&format!(
            "the server has counted no call of {name} since its start; {known}"
        ))));
    };
    match Printer.format() {
        Format::Json => {
            let shown = json!({ "tool": name, "figures": tool, "callsMin": answer.calls_min });
            Printer.result(&shown.to_string());
        }
        Format::Text => {
            let tool: Tool = serde_json::from_value(tool).map_err(unread)?;
            for line in lines(name, &tool, answer.calls_min) {
                Printer.result(&escaped(&line));
            }
        }
    }
    Ok(())
}

fn read_answer(path: &Path) -> Result<String, Failure> {
    let read = match path.as_os_str() == "-" {
        true => read_text(io::stdin().lock(), ANSWER_BYTES_MAX),
        false => File::open(path).and_then(|file| read_text(file, ANSWER_BYTES_MAX)),
    };
    let shown = path.display();
    read.map_err(|error| Failure::Usage(format!("{shown} cannot be read: {error}")))
}

fn read_text(from: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    from.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

fn ask(arguments: &CompareArguments) -> Result<String, Failure> {
    let config = load_config(&arguments.file, arguments.place.keys())?;
    let address = reached_at(config.server.listen.get());
    let key = match &arguments.key_file {
        Some(path) => Some(read_key(path)?),
        None => None,
    };
    let (status, body) = get(address, key.as_deref()).map_err(|error| {
        Failure::Failed(format!(
            "the server at {address} does not answer: {error}; look whether it runs, and name its address with --listen"
        ))
    })?;
    match status {
        200 => Ok(body),
        401 | 403 => Err(Failure::Failed(format!(
            "the server at {address} tells its figures to API keys alone; name a file that holds one with --key-file"
        ))),
        status => Err(Failure::Failed(format!(
            "the server at {address} answers with status {status}"
        ))),
    }
}

/// The key in a file, which has to be a text that a header can hold.
fn read_key(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let read = File::open(path).and_then(|file| read_text(file, KEY_BYTES_MAX));
    let text = read.map_err(|error| Failure::Usage(format!("{shown} cannot be read: {error}")))?;
    let key = text.trim();
    match !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(key.to_owned()),
        false => Err(Failure::Usage(format!("{shown} holds no API key"))),
    }
}

/// The status and the body of the server's answer.
fn get(address: SocketAddr, key: Option<&str>) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let key = key.map_or_else(String::new, |key| {
        format!("authorization: Bearer {key}\r\n")
    });
    // An answer to this version of HTTP ends with its connection, and is in one piece.
    write!(
        stream,
        "GET {PATH} HTTP/1.0\r\nhost: {address}\r\naccept: application/json\r\n{key}\r\n"
    )?;
    let text = read_text(stream, ANSWER_BYTES_MAX)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("what answers there is no windlass"))?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("what answers there is no windlass"))?;
    Ok((status, body.to_owned()))
}

/// The table of the versions, and how each differs from the lowest.
fn lines(name: &str, tool: &Tool, calls_min: u64) -> Vec<String> {
    let mut versions: Vec<(&String, &Counts)> = tool.versions.iter().collect();
    versions.sort_by_key(|(version, _)| Version::parse(version));
    let cells = |show: &dyn Fn(&Counts) -> String| -> Vec<String> {
        versions.iter().map(|(_, counts)| show(counts)).collect()
    };
    let rate = |rate: Option<f64>, interval: Option<(f64, f64)>| {
        let shown = rate.map_or_else(|| "-".to_owned(), |rate| format!("{} %", percent(rate)));
        let interval = interval
            .map(|(least, greatest)| format!(" ({} to {})", percent(least), percent(greatest)));
        shown + &interval.unwrap_or_default()
    };
    let names = versions
        .iter()
        .map(|(version, _)| (*version).clone())
        .collect();
    let rows: Vec<(&str, Vec<String>)> = vec![
        (name, names),
        (
            "calls",
            cells(&|counts| {
                let more = if counts.users_are_more {
                    " and more"
                } else {
                    ""
                };
                let users = match counts.users {
                    1 => "1 user".to_owned(),
                    users => format!("{users}{more} users"),
                };
                format!("{} of {users}", counts.calls)
            }),
        ),
        (
            "worked",
            cells(&|counts| rate(counts.success_rate, counts.success_interval)),
        ),
        (
            "refused",
            cells(&|counts| rate(counts.refusal_rate, counts.refusal_interval)),
        ),
        ("asked the user", cells(&|counts| counts.asked.to_string())),
        (
            "latency in ms, median",
            cells(&|counts| median(&counts.latency_ms)),
        ),
        (
            "latency in ms, p95",
            cells(&|counts| whole(counts.latency_ms.p95)),
        ),
        (
            "characters, median",
            cells(&|counts| median(&counts.response_characters)),
        ),
        (
            "tokens, median",
            cells(&|counts| median(&counts.response_tokens)),
        ),
    ];
    let mut lines = table(&rows);
    if versions.len() < 2 {
        lines.push(format!(
            "The server has counted one version of {name} since its start."
        ));
        return lines;
    }
    for differences in &tool.differences {
        lines.push(String::new());
        lines.extend(difference_lines(differences));
    }
    lines.push(String::new());
    lines.push(format!(
        "Brackets hold the true value in 95 of 100 cases. Of fewer than {calls_min} calls nothing is said."
    ));
    lines
}

/// How a value is written.
type Shown<'a> = &'a dyn Fn(f64) -> String;

fn difference_lines(differences: &Differences) -> Vec<String> {
    let points = |value: f64| format!("{} points", percent(value));
    let plain = |value: f64| whole(Some(value));
    let named: [(&str, &Difference, Shown<'_>); 5] = [
        ("worked", &differences.success_rate, &points),
        ("refused", &differences.refusal_rate, &points),
        ("latency in ms", &differences.latency_ms, &plain),
        ("characters", &differences.response_characters, &plain),
        ("tokens", &differences.response_tokens, &plain),
    ];
    let (version, with) = (&differences.version, &differences.with);
    let mut lines = vec![format!("{version} beside {with}")];
    for (name, difference, show) in named {
        let value = difference.difference.map_or_else(
            || "not known".to_owned(),
            |value| format!("{}{}", sign(value), show(value.abs())),
        );
        let interval = difference.interval.map(|(least, greatest)| {
            let least = format!("{}{}", sign(least), percent(least.abs()));
            let greatest = format!("{}{}", sign(greatest), percent(greatest.abs()));
            format!(" ({least} to {greatest})")
        });
        let verdict = match difference.verdict.as_str() {
            "higher" => "more",
            "lower" => "less",
            _ => "says nothing yet",
        };
        let interval = interval.unwrap_or_default();
        lines.push(format!("  {name}: {value}{interval}: {verdict}"));
    }
    if differences.few_users {
        lines.push(
            "  Few users: calls of one user resemble each other, so that the intervals are too narrow."
                .to_owned(),
        );
    }
    lines
}

fn sign(value: f64) -> &'static str {
    match value {
        value if value > 0.0 => "+",
        value if value < 0.0 => "-",
        _ => "",
    }
}

/// A share in hundredths, with one more digit.
fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

fn median(spread: &Spread) -> String {
    let interval = spread.p50_interval;
    let interval = interval.map(|(least, greatest)| format!(" ({least:.0} to {greatest:.0})"));
    whole(spread.p50) + &interval.unwrap_or_default()
}

/// Columns as wide as their widest cell.
fn table(rows: &[(&str, Vec<String>)]) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let first = rows.iter().map(|(name, _)| length(name)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|(_, cells)| cells.get(column));
            cells.map(|cell| length(cell)).max().unwrap_or(0)
        })
        .collect();
    let padded = |row: &(&str, Vec<String>)| {
        let (name, cells) = row;
        let mut line = format!("{name:<first$}");
        for (cell, width) in cells.iter().zip(&widths) {
            line.push_str(&format!("  {cell:<width$}"));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn counts(calls: u64, users: u64) -> Value {
        let spread =
            json!({ "count": 100, "p50": 210, "p50Interval": [190.0, 240.0], "p95": 1200 });
        json!({
            "calls": calls, "successRate": 0.95, "successInterval": [0.8952, 0.9772], "refusalRate": 0.0,
            "refusalInterval": [0.0, 0.0311], "asked": 3, "latencyMs": spread, "responseCharacters": spread,
            "responseTokens": { "count": 0, "p50": null, "p50Interval": null, "p95": null },
            "users": users, "usersAreMore": users == 1_000,
        })
    }

    #[test]
    fn versions_stand_side_by_side_with_what_their_difference_says() {
        let unclear = json!({ "difference": null, "verdict": "nothing_yet" });
        let figures = json!({
            "versions": { "1.10.0": counts(12, 1), "1.2.0": counts(40_000, 1_000) },
            "differences": [{
                "version": "1.10.0", "with": "1.2.0",
                "successRate": { "difference": -0.123, "interval": [-0.2, -0.01], "verdict": "lower" },
                "refusalRate": { "difference": 0.0, "interval": [-0.1, 0.1], "verdict": "nothing_yet" },
                "latencyMs": { "difference": 30.0, "verdict": "higher" },
                "responseCharacters": unclear, "responseTokens": unclear, "fewUsers": true,
            }],
        });
        let tool: Tool = serde_json::from_value(figures).unwrap();
        expect![[r#"
            book_table             1.2.0                         1.10.0
            calls                  40000 of 1000 and more users  12 of 1 user
            worked                 95.0 % (89.5 to 97.7)         95.0 % (89.5 to 97.7)
            refused                0.0 % (0.0 to 3.1)            0.0 % (0.0 to 3.1)
            asked the user         3                             3
            latency in ms, median  210 (190 to 240)              210 (190 to 240)
            latency in ms, p95     1200                          1200
            characters, median     210 (190 to 240)              210 (190 to 240)
            tokens, median         -                             -

            1.10.0 beside 1.2.0
              worked: -12.3 points (-20.0 to -1.0): less
              refused: 0.0 points (-10.0 to +10.0): says nothing yet
              latency in ms: +30: more
              characters: not known: says nothing yet
              tokens: not known: says nothing yet
              Few users: calls of one user resemble each other, so that the intervals are too narrow.

            Brackets hold the true value in 95 of 100 cases. Of fewer than 20 calls nothing is said."#]]
        .assert_eq(&lines("book_table", &tool, 20).join("\n"));
    }
}
