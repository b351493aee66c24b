//! Tool directories on a real disk, through the crate's public entry points.

#[cfg(test)]
mod activation;
#[cfg(test)]
mod artifact;
#[cfg(test)]
mod bad_directories;
#[cfg(test)]
mod conditions;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod handler_files;
mod lints;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod nearest;
#[cfg(test)]
mod published;
#[cfg(test)]
mod remember;
#[cfg(test)]
mod versions;
#[cfg(test)]
mod vocabularies;
