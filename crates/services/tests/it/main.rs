//! The services against HTTP servers on loopback that answer as each documents it, faults included.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod calendars;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod images;
#[cfg(test)]
mod search;
