//! Busy times and free slots of calendars, for comparison with another library. Reads files one after another from standard input,
//! each as a line `FROM TO ZONE MINUTES BYTES` and so many bytes, and answers each with a line of seconds since 1970:
//! `START-END` of each busy time, a bar, and the same of each free slot.

use jiff::{SignedDuration, Timestamp};
use std::io::{BufRead, Read, Write};
use windlass_calendar::{Span, WorkingHours, busy, expand, free, read, zone};

fn main() -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut head = String::new();
    while input.read_line(&mut head)? > 0 {
        let mut parts = head.split_whitespace();
        let mut next = || parts.next().unwrap_or_default();
        let (from, to, name, minutes, bytes) = (next(), next(), next(), next(), next());
        let mut text = vec![0; bytes.parse().expect("the line ends with the length")];
        input.read_exact(&mut text)?;
        let time = |text: &str| text.parse::<Timestamp>().expect("times are RFC 3339");
        let range = Span {
            start: time(from),
            end: time(to),
        };
        let zone = zone(name).expect("the zone is one of the IANA");
        let calendar = read(&String::from_utf8_lossy(&text), &zone);
        let (found, _) = expand(&calendar, &zone, range.start, range.end).expect("it is small");
        let taken = found.iter().filter(|found| found.event.is_busy());
        let busy = busy(taken.map(|found| found.span()), range, SignedDuration::ZERO);
        let shortest = SignedDuration::from_mins(minutes.parse().expect("minutes are a number"));
        let free = free(range, &busy, &WorkingHours::default(), &zone, shortest);
        let shown = |spans: &[Span]| {
            let spans = spans.iter();
            let spans =
                spans.map(|span| format!("{}-{}", span.start.as_second(), span.end.as_second()));
            spans.collect::<Vec<_>>().join(" ")
        };
        writeln!(output, "{} | {}", shown(&busy), shown(&free))?;
        output.flush()?;
        head.clear();
    }
    Ok(())
}
