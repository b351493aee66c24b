//! The rules that both stores keep, and those of the file that only one of them has.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod file;
#[cfg(test)]
mod support;
