//! What the ledger decides, the rules that both engines keep, and those of the file that only one of them has.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod decide;
#[cfg(test)]
mod file;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod migrations;
#[cfg(test)]
mod support;
#[cfg(test)]
mod table;
