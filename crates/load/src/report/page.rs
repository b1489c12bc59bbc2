//! The frame of a page: head, style, sections, tables, the embedded JSON, and the escaping of all that is put in.

use crate::report::chart::sample;
use crate::report::palette::{self, Colour, Style};

/// A page under construction: one file of HTML that needs nothing beside itself.
///
/// All text given to it is escaped; only the SVG of a [`Chart`] is taken as it is.
///
/// ```
/// use anywire_load::report::chart::{self, Bar, Group};
/// use anywire_load::report::palette::SERVER;
/// use anywire_load::report::{Chart, Page};
///
/// let bar = Bar { value: 4.9, label: "4.9".to_owned(), colour: SERVER };
/// let groups = [Group { name: "tcp".to_owned(), bars: vec![bar] }];
/// let mut page = Page::new("What a request costs");
/// page.paragraph("64 connections.");
/// page.charts(vec![Chart {
///     title: "CPU per request, us".to_owned(),
///     legend: vec![(SERVER.into(), "server".to_owned())],
///     svg: chart::bars("CPU per request", &groups),
/// }]);
/// page.table("Medians", &["wire", "us"], &[vec!["tcp".to_owned(), "4.9".to_owned()]]);
/// let html = page.finish("{\"us\": 4.9}");
/// assert!(html.contains("<svg"));
/// ```
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page with this title.
    pub fn new(title: &str) -> Self {
        Self { title: escaped(title), body: String::new() }
    }

    /// A heading of a section.
    pub fn heading(&mut self, text: &str) {
        self.body.push_str(&format!("<h2>{}</h2>\n", escaped(text)));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.body.push_str(&format!("<p>{}</p>\n", escaped(text)));
    }

    /// A paragraph that must not be missed.
    pub fn warning(&mut self, text: &str) {
        self.body.push_str(&format!("<p class=\"warning\">{}</p>\n", escaped(text)));
    }

    /// A paragraph that says that all is well.
    pub fn good(&mut self, text: &str) {
        self.body.push_str(&format!("<p class=\"good\">{}</p>\n", escaped(text)));
    }

    /// Text as it is typed, under a heading.
    pub fn code(&mut self, caption: &str, text: &str) {
        let (caption, text) = (escaped(caption), escaped(text));
        self.body.push_str(&format!(
            "<h2>{caption}</h2>\n<pre class=\"code\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">{text}</pre>\n"
        ));
    }

    /// A list; nothing if it is empty.
    pub fn list(&mut self, items: &[String]) {
        if items.is_empty() {
            return;
        }
        let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
        self.body.push_str(&format!("<ul>\n{items}</ul>\n"));
    }

    /// Charts, beside each other where there is room.
    pub fn charts(&mut self, charts: Vec<Chart>) {
        self.body.push_str("<div class=\"charts\">\n");
        for chart in charts {
            let legend: String = chart
                .legend
                .iter()
                .map(|(key, name)| format!("<span>{}{}</span> ", key.html(), escaped(name)))
                .collect();
            self.body.push_str(&format!(
                "<figure><figcaption><h2>{}</h2><p class=\"legend\">{legend}</p></figcaption>\n{}</figure>\n",
                escaped(&chart.title),
                chart.svg,
            ));
        }
        self.body.push_str("</div>\n");
    }

    /// A table whose first column names the row. What stands behind a line feed in a cell is a remark on it. The last cell of a
    /// row that is short takes the rest of its columns.
    ///
    /// A table that is too wide scrolls sideways. On a phone each row is a block instead, with the heading above each cell,
    /// unless there are two columns, which fit.
    pub fn table(&mut self, caption: &str, headings: &[&str], rows: &[Vec<String>]) {
        let heads: String =
            headings.iter().map(|heading| format!("<th scope=\"col\">{}</th>", escaped(heading))).collect();
        let mut lines = String::new();
        for row in rows {
            lines.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let spanned = headings.len().saturating_sub(column);
                let heading = escaped(headings.get(column).copied().unwrap_or_default());
                lines.push_str(&match headings.get(column) {
                    _ if column == 0 => {
                        format!("<th scope=\"row\" data-heading=\"{heading}\">{}</th>", remarked(cell))
                    }
                    Some(_) if column + 1 == row.len() && spanned > 1 => {
                        format!("<td class=\"rest\" colspan=\"{spanned}\">{}</td>", remarked(cell))
                    }
                    _ => {
                        let kind = if cell.len() > FIGURE_BYTES_MAX { " class=\"text\"" } else { "" };
                        format!("<td data-heading=\"{heading}\"{kind}>{}</td>", remarked(cell))
                    }
                });
            }
            lines.push_str("</tr>\n");
        }
        let kind = if headings.len() > 2 { "many" } else { "pairs" };
        let caption = escaped(caption);
        self.body.push_str(&format!(
            "<h2>{caption}</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <table class=\"{kind}\">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n",
        ));
    }

    /// The whole page, with `json` embedded and shown on demand.
    pub fn finish(self, json: &str) -> String {
        let Self { title, body } = self;
        let style = format!("{}{STYLE}", palette::css());
        let (data, shown) = (json_in_script(json), escaped(json));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\
             <details><summary>JSON</summary>\
             <pre tabindex=\"0\" role=\"region\" aria-label=\"JSON\">{shown}</pre></details>\n</main>\n\
             <script type=\"application/json\" id=\"result\">\n{data}\n</script>\n</body>\n</html>\n"
        )
    }
}

/// A chart with its heading and legend.
#[derive(Debug)]
pub struct Chart {
    /// Its heading, with the unit of its figures.
    pub title: String,
    /// What each colour or line stands for.
    pub legend: Vec<(Key, String)>,
    /// The drawing, from the functions of [`chart`](super::chart).
    pub svg: String,
}

/// What a legend shows beside a name.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// A colour, of bars or dots.
    Area(Colour),
    /// A line.
    Line(Style),
}

impl Key {
    fn html(self) -> String {
        match self {
            Self::Area(colour) => format!("<i style=\"background:{}\"></i>", colour.paint()),
            Self::Line(style) => sample(style),
        }
    }
}

impl From<Colour> for Key {
    fn from(colour: Colour) -> Self {
        Self::Area(colour)
    }
}

impl From<Style> for Key {
    fn from(style: Style) -> Self {
        Self::Line(style)
    }
}

/// A cell, in which a remark follows behind a line feed.
fn remarked(cell: &str) -> String {
    match cell.split_once('\n') {
        Some((figure, remark)) => format!("{}<br><small>{}</small>", escaped(figure), escaped(remark)),
        None => escaped(cell),
    }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// In JSON a `<` can stand only within a string, where this escape means the same. So neither `</script` nor `<!--`
/// can end the element or change how it is read.
fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// A longer cell is text, which breaks into lines.
const FIGURE_BYTES_MAX: usize = 40;

const STYLE: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1800px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;line-height:1.25;margin:8px 0 12px;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:24px 0 6px;overflow-wrap:anywhere}
p,li{overflow-wrap:anywhere;margin:4px 0;max-width:80ch}
ul{padding-left:20px;color:var(--faint)}
.warning{border-left:4px solid var(--tail);padding-left:10px;font-weight:600}
.good{border-left:4px solid var(--fifth);padding-left:10px;font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:8px 40px}
figure{margin:0;min-width:0;max-width:520px}
figcaption h2{margin:16px 0 0}
figure>svg{display:block;width:100%;height:auto}
svg text{font-family:system-ui,sans-serif}
.legend{color:var(--faint);font-size:.9rem;margin:0 0 6px;display:flex;flex-wrap:wrap;gap:2px 14px}
.legend span{display:inline-flex;align-items:center;gap:.4em}
.legend i{flex:none;width:.8em;height:.8em;border-radius:2px}
.legend svg{flex:none}
.wide,pre{overflow-x:auto}
.wide{margin-bottom:12px}
.wide:focus-visible,pre:focus-visible,summary:focus-visible{outline:2px solid var(--server);outline-offset:2px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{text-align:right;padding:4px 10px;border-bottom:1px solid var(--grid);font-weight:400;vertical-align:top}
th,td{white-space:nowrap}
th:first-child{text-align:left;padding-left:0;font-weight:600;background:var(--paper)}
tbody th:first-child{white-space:normal;overflow-wrap:anywhere;min-width:8em;max-width:24em}
thead th{color:var(--faint)}
small{color:var(--faint);font-size:.8rem;font-weight:400}
.rest,.text,.pairs td{text-align:left;white-space:normal;overflow-wrap:anywhere}
.pairs thead th{text-align:left}
.text{min-width:16em;max-width:40em}
details{margin:24px 0}
summary{cursor:pointer;color:var(--faint)}
pre{font-size:.8rem;border:1px solid var(--grid);border-radius:6px;padding:12px}
.code{white-space:pre-wrap;overflow-wrap:anywhere}
@media print{
body{font-size:11pt;print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{max-width:none;padding:0}
figure,tr,.warning,.good{break-inside:avoid}
h1,h2{break-after:avoid}
.wide{overflow:visible}
table{font-size:.75rem}
th,td{padding:3px 5px;white-space:normal;overflow-wrap:anywhere}
tbody th:first-child{min-width:6em}
.many th:first-child{position:static}
.text{min-width:8em}
details{display:none}
}
@media (min-width:641px){
.many th:first-child{position:sticky;left:0}
}
@media (max-width:640px){
.many,.many tbody{display:block}
.many thead{display:none}
.many tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(6.5rem,1fr));gap:4px 12px;padding:8px 0}
.many tr{border-bottom:1px solid var(--grid)}
.many th,.many td{border:0;padding:0;min-width:0;text-align:left;white-space:normal;overflow-wrap:anywhere}
.many tbody th:first-child{grid-column:1/-1;max-width:none}
.many .rest,.many .text{grid-column:1/-1;max-width:none}
.many td::before{content:attr(data-heading);display:block;color:var(--faint);font-size:.8rem}
.many th::before{content:attr(data-heading) \" \";color:var(--faint);font-weight:400}
.pairs tbody th:first-child{max-width:40vw}
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_cannot_become_markup() {
        let mut page = Page::new("<title>&'\"");
        page.paragraph("</p><script>alert(1)</script>");
        page.list(&["<b>".to_owned()]);
        page.table("<c>", &["<h>"], &[vec!["<r>".to_owned(), "<d>".to_owned()]]);
        let html = page.finish("{\"url\": \"</script><!--<script>\"}");
        assert_eq!(html.matches("<script").count(), 1);
        assert_eq!(html.matches("</script>").count(), 1);
        for markup in ["<b>", "<c>", "<h>", "<r>", "<d>", "<title><", "<!--"] {
            assert!(!html.contains(markup), "{markup}");
        }
    }
}
