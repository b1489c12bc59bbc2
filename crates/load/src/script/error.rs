//! Why what a run is to send cannot be sent: all of it is the caller's fault, and is said before anything is.

use anywire_advice::Advice;
use anywire_http::InvalidHeader;
use anywire_http::h1::encode::EncodeError;

use super::table::TableFault;
use super::template::TemplateError;

/// A set of requests that cannot be sent (the caller's fault).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// There is no request, or none is ever drawn.
    #[error("there is no request to send{help}", help = Advice("name one at least, with a weight above 0"))]
    Nothing,
    /// A template cannot be filled in.
    #[error("the template in the {part} of {request:?}")]
    Template {
        /// The name of the request, or of the sequence.
        request: String,
        /// `target`, `body`, `header NAME` or `variable NAME`.
        part: String,
        /// Where and why.
        #[source]
        source: Box<TemplateError>,
    },
    /// A table of data cannot be used.
    #[error("the data {name:?}")]
    Table {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: TableFault,
    },
    /// A table or variable has a name that templates could not use, or that is another's.
    #[error(
        "{name:?} cannot be the name of a table or a variable{help}",
        help = Advice("take letters, digits, - and _, beginning with a letter, and no name of a value such as n or uuid, or of another table")
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A value of an answer cannot be kept.
    #[error("the value {variable:?} kept of the answer to {request:?}: {found}")]
    Keep {
        /// The name of the request.
        request: String,
        /// The variable.
        variable: String,
        /// What is wrong.
        found: String,
    },
    /// The head of a request cannot be written.
    #[error("the request {request:?} cannot be written")]
    Encode {
        /// The name of the request.
        request: String,
        /// What is wrong with it.
        #[source]
        source: EncodeError,
    },
    /// A header field of a request is none.
    #[error("the header {name:?} of {request:?}")]
    Header {
        /// The name of the request.
        request: String,
        /// The name of the field.
        name: String,
        /// What is wrong with it.
        #[source]
        source: InvalidHeader,
    },
    /// A method that makes something else than requests and answers of the connection.
    #[error(
        "the request {request:?} has the method {method}, whose answer ends HTTP on the connection{help}",
        help = Advice("use GET")
    )]
    Method {
        /// The name of the request.
        request: String,
        /// The method.
        method: String,
    },
    /// It is more than the limit allows.
    #[error("there are {found} {what}, at most {most} are allowed{help}", help = Advice("load with a part of them"))]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much of it.
        found: u64,
        /// How much is allowed.
        most: u64,
    },
}
