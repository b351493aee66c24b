//! The knowledge base through its public entry points: opening folders, searching, looking up.

#[cfg(test)]
#[cfg(feature = "documents")]
mod documents;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod hybrid;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod languages;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod options;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod real_base;
#[cfg(test)]
mod relevance;
#[cfg(test)]
mod search;
#[cfg(test)]
mod support;
