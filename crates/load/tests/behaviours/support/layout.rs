//! Pages as readers see them: on a phone, on a laptop and on a large screen, in light and dark.

use std::fmt::Write as _;
use std::path::Path;

use super::browser::{self, Scheme};

/// Where a page is seen.
#[derive(Clone, Copy)]
pub(crate) enum Medium {
    /// A phone, a laptop and a large screen.
    Screen,
    /// A sheet of A4: the rules of the page for print are made those for everything, in a window as wide as what the sheet has
    /// between its margins.
    Print,
}

/// What is wrong with the layout of these pages, each given with its name: a line for each fault.
///
/// Nothing is wider than the window but what scrolls in a box of its own, which the keyboard reaches. No text is cut, lies on
/// another, is too small or too pale (WCAG 2.2, 1.4.3). Paper is white: the colours of a dark screen would be ink on the whole sheet.
pub(crate) fn faults(browser: &Path, pages: &[(&str, String)], media: &[Medium]) -> Vec<String> {
    let mut windows = Vec::new();
    for medium in media {
        match medium {
            Medium::Screen => windows.extend(WIDTHS.map(|width| (width, "screen"))),
            Medium::Print => windows.push((A4_WIDTH, "print")),
        }
    }
    let mut frames = String::new();
    for (name, html) in pages {
        let html = html.replace('&', "&amp;").replace('"', "&quot;");
        for (width, medium) in &windows {
            // A page of its own within the same file: its window has this width, which that of a browser cannot always have.
            let _ = write!(
                frames,
                "<iframe name=\"{name}\" data-medium=\"{medium}\" width=\"{width}\" height=\"900\" style=\"border:0\" \
                 srcdoc=\"{html}\"></iframe>"
            );
        }
    }
    let all = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <body>{frames}<pre id=\"faults\"></pre><script>{MEASURE}</script></body>"
    );
    let mut faults = Vec::new();
    for (scheme, name) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
        let seen = browser::load(browser, &all, scheme);
        assert_eq!(seen.console, Vec::<String>::new());
        let (_, found) = seen.dom.split_once("<pre id=\"faults\">").expect("the script has a place");
        let (found, _) = found.split_once("</pre>").expect("an element ends");
        let (measured, found) = found.split_once('\n').expect("the script says how much it has measured");
        let expected = format!("{} pages in {name}", pages.len() * windows.len());
        assert_eq!(measured, expected);
        faults.extend(found.lines().map(|fault| format!("{name}: {fault}")));
    }
    faults
}

/// 210 mm at 96 pixels an inch, less the margins of Chromium of 0.4 inches on either side.
const A4_WIDTH: u32 = 717;

const WIDTHS: [u32; 3] = [400, 1280, 1920];

const MEASURE: &str = r#"
addEventListener('load', () => {
  const frames = [...document.querySelectorAll('iframe')];
  const faults = frames.flatMap(measure);
  const scheme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  document.getElementById('faults').textContent =
    `${frames.length} pages in ${scheme}\n` + faults.join('\n');
});

function measure(frame) {
  const window = frame.contentWindow, document = window.document, width = window.innerWidth;
  const found = [];
  if (frame.dataset.medium === 'print') print(document);
  const say = (what, text) =>
    found.push(`${frame.name} at ${width}: ${what}: ${text.trim().replace(/\s+/g, ' ').slice(0, 60)}`);
  document.querySelectorAll('details').forEach(details => details.open = true);
  const style = (element, part) => window.getComputedStyle(element, part);
  const scrolls = element => ['auto', 'scroll'].includes(style(element).overflowX);
  const box = element => {
    for (let at = element.parentElement; at; at = at.parentElement) if (scrolls(at)) return at;
  };
  if (frame.dataset.medium === 'print' && ground(document.body) !== 'rgb(255, 255, 255)')
    say('the paper is not white', ground(document.body));
  if (document.documentElement.scrollWidth > width)
    say('the page is wider', `${document.documentElement.scrollWidth}`);
  for (const element of document.body.querySelectorAll('*')) {
    const area = element.getBoundingClientRect();
    if (!area.width || element.closest('svg svg, svg *')) continue;
    if (!box(element) && (area.left < -0.5 || area.right > width + 0.5)) say('wider than the window', element.outerHTML);
    if (scrolls(element) && element.scrollWidth > element.clientWidth) {
      element.focus();
      const name = element.getAttribute('aria-label');
      if (document.activeElement !== element || !name) say('no keyboard scrolls it', element.outerHTML);
      if (element.matches('.wide') && width < 500) say('figures are off the screen', element.textContent);
    }
  }
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, text = node.data, parent = node.parentElement;
    if (!text.trim() || parent.closest('script, style')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = parent.closest('svg');
    const bounds = svg || parent.closest('th, td, p, li, h1, h2, summary, pre');
    const within = bounds.getBoundingClientRect();
    const paint = svg ? style(parent).fill : style(parent).color;
    if (contrast(paint, ground(parent)) < 4.5) say('too pale', text);
    if (svg && 14 * within.width / svg.viewBox.baseVal.width < 10) say('too small', text);
    const scroller = bounds.matches('pre') ? bounds : box(parent);
    const clip = scroller && scroller.getBoundingClientRect();
    for (const area of range.getClientRects()) {
      if (area.width < 1) continue;
      if (!bounds.matches('pre') && (area.left < within.left - 1 || area.right > within.right + 1
        || area.top < within.top - 1 || area.bottom > within.bottom + 1)) say('cut', text);
      const left = Math.max(area.left, clip ? clip.left : area.left);
      const right = Math.min(area.right, clip ? clip.right : area.right);
      if (right > left) texts.push({ left, right, top: area.top, bottom: area.bottom, text });
    }
  }
  for (const cell of document.querySelectorAll('tbody th, td')) {
    const heading = style(cell, '::before');
    if (heading.content !== 'none' && contrast(heading.color, ground(cell)) < 4.5) say('too pale', heading.content);
  }
  texts.sort((one, other) => one.top - other.top);
  texts.forEach((one, index) => {
    for (let next = index + 1; next < texts.length && texts[next].top < one.bottom - 1.5; next++) {
      const other = texts[next];
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1)
        say('one text on another', `${one.text} | ${other.text}`);
    }
  });
  return [...new Set(found)];

  function ground(element) {
    for (let at = element; at; at = at.parentElement) {
      const colour = style(at).backgroundColor;
      if (!/, 0\)$|^transparent$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  }
}

// Rules for print hold from now on, and those for the screen alone do not.
function print(document) {
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules)
      if (rule.media) rule.media.mediaText =
        rule.media.mediaText.replace(/\bscreen\b/g, 'not all').replace(/\bprint\b/g, 'all');
}

function contrast(one, other) {
  const light = colour => {
    const [red, green, blue] = colour.match(/[\d.]+/g).slice(0, 3).map(part => {
      part /= 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const [first, second] = [light(one), light(other)];
  return Math.max(first, second) / Math.min(first, second);
}
"#;
