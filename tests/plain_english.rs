//! Comments and documents name their subject first and keep sentences short. This test counts the openings without a
//! subject and the sentences of more than [`WORDS`] words, prints the worst, and fails if there is one.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Words of the longest sentence that is fine.
const WORDS: usize = 30;
/// Findings printed of each kind.
const SHOWN: usize = 25;

/// Openings in which a clause or a preposition stands in place of the subject.
const OPENINGS: &[&str] = &[
    "What", "Whatever", "Whether", "Who", "Whoever", "Whom", "Whose", "Which", "Where", "Wherever",
    "How", "Why", "When", "So", "Then", "Of", "By", "That", "Those", "It,",
];
/// Openings from that list that are whole with these second words.
const WHOLE: &[&str] = &["By default", "By hand", "That is"];

/// History is kept as it was written.
const LEFT_OUT: &[&str] = &["docs/lab", "target"];

#[test]
fn sentences_name_their_subject_and_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(root, root, &mut files);
    assert!(files.len() > 200, "only {} files", files.len());
    let (mut headless, mut long) = (Vec::new(), Vec::new());
    for file in &files {
        let text = fs::read_to_string(root.join(file)).expect("a text file");
        let is_code = file.extension().is_some_and(|extension| extension != "md");
        let paragraphs = if is_code { comments(&text) } else { prose(&text) };
        for paragraph in paragraphs {
            let place = |length| Finding { length, file: file.clone(), ..paragraph.finding() };
            if is_code && is_headless(&paragraph.text) {
                headless.push(place(0));
            }
            let lengths = sentences(&paragraph.text).map(words);
            long.extend(lengths.filter(|&length| length > WORDS).map(place));
        }
    }
    long.sort_by_key(|finding| std::cmp::Reverse(finding.length));
    for (kind, found) in [("without a subject", &headless), ("too long", &long)] {
        println!("{}: {}", kind, found.len());
        found.iter().take(SHOWN).for_each(|finding| println!("  {finding}"));
    }
    let (headless, long) = (headless.len(), long.len());
    assert!(headless == 0, "{headless} openings without a subject: name the thing first");
    assert!(long == 0, "{long} sentences of more than {WORDS} words: one fact a clause");
}

/// A sentence to mend.
struct Finding {
    length: usize,
    file: PathBuf,
    line: usize,
    start: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, file, line, start } = self;
        write!(f, "{}:{line}: ", file.display())?;
        if *length > 0 {
            write!(f, "({length} words) ")?;
        }
        f.write_str(start)
    }
}

/// A paragraph of prose and the line on which it starts.
struct Paragraph {
    line: usize,
    text: String,
}

impl Paragraph {
    fn finding(&self) -> Finding {
        let start = self.text.chars().take(70).collect();
        Finding { length: 0, file: PathBuf::new(), line: self.line, start }
    }
}

/// The sources and documents below `folder`.
fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let inside = path.strip_prefix(root).expect("a path below the root");
        let is_hidden =
            inside.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_hidden || LEFT_OUT.iter().any(|folder| inside.starts_with(folder)) {
            continue;
        }
        let extension = path.extension().unwrap_or_default();
        if path.is_dir() {
            collect(root, &path, files);
        } else if ["rs", "wgsl", "md"].iter().any(|known| extension == *known) {
            files.push(inside.to_path_buf());
        }
    }
    files.sort();
}

/// The paragraphs of comments in a source.
fn comments(source: &str) -> Vec<Paragraph> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut last = (0, "");
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let Some(marker) =
            ["///", "//!", "//"].into_iter().find(|&marker| line.starts_with(marker))
        else {
            continue;
        };
        let text = line[marker.len()..].to_owned();
        if last == (at, marker) {
            let block = &mut blocks.last_mut().expect("a block has begun").1;
            block.push('\n');
            block.push_str(&text);
        } else {
            blocks.push((at, text));
        }
        last = (at + 1, marker);
    }
    let paragraphs = blocks.into_iter().flat_map(|(line, text)| {
        prose(&text).into_iter().map(move |p| Paragraph { line: p.line + line, ..p })
    });
    paragraphs.collect()
}

/// The paragraphs and list items of Markdown, without code, tables and headings.
fn prose(text: &str) -> Vec<Paragraph> {
    let mut paragraphs = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let body = line.trim();
        if body.starts_with("```") {
            is_code = !is_code;
            is_open = false;
            continue;
        }
        let is_skipped = body.is_empty() || body.starts_with(['|', '#', '<', '>']);
        if is_code || is_skipped || line.starts_with("     ") {
            is_open = false;
            continue;
        }
        let digits = body.trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = (digits.len() < body.len()).then(|| digits.strip_prefix(". ")).flatten();
        let item = body.strip_prefix("- ").or_else(|| body.strip_prefix("* ")).or(numbered);
        if item.is_some() || !is_open {
            let text = item.unwrap_or(body).to_owned();
            paragraphs.push(Paragraph { line: at + 1, text });
        } else if let Some(last) = paragraphs.last_mut() {
            last.text.push(' ');
            last.text.push_str(body);
        }
        is_open = true;
    }
    paragraphs
}

fn is_headless(paragraph: &str) -> bool {
    let sentence = sentences(paragraph).next().unwrap_or_default();
    let mut words = sentence.split_whitespace();
    let first = words.next().unwrap_or_default();
    let second =
        words.next().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_punctuation());
    OPENINGS.contains(&first)
        && !WHOLE.contains(&&*format!("{first} {second}"))
        && !sentence.ends_with('?')
}

/// The sentences of a paragraph.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let ends = rest.match_indices(['.', '?', '!', ':', ';']);
        let mut ends = ends.map(|(at, mark)| at + mark.len());
        let end = ends.find(|&end| {
            let after = rest[end..].trim_start_matches(['`', ')', '*', '"']);
            after.is_empty() || after.starts_with(char::is_whitespace)
        });
        let (sentence, left) = rest.split_at(end.unwrap_or(rest.len()));
        rest = left.trim_start_matches(['`', ')', '*', '"']);
        Some(sentence)
    })
}

fn words(sentence: &str) -> usize {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    sentence.split_whitespace().filter(is_word).count()
}

#[test]
fn openings_and_lengths_are_told_apart() {
    for headless in ["What a run does.", "Whether it fits.", "Of the whole batch.", "It, at once."]
    {
        assert!(is_headless(headless), "{headless}");
    }
    for whole in ["What runs where?", "The work of a run.", "By default.", "Whatever else", ""] {
        assert_eq!(is_headless(whole), whole == "Whatever else", "{whole}");
    }
    let text = "/// One two three. Four `a.b` five:\n/// six\n///\n/// - item one\n/// ```\n/// code\n/// ```\nfn f() {}\n// last";
    let found = comments(text);
    let texts: Vec<&str> = found.iter().map(|p| &*p.text).collect();
    assert_eq!(texts, ["One two three. Four `a.b` five: six", "item one", "last"]);
    assert_eq!(found.iter().map(|p| p.line).collect::<Vec<_>>(), [1, 4, 9]);
    assert_eq!(sentences(texts[0]).map(words).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(prose("| a | b |\n# Head\nText\nmore.\n1. first\n").len(), 2);
}
