//! Scripts to come.
