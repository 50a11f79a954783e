//! Files: a cache in a folder, whole files, and a writer in the background.

pub(crate) mod cache;
pub(crate) mod whole_file;
pub(crate) mod writer;
