//! A progress bar with rate and time left, on a terminal; prints nothing where standard error is no terminal, or with -q.

use crate::printer::Printer;
use std::time::{Duration, Instant};
use windlass_knowledge::Progress;

const WIDTH: usize = 30;
/// Often enough to look alive.
const BETWEEN: Duration = Duration::from_millis(100);

pub(super) struct Bar {
    is_shown: bool,
    drawn: Option<Instant>,
    /// The noun for the counted items.
    noun: &'static str,
}

impl Bar {
    pub(super) fn of(noun: &'static str) -> Self {
        Self {
            noun,
            is_shown: Printer.shows_progress(),
            drawn: None,
        }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let is_last = progress.done == progress.total;
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= BETWEEN);
        if self.is_shown && (is_due || is_last) {
            self.drawn = Some(Instant::now());
            Printer.progress(&line(progress, self.noun));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            Printer.progress_over();
        }
    }
}

fn line(progress: Progress, noun: &str) -> String {
    let Progress {
        done,
        total,
        per_second,
        left_ms,
    } = progress;
    let full = WIDTH * done / total.max(1);
    let left = left_ms.map_or_else(String::new, |left_ms| {
        format!(", {} left", duration(left_ms.div_ceil(1_000)))
    });
    format!(
        "[{}{}] {done} of {total} {noun}, {per_second:.0} a second{left}",
        "#".repeat(full),
        ".".repeat(WIDTH - full)
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_how_far_how_fast_and_how_long() {
        for (done, total, per_second, left_ms, text) in [
            (
                0,
                10,
                0.0,
                None,
                "[..............................] 0 of 10 passages, 0 a second",
            ),
            (
                5,
                10,
                2.5,
                Some(1_200),
                "[###############...............] 5 of 10 passages, 2 a second, 2 s left",
            ),
            (
                1_000,
                30_000,
                30.0,
                Some(966_000),
                "[#.............................] 1000 of 30000 passages, 30 a second, 16 min 06 s left",
            ),
            (
                1,
                2,
                0.001,
                Some(7_260_000),
                "[###############...............] 1 of 2 passages, 0 a second, 2 h 01 min left",
            ),
        ] {
            let progress = Progress {
                done,
                total,
                per_second,
                left_ms,
            };
            assert_eq!(line(progress, "passages"), text);
        }
    }
}
