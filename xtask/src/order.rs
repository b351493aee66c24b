//! Which functions a start and a conversation run: finds them out with valgrind, and writes them down for the linker, which puts
//! them side by side. Knows no linker.
//!
//! The system maps a program in pieces of 64 KiB, so four thousand small functions that lie between others hold most of it in
//! memory. What is written down are beginnings of names, without the hashes that each compiler and each version of a library
//! gives them, so that it stays right for the most part while the program changes.

use crate::report::{Problem, Report};
use crate::workspace::{Workspace, output_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const FILE: &str = "crates/app/function-order.txt";
/// Has build.rs leave the functions where they lie.
const UNORDERED: &str = "WINDLASS_UNORDERED";
const HEADER: &str = "\
# The functions that a start and a conversation run, as the beginnings of their names. The linker puts them side by side, so that
# fewer pages of the program are in memory. Written by `cargo xtask order`; build.rs reads it.
";
/// How long the started server rests, so that what it does now and then is seen too. Valgrind makes it fifty times slower.
const REST: Duration = Duration::from_secs(5);
/// Of a module or a type of which so much runs, all is taken: fewer names, and the next version of it fits too.
const WHOLE_FROM_PERCENT: u64 = 40;
/// A generic function of which less than this runs is left out: what its name would bring along takes more memory than where it
/// lies.
const WORTH_FROM_PERCENT: u64 = 1;
/// Silence of the server after which the conversation has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Half a second of silence for the server's ear.
const AUDIO_FRAMES: usize = 25;
/// Kinds of WebSocket messages.
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const READY: &str = "windlass is ready at http://";

pub(crate) fn renew(workspace: &Workspace, report: &mut Report) {
    let mut build = workspace.cargo(&["rustc", "--release", "--package=windlass-app"]);
    build.args(["--bin=windlass", "--", "-C", "strip=none"]);
    // Valgrind knows no names outside the usual section.
    build.env(UNORDERED, "1");
    if !report.run("program with names", build) {
        return;
    }
    let program = workspace.target().join("release/windlass");
    report.check("functions of a start and a conversation", || {
        match order(workspace, &program) {
            Ok(text) => fs::write(workspace.path(FILE), text)
                .err()
                .map(|error| Problem::of_file(FILE, format!("cannot be written: {error}")))
                .into_iter()
                .collect(),
            Err(problem) => vec![problem],
        }
    });
}

/// The text of the file.
fn order(workspace: &Workspace, program: &Path) -> Result<String, Problem> {
    let mut names = workspace.command("nm", "");
    names.arg("--print-size").arg(program);
    let listing = output_of(names, "nm")?;
    let folder = std::env::temp_dir().join(format!("windlass-order-{}", std::process::id()));
    let profile = fs::create_dir(&folder)
        .and_then(|()| profile_of_start(workspace, program, &folder))
        .map_err(|error| Problem::general(format!("the start cannot be watched: {error}")));
    // A folder that stays costs nothing but its place.
    drop(fs::remove_dir_all(&folder));
    let profile = profile?;
    let run = functions_run(&profile, &program.display().to_string());
    if run.is_empty() {
        return Err(Problem::general("valgrind saw no function of the program"));
    }
    let names = beginnings(&functions(&listing), &run);
    Ok(format!("{HEADER}{}\n", names.join("\n")))
}

/// What callgrind writes of a server that starts with the tools of this workspace, has a conversation, and rests.
fn profile_of_start(
    workspace: &Workspace,
    program: &Path,
    folder: &Path,
) -> std::io::Result<String> {
    let profile = folder.join("profile");
    let mut start = workspace.command("valgrind", "");
    start.args(["--quiet", "--tool=callgrind", "--demangle=no"]);
    start.arg(format!("--callgrind-out-file={}", profile.display()));
    start.arg(program);
    start.args(["serve", "--listen=127.0.0.1:0", "--data"]);
    start.arg(folder.join("data"));
    for key in ["GEMINI_API_KEY", "OPENAI_API_KEY"] {
        start.env_remove(key);
    }
    let mut server = start.stdout(Stdio::piped()).spawn()?;
    let used = converse(&mut server);
    thread::sleep(REST);
    // The process is valgrind itself, in which the server runs.
    let mut stop = Command::new("kill");
    stop.arg(server.id().to_string()).status()?;
    server.wait()?;
    used?;
    fs::read_to_string(profile)
}

fn converse(server: &mut Child) -> std::io::Result<()> {
    let no_output = || std::io::Error::other("the server ended before it was ready");
    let output = server.stdout.take().ok_or_else(no_output)?;
    let lines = BufReader::new(output).lines();
    let mut ready = lines.map_while(Result::ok);
    let address = ready
        .find_map(|line| line.strip_prefix(READY).map(str::to_owned))
        .ok_or_else(no_output)?;
    for path in ["/", "/ready"] {
        let mut connection = TcpStream::connect(&address)?;
        write!(
            connection,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )?;
        connection.read_to_end(&mut Vec::new())?;
    }
    talk(&address)
}

/// A voice session in which the demo model calls a tool and speaks, as the page would have it.
fn talk(address: &str) -> std::io::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    write!(
        connection,
        "GET /voice HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: d2hvIGRlc2lnbmVkIGl0Pw==\r\n\r\n"
    )?;
    let mut heard = Vec::new();
    send(&mut connection, TEXT, br#"{"type":"start"}"#)?;
    listen(&mut connection, &mut heard, "\"started\"")?;
    for _ in 0..AUDIO_FRAMES {
        send(&mut connection, BINARY, &[0; 640])?;
    }
    let question = br#"{"type":"text","text":"Who designed the ship Fram?"}"#;
    send(&mut connection, TEXT, question)?;
    listen(&mut connection, &mut heard, "\"turn_complete\"")?;
    send(&mut connection, TEXT, br#"{"type":"stop"}"#)?;
    listen(&mut connection, &mut heard, "\"stopped\"")
}

/// Sends a whole message in one frame, whose mask of zeros changes nothing (RFC 6455, section 5.2).
fn send(connection: &mut TcpStream, kind: u8, payload: &[u8]) -> std::io::Result<()> {
    let length = u16::try_from(payload.len()).map_err(std::io::Error::other)?;
    let mut frame = vec![0x80 | kind];
    match u8::try_from(length) {
        Ok(length @ ..126) => frame.push(0x80 | length),
        _ => {
            frame.push(0xFE);
            frame.extend(length.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    connection.write_all(&frame)
}

/// Reads until the server has said this.
fn listen(connection: &mut TcpStream, heard: &mut Vec<u8>, wanted: &str) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let is_said = |heard: &[u8]| {
            heard
                .windows(wanted.len())
                .any(|text| text == wanted.as_bytes())
        };
        if is_said(heard) {
            return Ok(());
        }
        match connection.read(&mut buffer)? {
            0 => {
                return Err(std::io::Error::other(format!(
                    "the server never said {wanted}"
                )));
            }
            length => heard.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
    }
}

/// The functions of a program and their sizes in bytes, from what `nm --print-size` prints: address, size, kind and name.
fn functions(listing: &str) -> BTreeMap<&str, u64> {
    let mut functions = BTreeMap::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, size, "t" | "T" | "w" | "W", name] = words.as_slice() else {
            continue;
        };
        if let Ok(size) = u64::from_str_radix(size, 16) {
            *functions.entry(*name).or_default() += size;
        }
    }
    functions
}

/// The functions of a program that ran, from callgrind's profile. Names of objects and functions are written out where they
/// first occur, and are numbers from then on (<https://valgrind.org/docs/manual/cl-format.html>).
fn functions_run<'a>(profile: &'a str, program: &str) -> BTreeSet<&'a str> {
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut run = BTreeSet::new();
    let mut is_of_program = false;
    for line in profile.lines() {
        let Some((key, value)) = line.split_once("=(") else {
            continue;
        };
        let Some((number, name)) = value.split_once(')') else {
            continue;
        };
        let known = match key {
            "ob" | "cob" => &mut objects,
            "fn" | "cfn" => &mut names,
            _ => continue,
        };
        if !name.is_empty() {
            known.insert(number, name.trim_start());
        }
        match key {
            "ob" => is_of_program = objects.get(number) == Some(&program),
            "fn" if is_of_program => run.extend(names.get(number)),
            _ => {}
        }
    }
    run
}

/// What is below one part of a name, in bytes.
#[derive(Default)]
struct Node<'a> {
    size: u64,
    run: u64,
    below: BTreeMap<&'a str, Node<'a>>,
}

/// Beginnings of names that cover what ran, and little else; in order.
fn beginnings(functions: &BTreeMap<&str, u64>, run: &BTreeSet<&str>) -> Vec<String> {
    let mut root = Node::default();
    for (name, size) in functions {
        let ran = if run.contains(name) { *size } else { 0 };
        let mut node = &mut root;
        for part in parts(name) {
            node = node.below.entry(part).or_default();
            node.size += size;
            node.run += ran;
        }
    }
    let mut found = Vec::new();
    root.collect("", &mut found);
    found.sort();
    found.dedup();
    found
}

impl Node<'_> {
    fn collect(&self, path: &str, found: &mut Vec<String>) {
        for (part, node) in &self.below {
            let path = format!("{path}{part}");
            let covers = |percent| node.run * 100 >= node.size * percent;
            match node.below.is_empty() {
                _ if node.run == 0 => {}
                true if covers(WORTH_FROM_PERCENT) => found.push(without_hashes(&path)),
                true => {}
                false if covers(WHOLE_FROM_PERCENT) => found.push(format!("{path}*")),
                false => node.collect(&path, found),
            }
        }
    }
}

/// The parts of a mangled name of Rust: `_ZN`, and each length with as many letters as it says. The hash is the last of them.
/// Any other name is one part, as the parts of the newer form of mangling do not begin with the outermost.
fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = match name.strip_prefix("_ZN") {
        Some(rest) => rest,
        None => return vec![name],
    };
    parts.push("_ZN");
    loop {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit());
        let (length, _) = rest.split_at(digits.unwrap_or(rest.len()));
        let end = length
            .parse::<usize>()
            .ok()
            .map(|letters| length.len() + letters);
        match end.and_then(|end| rest.split_at_checked(end)) {
            Some((part, _)) if is_hash(part) => {
                parts.push("17h*");
                return parts;
            }
            Some((part, after)) => {
                parts.push(part);
                rest = after;
            }
            None => return parts,
        }
    }
}

fn is_hash(part: &str) -> bool {
    let digits = part.strip_prefix("17h");
    digits.is_some_and(|digits| {
        digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// A name of the newer mangling has a hash for each crate, `Cs`, letters and digits, `_`. What the compiler adds to a name after
/// a dot differs from one build to the next.
fn without_hashes(name: &str) -> String {
    if !name.starts_with("_R") {
        return match name.split_once(".llvm.") {
            Some((name, _)) => format!("{name}*"),
            None => name.to_owned(),
        };
    }
    let mut pieces = name.split("Cs");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let hash_end = piece.find('_').filter(|&end| {
            end > 0
                && piece.as_bytes()[..end]
                    .iter()
                    .all(u8::is_ascii_alphanumeric)
        });
        match hash_end {
            Some(end) => text.extend(["Cs*", &piece[end..]]),
            None => text.extend(["Cs", piece]),
        }
    }
    match text.split_once(".llvm.") {
        Some((name, _)) => format!("{name}*"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_names_are_such_as_a_linker_script_can_hold() {
        let text = Workspace::of_this_program().read(FILE).unwrap();
        let names: Vec<&str> = text.strip_prefix(HEADER).unwrap().lines().collect();
        assert!(names.len() > 1_000, "{} names", names.len());
        assert!(names.is_sorted(), "the names are in order");
        for name in names {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$*".contains(&byte);
            assert!(!name.is_empty() && name.bytes().all(is_plain), "{name}");
        }
    }

    #[test]
    fn a_profile_says_which_functions_of_the_program_ran() {
        let profile = "ob=(1) /lib/libc.so\nfn=(1) read\n12 3\ncfn=(2) _ZN3app5start17h0123456789abcdefE\ncob=(2) /bin/app\n\
                       ob=(2)\nfn=(2)\n0x1 4\ncfn=(3) never_shown\ncfn=(4) later\nfn=(4)\n";
        let run = functions_run(profile, "/bin/app");
        assert_eq!(
            run.into_iter().collect::<Vec<_>>(),
            ["_ZN3app5start17h0123456789abcdefE", "later"]
        );
    }

    #[test]
    fn names_are_the_beginnings_that_fit_the_next_build_too() {
        let listing = "\
0000000000001000 0000000000000064 t _ZN3app5start3one17h0123456789abcdefE
0000000000001064 0000000000000064 t _ZN3app5start3two17h1123456789abcdefE
0000000000001100 0000000000000320 t _ZN3app4rare1a17h2123456789abcdefE
0000000000001200 0000000000000064 T _ZN3app4rare1b17h3123456789abcdefE.llvm.77
0000000000001300 0000000000000010 t _RNvMs3_NtCslNYArtu3iFV_5alloc7raw_vec4grow
0000000000001400 0000000000000010 t sqlite3_open
0000000000001500 0000000000000010 b _ZN3app5start5table17h4123456789abcdefE
                 U memcpy
0000000000001600 0000000000008000 t _ZN4core3fmt17h5123456789abcdefE
0000000000009600 0000000000000010 t _ZN4core3fmt17h6123456789abcdefE
";
        let functions = functions(listing);
        let run = BTreeSet::from([
            "_ZN3app5start3two17h1123456789abcdefE",
            "_ZN3app4rare1b17h3123456789abcdefE.llvm.77",
            "_RNvMs3_NtCslNYArtu3iFV_5alloc7raw_vec4grow",
            "sqlite3_open",
            "_ZN4core3fmt17h6123456789abcdefE",
        ]);
        assert_eq!(
            beginnings(&functions, &run),
            [
                "_RNvMs3_NtCs*_5alloc7raw_vec4grow",
                "_ZN3app4rare1b*",
                "_ZN3app5start*",
                "sqlite3_open",
            ]
        );
    }
}
