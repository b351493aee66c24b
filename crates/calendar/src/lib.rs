//! Calendars in iCalendar files (RFC 5545), and the times that are free. A file's text becomes events (`read`), events become
//! occurrences within a range (`rule`, `expand`), occurrences become busy times and free slots (`slots`), and a change
//! becomes the file's next text (`edit`). `folder` alone touches the disk. Knows no tool, no session and no clock.

mod edit;
mod event;
mod expand;
mod folder;
mod lines;
mod read;
mod rule;
mod slots;
mod zone;

pub use edit::{Change, EditError, Kind, NewEvent, Scope, TITLE_CHARACTERS_SHOWN, is_titled};
pub use event::{Attendee, Clock, Event, Moment, Status};
pub use expand::{ExpandError, Occurrence, expand};
pub use folder::{Folder, FolderError, Found, NameProblem, PRIMARY};
pub use read::{Calendar, Problem, read};
pub use slots::{Span, WorkingHours, busy, free};
pub use zone::zone;

/// Bytes of one file.
pub const FILE_BYTES_MAX: usize = 8 << 20;
/// Events of one file, instances that differ from their series among them.
pub const EVENTS_MAX: usize = 50_000;
/// Bytes of one line after unfolding.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Lines of one file that are read, with every `BEGIN`.
pub const FILE_LINES_MAX: usize = 600_000;
/// Lines of one component.
pub const LINES_MAX: usize = 4_096;
/// Dates that an event names one by one, by `RDATE` and `EXDATE`.
pub const DATES_MAX: usize = 4_096;
/// Problems that are remembered of one file; the others are left out.
pub const PROBLEMS_MAX: usize = 100;
/// Days, or times of day, that one rule may look at in one query. A rule beyond it counts as busy for the whole range.
pub const RULE_STEPS_MAX: u32 = 200_000;
/// The most steps of all rules of a query together.
pub const STEPS_MAX: u64 = 40_000_000;
/// Occurrences that one query finds.
pub const OCCURRENCES_MAX: usize = 400_000;
