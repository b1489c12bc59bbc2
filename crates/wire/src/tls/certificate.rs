//! What a certificate says: its names, its dates, its key (RFC 5280 section 4.1). Nothing here decides whether that is true.

use std::fmt::Write as _;
use std::net::IpAddr;

use ring::error::Unspecified;
use untrusted::{Input, Reader};

/// A certificate, read as far as this crate asks.
pub(crate) struct Certificate<'a> {
    /// The names of both sides, as DER.
    issuer: Input<'a>,
    subject: Input<'a>,
    /// The dates, in seconds since 1970. `not_after` is its last second.
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
    /// The public key with its algorithm, as DER.
    pub(crate) key: &'a [u8],
    /// Whether it has a version: the first one had none, and no extensions.
    has_version: bool,
    extensions: Extensions<'a>,
}

/// The values of the extensions that are asked for, if they are there.
#[derive(Default)]
struct Extensions<'a> {
    /// `subjectAltName`.
    names: Option<Input<'a>>,
    /// `basicConstraints`.
    constraints: Option<Input<'a>>,
}

impl<'a> Certificate<'a> {
    /// `None` if the bytes are no certificate.
    pub(crate) fn from_der(bytes: &'a [u8]) -> Option<Self> {
        Input::from(bytes).read_all(Unspecified, read).ok()
    }

    /// Whether it names itself as its issuer.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer.as_slice_less_safe() == self.subject.as_slice_less_safe()
    }

    /// Whether it is one of an authority (RFC 5280 section 4.2.1.9). Old ones do not say, and then it is.
    pub(crate) fn may_sign(&self) -> bool {
        let Some(constraints) = self.extensions.constraints else { return !self.has_version };
        let is_authority = constraints.read_all(Unspecified, |constraints| {
            nested(constraints, SEQUENCE, |constraints| {
                let is_authority =
                    constraints.peek(BOOLEAN) && element(constraints)?.1.as_slice_less_safe() != [0];
                constraints.skip_to_end();
                Ok(is_authority)
            })
        });
        is_authority.unwrap_or(true)
    }

    /// Who has signed it, as [`subject`](Self::subject).
    pub(crate) fn issuer(&self) -> Option<String> {
        distinguished_name(self.issuer)
    }

    /// Whom it names (RFC 4514): `CN=alice,O=Example`. `None` if the encoding is odd.
    pub(crate) fn subject(&self) -> Option<String> {
        distinguished_name(self.subject)
    }

    /// Its DNS names in lower case, and its IP addresses (RFC 5280 section 4.2.1.6). What is odd is left out.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut shown = Vec::new();
        if let Some(names) = self.extensions.names {
            // Those in front of a fault are shown.
            let _ = names.read_all(Unspecified, |names| {
                nested(names, SEQUENCE, |names| {
                    while !names.at_end() {
                        let (tag, value) = element(names)?;
                        shown.extend(general_name(tag, value.as_slice_less_safe()));
                    }
                    Ok(())
                })
            });
        }
        shown
    }
}

fn read<'a>(outer: &mut Reader<'a>) -> Result<Certificate<'a>, Unspecified> {
    nested(outer, SEQUENCE, |outer| {
        let certificate = nested(outer, SEQUENCE, read_signed)?;
        // The algorithm and the signature.
        element(outer)?;
        element(outer)?;
        Ok(certificate)
    })
}

/// The part that is signed.
fn read_signed<'a>(fields: &mut Reader<'a>) -> Result<Certificate<'a>, Unspecified> {
    let has_version = fields.peek(CONTEXT_0);
    if has_version {
        element(fields)?;
    }
    expect(fields, INTEGER)?;
    expect(fields, SEQUENCE)?;
    let issuer = whole(fields, SEQUENCE)?;
    let (not_before, not_after) =
        nested(fields, SEQUENCE, |dates| Ok((read_date(dates)?, read_date(dates)?)))?;
    let subject = whole(fields, SEQUENCE)?;
    let key = whole(fields, SEQUENCE)?.as_slice_less_safe();
    let mut extensions = Extensions::default();
    while !fields.at_end() {
        let (tag, value) = element(fields)?;
        // In front of the extensions may be unique ids.
        if tag == CONTEXT_3 {
            extensions = value.read_all(Unspecified, read_extensions)?;
        }
    }
    Ok(Certificate { issuer, subject, not_before, not_after, key, has_version, extensions })
}

fn read_extensions<'a>(extensions: &mut Reader<'a>) -> Result<Extensions<'a>, Unspecified> {
    nested(extensions, SEQUENCE, |extensions| {
        let mut read = Extensions::default();
        while !extensions.at_end() {
            nested(extensions, SEQUENCE, |extension| {
                let id = expect(extension, OBJECT_IDENTIFIER)?;
                if extension.peek(BOOLEAN) {
                    // Whether it is critical.
                    element(extension)?;
                }
                let value = expect(extension, OCTET_STRING)?;
                match id.as_slice_less_safe() {
                    SUBJECT_ALT_NAME => read.names = Some(value),
                    BASIC_CONSTRAINTS => read.constraints = Some(value),
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(read)
    })
}

/// The next element: its tag and its content (X.690 section 8.1). Lengths of three bytes and more are refused, as TLS has none
/// that long for a certificate that is to be read.
fn element<'a>(reader: &mut Reader<'a>) -> Result<(u8, Input<'a>), Unspecified> {
    let tag = reader.read_byte()?;
    // Tags of several bytes.
    if tag & 0x1f == 0x1f {
        return Err(Unspecified);
    }
    let length = match reader.read_byte()? {
        short @ ..=0x7f => usize::from(short),
        0x81 => usize::from(reader.read_byte()?),
        0x82 => usize::from(u16::from_be_bytes([reader.read_byte()?, reader.read_byte()?])),
        _ => return Err(Unspecified),
    };
    Ok((tag, reader.read_bytes(length)?))
}

fn expect<'a>(reader: &mut Reader<'a>, expected: u8) -> Result<Input<'a>, Unspecified> {
    let (tag, content) = element(reader)?;
    if tag == expected { Ok(content) } else { Err(Unspecified) }
}

fn nested<'a, T>(
    reader: &mut Reader<'a>,
    tag: u8,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Unspecified>,
) -> Result<T, Unspecified> {
    expect(reader, tag)?.read_all(Unspecified, read)
}

/// The next element, with its tag and length.
fn whole<'a>(reader: &mut Reader<'a>, tag: u8) -> Result<Input<'a>, Unspecified> {
    let (bytes, _) = reader.read_partial(|reader| expect(reader, tag))?;
    Ok(bytes)
}

/// A date in seconds since 1970 (RFC 5280 section 4.1.2.5): two digits of a year until 2049, then four. Both are in UTC and
/// have seconds.
fn read_date(dates: &mut Reader<'_>) -> Result<u64, Unspecified> {
    let (tag, text) = element(dates)?;
    let text = text.as_slice_less_safe().strip_suffix(b"Z").ok_or(Unspecified)?;
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(Unspecified);
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |all, digit| 10 * all + i64::from(digit - b'0'));
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year = number(&text[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (number(&text[..4]), &text[4..]),
        _ => return Err(Unspecified),
    };
    let part = |at: usize| number(&rest[2 * at..2 * at + 2]);
    let [month, day, hour, minute, second] = [part(0), part(1), part(2), part(3), part(4)];
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return Err(Unspecified);
    }
    // Years begin in March here, so that the leap day is their last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + (day - 1)
        - DAYS_BEFORE_1970;
    u64::try_from(((24 * days + hour) * 60 + minute) * 60 + second).map_err(|_| Unspecified)
}

/// One of the names in `subjectAltName`: `dNSName` or `iPAddress`.
fn general_name(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        0x82 => Some(std::str::from_utf8(value).ok()?.to_ascii_lowercase()),
        0x87 => match *value {
            [a, b, c, d] => Some(IpAddr::from([a, b, c, d]).to_string()),
            ref long => <[u8; 16]>::try_from(long).ok().map(|long| IpAddr::from(long).to_string()),
        },
        _ => None,
    }
}

/// A name as RFC 4514 writes it: the last part first.
fn distinguished_name(name: Input<'_>) -> Option<String> {
    let parts = name.read_all(Unspecified, |name| {
        nested(name, SEQUENCE, |name| {
            let mut parts = Vec::new();
            while !name.at_end() {
                let (tag, part) = element(name)?;
                if tag != SET {
                    return Err(Unspecified);
                }
                parts.push(part.read_all(Unspecified, relative_name)?);
            }
            Ok(parts)
        })
    });
    let mut parts = parts.ok()?;
    parts.reverse();
    Some(parts.join(","))
}

fn relative_name(part: &mut Reader<'_>) -> Result<String, Unspecified> {
    let mut attributes = Vec::new();
    while !part.at_end() {
        attributes.push(nested(part, SEQUENCE, |attribute| {
            let id = expect(attribute, OBJECT_IDENTIFIER)?;
            let (value, (tag, content)) = attribute.read_partial(element)?;
            let [id, value, content] = [id, value, content].map(|input| input.as_slice_less_safe());
            let named = SHORT_NAMES.iter().find(|(known, _)| *known == id);
            Ok(match (named, text(tag, content)) {
                (Some((_, name)), Some(text)) => format!("{name}={}", escaped(text)),
                _ => format!("{}=#{}", dotted(id), hex(value)),
            })
        })?);
    }
    Ok(attributes.join("+"))
}

/// The text of a string: UTF8String, PrintableString, TeletexString (as it is used: ASCII), IA5String.
fn text(tag: u8, content: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(content).ok()?;
    match tag {
        0x0c => Some(text),
        0x13 | 0x14 | 0x16 if text.is_ascii() => Some(text),
        _ => None,
    }
}

/// A value as RFC 4514 section 2.4 writes it. Control characters are escaped, too, so that a terminal shows them.
fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, one) in text.chars().enumerate() {
        let special = matches!(one, '"' | '+' | ',' | ';' | '<' | '>' | '\\')
            || at == 0 && matches!(one, '#' | ' ')
            || at == last && one == ' ';
        if special {
            out.extend(['\\', one]);
        } else if one.is_control() {
            one.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                let _ = write!(out, "\\{byte:02x}");
            });
        } else {
            out.push(one);
        }
    }
    out
}

/// An object identifier in numbers (X.690 section 8.19).
fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u128;
    for byte in id {
        // Nothing that is in use has so many bits.
        number = number.wrapping_shl(7) | u128::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= 40 * first;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// 2.5.29.17 and 2.5.29.19.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];

// Tags (X.690 section 8.1.2).
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_3: u8 = 0xa3;

/// From the first of March of the year 0 to 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// The table of RFC 4514 section 3, and the address that old authorities put into their names.
const SHORT_NAMES: [(&[u8], &str); 10] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "EMAILADDRESS"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, date_time_ymd};

    use super::*;

    fn params(names: &[&str]) -> CertificateParams {
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .expect("names")
    }

    fn made(params: &CertificateParams) -> (Vec<u8>, KeyPair) {
        let key = KeyPair::generate().expect("randomness");
        (params.self_signed(&key).expect("a certificate").der().to_vec(), key)
    }

    #[test]
    fn names_dates_and_key_are_read() {
        let mut params = params(&["Example.COM", "*.example.com", "192.0.2.1", "2001:db8::1"]);
        // The second of them is beyond the years of two digits.
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2100, 3, 1);
        let (bytes, key) = made(&params);
        let read = Certificate::from_der(&bytes).expect("a certificate");
        assert_eq!(read.names(), ["example.com", "*.example.com", "192.0.2.1", "2001:db8::1"]);
        // By `date -u -d 2024-02-29 +%s` and so on.
        assert_eq!((read.not_before, read.not_after), (1_709_164_800, 4_107_542_400));
        assert_eq!(read.key, key.subject_public_key_info());
        assert!(read.is_self_issued());
    }

    #[test]
    fn names_are_written_as_rfc_4514_says() {
        let mut params = params(&[]);
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in [
            (DnType::CountryName, "XY"),
            (DnType::OrganizationName, " Sue, Grabbit; Runn "),
            (DnType::OrganizationalUnitName, "#1 \"a+b\" <c>\\"),
            (DnType::LocalityName, "Zürich\n"),
            // Not in the table.
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 311]), "x"),
            (DnType::CommonName, "alice"),
        ] {
            params.distinguished_name.push(kind, value);
        }
        let (bytes, _) = made(&params);
        let read = Certificate::from_der(&bytes).expect("a certificate");
        let expected = "CN=alice,1.3.6.1.4.1.311=#0c0178,L=Zürich\\0a,OU=\\#1 \\\"a\\+b\\\" \\<c\\>\\\\,\
                        O=\\ Sue\\, Grabbit\\; Runn\\ ,C=XY";
        assert_eq!(read.subject().as_deref(), Some(expected));
        assert_eq!(read.issuer(), read.subject());
        assert!(read.names().is_empty());
    }

    #[test]
    fn authorities_say_that_they_are() {
        use rcgen::{BasicConstraints, IsCa};

        for (is_ca, expected) in [
            // Without the extension, in a version that has it.
            (IsCa::NoCa, false),
            (IsCa::ExplicitNoCa, false),
            (IsCa::Ca(BasicConstraints::Unconstrained), true),
            (IsCa::Ca(BasicConstraints::Constrained(3)), true),
        ] {
            let mut params = params(&["localhost"]);
            params.is_ca = is_ca;
            let (bytes, _) = made(&params);
            let read = Certificate::from_der(&bytes).expect("a certificate");
            assert_eq!(read.may_sign(), expected, "{:?}", params.is_ca);
        }
    }

    #[test]
    fn a_part_of_a_certificate_is_none() {
        let (bytes, _) = made(&params(&["localhost"]));
        assert!((0..bytes.len()).all(|end| Certificate::from_der(&bytes[..end]).is_none()));
        assert!(Certificate::from_der(&[&bytes[..], b"x"].concat()).is_none());
    }

    proptest! {
        #[test]
        fn whatever_a_peer_shows_is_read_or_refused(at: prop::sample::Index, byte: u8, length in 1..9_usize) {
            let (mut bytes, _) = made(&params(&["localhost", "192.0.2.1"]));
            let at = at.index(bytes.len());
            bytes[at..].iter_mut().take(length).for_each(|one| *one = byte);
            if let Some(read) = Certificate::from_der(&bytes) {
                let _ = (read.names(), read.subject(), read.issuer(), read.is_self_issued(), read.may_sign());
            }
        }

        /// Dates are those of the two forms of RFC 5280 section 4.1.2.5, and nothing else is one.
        #[test]
        fn any_date_is_read_or_refused(tag: u8, text in prop::collection::vec(any::<u8>(), 0..20), digits in "[0-9]{10,15}Z?") {
            for (tag, text) in [(tag, &text[..]), (UTC_TIME, digits.as_bytes()), (GENERALIZED_TIME, digits.as_bytes())] {
                let element = [&[tag, text.len() as u8], text].concat();
                let read = Input::from(&element).read_all(Unspecified, read_date);
                let length = if tag == UTC_TIME { 13 } else { 15 };
                let has_form = text.len() == length && text.ends_with(b"Z") && [UTC_TIME, GENERALIZED_TIME].contains(&tag);
                prop_assert!(read.is_err() || has_form, "{:?}", String::from_utf8_lossy(text));
            }
        }

        #[test]
        fn a_date_is_the_second_that_it_names(seconds in 0..4_102_444_800_i64) {
            let date = date_time_ymd(1970, 1, 1) + core::time::Duration::from_secs(seconds as u64);
            let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
            let time = format!("{month:02}{day:02}{:02}{:02}{:02}Z", date.hour(), date.minute(), date.second());
            let long = format!("{year:04}{time}");
            let element = [&[GENERALIZED_TIME, 15], long.as_bytes()].concat();
            let read = Input::from(&element).read_all(Unspecified, read_date);
            prop_assert_eq!(read.ok(), Some(seconds as u64));
            if year < 2050 {
                let short = format!("{:02}{time}", year % 100);
                let element = [&[UTC_TIME, 13], short.as_bytes()].concat();
                let read = Input::from(&element).read_all(Unspecified, read_date);
                prop_assert_eq!(read.ok(), Some(seconds as u64));
            }
        }
    }
}
