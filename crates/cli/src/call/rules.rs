//! `--rules`: a file of traffic rules.

use std::path::Path;

use anywire::client::ClientBuilder;

use crate::failure::{Code, Failure};

/// The client, whose calls go by the rules of this file.
#[cfg(feature = "rules")]
pub(super) fn apply(path: &Path, client: ClientBuilder) -> Result<ClientBuilder, Failure> {
    use std::fs::File;

    use anywire::client::rules::{Limits, Rules};

    use crate::values::whole_text;

    let limit = Limits::default().file_bytes as u64;
    let text = File::open(path).and_then(|file| whole_text(file, limit)).map_err(|cause| {
        let message = format!("reading the rules of {}: {cause}", path.display());
        Failure::new(Code::Read, message).help("name a file of traffic rules, in TOML")
    })?;
    let rules = Rules::from_toml(&text).map_err(|error| {
        Failure::of(Code::Usage, &error).or_help("mend this line of the file, or this field")
    })?;
    Ok(client.rules(&rules))
}

#[cfg(not(feature = "rules"))]
pub(super) fn apply(_path: &Path, _client: ClientBuilder) -> Result<ClientBuilder, Failure> {
    let message = "reading traffic rules: this program was built without the feature 'rules'";
    Err(Failure::new(Code::Usage, message).help("build it with '--features full'"))
}
