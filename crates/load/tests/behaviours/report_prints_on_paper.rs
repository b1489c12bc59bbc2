//! Pages on paper of A4: nothing is wider than the sheet or lies on something else, and a dark screen prints as a light one does.

use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::support::browser::{self, Scheme};
use crate::support::layout::Medium;
use crate::support::{layout, sample, sides};

fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("comparison", anywire_load::report::comparison(&sample::comparison())),
        ("load", anywire_load::report::outcome(&sample::outcome())),
        ("ab", anywire_load::report::ab(&sides::ab())),
    ]
}

#[test]
fn nothing_is_wider_than_the_sheet() {
    let Some(browser) = browser::installed() else { return };
    assert_eq!(layout::faults(&browser, &pages(), &[Medium::Print]), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_the_sheet_would_be_seen() {
    let Some(browser) = browser::installed() else { return };
    let html = anywire_load::report::outcome(&sample::outcome());
    let dark = ("the paper is not white", "@media print{:root", "@media speech{:root");
    let wide = ("wider than the window", "@media print{\nbody", "@media print{main{width:2000px}body");
    let pages: Vec<_> = [dark, wide]
        .map(|(fault, instead_of, put_in)| {
            assert!(html.contains(instead_of), "{instead_of}");
            (fault, html.replacen(instead_of, put_in, 1))
        })
        .into_iter()
        .collect();
    let found = layout::faults(&browser, &pages, &[Medium::Print]);
    for (fault, ..) in [dark, wide] {
        assert!(
            found.iter().any(|line| line.contains(&format!(": {fault}: "))),
            "{fault} is not in {found:?}"
        );
    }
}

/// The real thing: what Chromium writes for a printer.
#[test]
fn a_dark_screen_prints_as_a_light_one_does() {
    let Some(browser) = browser::installed() else { return };
    let html = anywire_load::report::ab(&sides::ab());
    let [light, dark] = [Scheme::Light, Scheme::Dark].map(|scheme| drawing(&print(&browser, &html, scheme)));
    assert!(
        light.contains(&colour(0x1f, 0x23, 0x28)),
        "the text is dark: {}",
        &light[..light.len().min(500)]
    );
    for of_dark in [colour(0x0d, 0x11, 0x17), colour(0xe6, 0xed, 0xf3)] {
        assert!(!light.contains(&of_dark) && !dark.contains(&of_dark), "{of_dark}");
    }
    assert!(light == dark, "the drawings differ");
    // Chromium itself prints as a light screen would. With these colours in the rules for print they would be found.
    let other = drawing(&print(&browser, &html.replace("--paper:#ffffff", "--paper:#0d1117"), Scheme::Light));
    assert!(other.contains(&colour(0x0d, 0x11, 0x17)), "dark paper would not be seen");
}

/// Prints a page from a file: the PDF.
fn print(browser: &Path, html: &str, scheme: Scheme) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (page, pdf) = (folder.path().join("page.html"), folder.path().join("page.pdf"));
    std::fs::write(&page, html).unwrap();
    let (page, to) = (format!("file://{}", page.display()), format!("--print-to-pdf={}", pdf.display()));
    let output = browser::run(browser, folder.path(), &[scheme.flag(), "--no-pdf-header-footer", &to, &page]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(&pdf).unwrap_or_else(|_| panic!("no paper: {}", String::from_utf8_lossy(&output.stderr)))
}

/// How a drawing sets the colour of what it fills.
fn colour(red: u8, green: u8, blue: u8) -> String {
    // As Skia writes it: four digits, without the zero before the point, and without zeros at the end.
    let part = |part: u8| {
        let text = format!("{:.4}", f64::from(part) / 255.0);
        text.trim_start_matches('0').trim_end_matches('0').to_owned()
    };
    format!("{} {} {} rg", part(red), part(green), part(blue))
}

/// What is drawn on all sheets.
fn drawing(pdf: &[u8]) -> String {
    let mut drawn = String::new();
    let mut rest = pdf;
    while let Some(begin) = find(rest, b"stream\n") {
        let (_, stream) = rest.split_at(begin + b"stream\n".len());
        let end = find(stream, b"endstream").expect("a stream ends");
        let mut text = Vec::new();
        // Others hold fonts and pictures.
        if ZlibDecoder::new(&stream[..end]).read_to_end(&mut text).is_ok() && find(&text, b" rg\n").is_some()
        {
            drawn.push_str(&String::from_utf8_lossy(&text));
        }
        rest = &stream[end + b"endstream".len()..];
    }
    drawn
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
