//! What a run sends, if it is more than one request: sets with weights, sequences with values that are carried on, templates, and
//! where they come from.
//!
//! [`Script`] is the data, part of a plan. It is read from a file of its own ([`read_file`]), from a list of URLs
//! ([`read_urls`]), from what a browser recorded ([`read_har`]) or from a description of a service ([`read_openapi`]). Before the run it is compiled once; each loop has a feed that draws from it, and each
//! connection its users. No file here opens a socket.
//!
//! | in a template | means |
//! | --- | --- |
//! | `{{n}}`, `{{n 1000}}` | the number of the request, from 1, or from another number; no two requests of a run have the same |
//! | `{{int 1 100}}` | a random integer, both ends included |
//! | `{{hex 16}}`, `{{text 12}}` | so many random hexadecimal digits, or letters and digits |
//! | `{{uuid}}` | a random UUID |
//! | `{{time}}`, `{{time ms}}`, `{{time us}}`, `{{time iso}}` | the time, in seconds since 1970, in smaller units, or as RFC 3339 |
//! | `{{pick red green "light blue"}}` | one of these |
//! | `{{users.name}}` | the column `name` of this sequence's row of the table `users` |
//! | `{{token}}` | a variable of the sequence |
//! | `{{users.name \| json}}`, `{{token \| url}}` | the same, written for a JSON string, or percent-encoded |
//! | `{{{{` | two braces |

mod check;
mod compile;
mod error;
mod events;
mod feed;
mod fields;
mod file;
mod form;
mod har;
mod jar;
mod limits;
mod openapi;
mod set;
mod table;
mod target;
mod template;
mod urls;
mod users;
mod value;

pub(crate) use check::{Checks, Look, Verdict, by_numbers};
pub(crate) use compile::{Common, Compiled};
pub(crate) use events::EventScanner;
pub(crate) use feed::{Feed, StreamHead, Stride};
pub(crate) use users::{Sent, Users};

pub use error::ScriptError;
pub use file::{ScriptFile, ScriptFileError, Syntax, read_file};
pub use har::{Har, HarError, HarLimits, HarOptions, LeftOut, read_har};
pub use jar::CookieFigures;
pub use limits::ScriptLimits;
pub use openapi::{
    Lack, LackReason, LeftOutOperation, Omission, OpenApi, OpenApiError, OpenApiLimits, OpenApiOptions,
    read_openapi,
};
pub use set::{Keep, Origin, Script, Sequence, Step, Text, Variable};
pub use table::{Order, Table, TableFault};
pub use target::{TargetError, split_url};
pub use template::{TemplateError, TemplateFault};
pub use urls::{UrlList, UrlsError, read_urls};
