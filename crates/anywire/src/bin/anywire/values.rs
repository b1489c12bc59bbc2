//! Values of arguments: how they are written on the command line, and what is said about those that are wrong.

use std::time::Duration;

use anywire::http::Headers;
use anywire::wire::{self, Address};

use crate::failure::{Code, Failure};

/// An address at which this process and others meet: the only ones of use to a command, which has one end only.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let address: Address = text.parse().map_err(|error: wire::AddressError| error.to_string())?;
    if address.reaches_other_processes() {
        return Ok(address);
    }
    let wires = wire::wires().filter(|wire| wire.reaches_other_processes()).map(wire::Wire::scheme);
    Err(format!(
        "{address} leads nowhere but within one process, and its other end would have to be in this one; take another \
         wire ({}), or both ends into a program of yours with the anywire crate",
        wires.collect::<Vec<_>>().join(", "),
    ))
}

/// A length of time: a number with `us`, `ms`, `s`, `m` or `h`; without a unit it is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds_per_unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => {
            return Err(format!(
                "{unit:?} is no unit of time; write us, ms, s, m or h, such as 500ms or 10s"
            ));
        }
    };
    let number: f64 =
        digits.parse().map_err(|_| format!("{digits:?} is no number; write it such as 500ms or 10s"))?;
    let range = || format!("{text} is out of range; write a time from 0 up, such as 500ms or 10s");
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| range())
}

/// A time that is not zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() {
        Err("0 is no time to do anything; write it such as 500ms or 10s".to_owned())
    } else {
        Ok(time)
    }
}

/// The bits of a file's mode, in octal as `chmod` takes them.
pub(crate) fn file_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        format!("{text:?} is no file mode; write three octal digits as chmod takes them, such as 660")
    })
}

/// A header field as curl takes it: `Name: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once(':') else {
            return Err("there is no colon in it; write it as 'Name: value'".to_owned());
        };
        let field = Self { name: name.trim().to_owned(), value: value.trim().to_owned() };
        let checked = Headers::new().append(&field.name, &field.value).map(|_| ());
        checked.map(|()| field).map_err(|invalid| invalid.to_string())
    }
}

/// All fields of a command line as one block.
pub(crate) fn headers(fields: &[Field]) -> Result<Headers, Failure> {
    let mut headers = Headers::new();
    for field in fields {
        headers.append(&field.name, &field.value).map_err(|invalid| Failure::of(Code::Usage, &invalid))?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "1d", "-1s", "1e400", "ten", "1 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn addresses_lead_out_of_the_process() {
        for wire in wire::wires() {
            let Some(scratch) = wire.scratch() else { continue };
            let found = address(&scratch.to_string());
            assert_eq!(found.is_ok(), wire.reaches_other_processes(), "{scratch}: {found:?}");
        }
        assert!(address("telepathy:you").is_err_and(|said| said.contains("there is no wire")));
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(file_mode("660"), Ok(0o660));
        for wrong in ["", "8", "rw-", "1777", "-1"] {
            assert!(file_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_are_checked_where_they_are_read() {
        let field: Result<Field, String> = "X-Token:  a: b ".parse();
        assert_eq!(field, Ok(Field { name: "X-Token".into(), value: "a: b".into() }));
        for wrong in ["no colon", ": value", "a b: c", "a: b\r\nc: d"] {
            assert!(wrong.parse::<Field>().is_err(), "{wrong:?}");
        }
    }
}
