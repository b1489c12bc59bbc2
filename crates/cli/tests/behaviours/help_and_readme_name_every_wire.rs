//! Every wire of the list stands in `--help` and in the README, and every exit code in the README.

use crate::common::{anywire, stdout};

const README: &str = include_str!("../../../../README.md");

#[test]
fn every_wire_is_named() {
    let help = stdout(&anywire(&["--help"]));
    let (_, of_wires) = help.split_once("\nWires ").expect("help lists the wires");
    let (_, table) = README.split_once("## Wires").expect("the README lists the wires");
    for wire in anywire::wire::wires() {
        let (scheme, summary) = (wire.scheme(), wire.summary());
        let start = summary.split(',').next().unwrap_or(summary);
        assert!(of_wires.contains(&format!("\n  {scheme:<10}  {start}")), "{scheme} in {of_wires}");
        assert!(table.contains(&format!("| `{scheme}:")), "{scheme} in the README's table");
    }
}

#[test]
fn every_exit_code_is_named() {
    let (_, table) = README.split_once("| exit | means |").expect("the README lists the exit codes");
    let (table, _) = table.split_once("\n\n").expect("the table ends");
    let named: Vec<u8> = table
        .lines()
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|codes| codes.split(',').filter_map(|code| code.trim().parse().ok()))
        .collect();
    let all = [
        0, 1, 2, 3, 4, 5, 6, 7, 16, 92, 18, 22, 23, 26, 28, 33, 35, 60, 47, 65, 52, 56, 97, 58, 77, 90, 130,
        143,
    ];
    assert_eq!(named, all);
}
