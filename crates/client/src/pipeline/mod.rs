//! Several requests of HTTP/1 at a time on a connection (RFC 9112 section 9.3.2).

mod line;

#[cfg(test)]
mod tests;
