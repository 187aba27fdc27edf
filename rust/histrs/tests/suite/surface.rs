//! What a user meets first: a prelude of few names, and pages that begin with a short example.

use std::path::{Path, PathBuf};

fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path)).unwrap()
}

#[test]
fn the_prelude_has_few_names() {
    let prelude = source("prelude.rs");
    let names = prelude.lines().filter_map(|line| line.strip_prefix("pub use crate::"));
    let n: usize = names.map(|line| line.split(',').count()).sum();
    assert!((10..=25).contains(&n), "{n}");
}

#[test]
fn the_page_of_each_part_begins_with_a_short_example() {
    let library = source("lib.rs");
    let mut hidden = false;
    let mut n_parts = 0;
    for line in library.lines() {
        let name = line.strip_prefix("pub mod ").and_then(|line| line.strip_suffix(';'));
        if let Some(name) = name.filter(|name| !hidden && !["prelude", "testing"].contains(name)) {
            n_parts += 1;
            check_page(name);
        }
        hidden = line == "#[doc(hidden)]";
    }
    assert!(n_parts > 12, "{n_parts}");
}

fn check_page(name: &str) {
    let page = source(PathBuf::from(name).join("mod.rs").to_str().unwrap());
    let lines: Vec<&str> = page.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let start = lines.iter().position(|line| line.starts_with(" ```")).unwrap();
    assert!(start <= 4, "the page of {name} begins with its example");
    let shown = lines[start + 1..].iter().take_while(|line| **line != " ```");
    let n = shown.filter(|line| !line.is_empty() && !line.starts_with(" #")).count();
    assert!(n <= 10, "the example of {name} has {n} lines");
}
