//! The frame of a page: head, style, sections, tables, the embedded JSON, and the escaping of all that is put in.

use crate::report::palette::{self, Colour};

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
///     legend: vec![(SERVER, "server".to_owned())],
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
                .map(|(colour, name)| {
                    let colour = colour.paint();
                    format!("<span><i style=\"background:{colour}\"></i>{}</span> ", escaped(name))
                })
                .collect();
            self.body.push_str(&format!(
                "<figure><figcaption><h2>{}</h2><p class=\"legend\">{legend}</p></figcaption>\n{}</figure>\n",
                escaped(&chart.title),
                chart.svg,
            ));
        }
        self.body.push_str("</div>\n");
    }

    /// A table whose first column names the row. It scrolls sideways where it is too wide.
    pub fn table(&mut self, caption: &str, headings: &[&str], rows: &[Vec<String>]) {
        let heads: String =
            headings.iter().map(|heading| format!("<th scope=\"col\">{}</th>", escaped(heading))).collect();
        let mut lines = String::new();
        for row in rows {
            lines.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let cell = escaped(cell);
                lines.push_str(&if column == 0 {
                    format!("<th scope=\"row\">{cell}</th>")
                } else {
                    format!("<td>{cell}</td>")
                });
            }
            lines.push_str("</tr>\n");
        }
        self.body.push_str(&format!(
            "<h2>{}</h2>\n<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>{heads}</tr></thead>\n\
             <tbody>\n{lines}</tbody></table></div>\n",
            escaped(caption)
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
             <details><summary>JSON</summary><pre>{shown}</pre></details>\n</main>\n\
             <script type=\"application/json\" id=\"result\">\n{data}\n</script>\n</body>\n</html>\n"
        )
    }
}

/// A chart with its heading and legend.
#[derive(Debug)]
pub struct Chart {
    /// Its heading, with the unit of its figures.
    pub title: String,
    /// What each colour stands for.
    pub legend: Vec<(Colour, String)>,
    /// The drawing, from the functions of [`chart`](super::chart).
    pub svg: String,
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

const STYLE: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;line-height:1.25;margin:8px 0 12px;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:24px 0 6px}
p,li{overflow-wrap:anywhere;margin:4px 0}
ul{padding-left:20px;color:var(--faint)}
.warning{border-left:4px solid var(--tail);padding-left:10px;font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:8px 40px}
figure{margin:0;min-width:0;max-width:600px}
figcaption h2{margin:16px 0 0}
svg{display:block;width:100%;height:auto}
svg text{font-family:system-ui,sans-serif}
.legend{color:var(--faint);font-size:.9rem;margin:0 0 6px;display:flex;flex-wrap:wrap;gap:2px 14px}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap;font-size:.9rem}
th,td{text-align:right;padding:4px 12px;border-bottom:1px solid var(--grid);font-weight:400}
th:first-child{text-align:left;padding-left:0;font-weight:600;position:sticky;left:0;background:var(--paper)}
tbody th:first-child{white-space:normal;overflow-wrap:anywhere;min-width:8em;max-width:40vw}
thead th{color:var(--faint)}
details{margin:24px 0}
summary{cursor:pointer;color:var(--faint)}
pre{overflow-x:auto;font-size:.8rem;border:1px solid var(--grid);border-radius:6px;padding:12px}
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
