//! A report loads in a browser: its charts are there, its JSON can be read back, its console is empty.

use crate::support::browser::{self, Scheme};
use crate::support::{sample, sides};

/// What a page must survive, written into its DOM by a script that only the test puts in.
const PROBE: &str = "<script>addEventListener('load',()=>{\
    let text=JSON.parse(document.getElementById('result').textContent).schema;\
    let charts=[...document.querySelectorAll('figure>svg')].filter(svg=>svg.getBoundingClientRect().height>50);\
    let ink=getComputedStyle(document.querySelector('svg text')).fill;\
    document.title='probe '+text+' '+charts.length+' '+ink;\
    });</script></body>";

/// Two colours of text, in light and in dark.
const INK: [&str; 2] = ["rgb(31, 35, 40)", "rgb(230, 237, 243)"];
const FAINT: [&str; 2] = ["rgb(89, 99, 110)", "rgb(145, 152, 161)"];

#[test]
fn a_page_loads_without_an_error_and_shows_its_charts() {
    let Some(browser) = browser::installed() else { return };
    let pages = [
        (anywire_load::report::comparison(&sample::comparison()), 4, "anywire.compare/1", INK),
        (anywire_load::report::outcome(&sample::outcome()), 5, "anywire.load/1", FAINT),
        (anywire_load::report::ab(&sides::ab()), 6, "anywire.ab/1", FAINT),
    ];
    for (html, charts, schema, text_colours) in pages {
        let seen = browser::load(&browser, &html, Scheme::Light);
        assert_eq!(seen.console, Vec::<String>::new());
        assert_eq!(seen.dom.matches("<svg role=").count(), charts);
        assert!(!seen.dom.contains("<script>"), "text from outside became markup");

        for (scheme, colour) in [Scheme::Light, Scheme::Dark].into_iter().zip(text_colours) {
            let seen = browser::load(&browser, &probed(&html), scheme);
            assert_eq!(seen.console, Vec::<String>::new());
            let expected = format!("<title>probe {schema} {charts} {colour}</title>");
            assert!(seen.dom.contains(&expected), "{expected} is not in {}", &seen.dom[..600]);
        }
    }
}

#[test]
fn an_error_of_a_page_would_be_seen() {
    let Some(browser) = browser::installed() else { return };
    let html = anywire_load::report::outcome(&sample::outcome());
    let broken = probed(&html).replace("JSON.parse(", "JSON.parse('{'+");
    assert!(!browser::load(&browser, &broken, Scheme::Light).console.is_empty());
    let blocked = html.replace("<main>", "<main><img src=\"http://127.0.0.1:9/a.png\">");
    assert!(
        !browser::load(&browser, &blocked, Scheme::Light).console.is_empty(),
        "the page's own policy refuses to load anything"
    );
}

/// The page with the probe in it, which its own policy would refuse.
fn probed(html: &str) -> String {
    let open = html.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'");
    open.replace("</body>", PROBE)
}
