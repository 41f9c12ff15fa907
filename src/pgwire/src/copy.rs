//! COPY's binary format, whose rows are written as DataRows are. The others are [`pgrepr::copy`].

pub(crate) mod binary;
