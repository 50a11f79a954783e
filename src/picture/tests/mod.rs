//! Pictures as a reader of markup sees them.

mod reader;

use std::collections::HashSet;

use self::reader::{Element, read};
use super::data::{Fate, Kernel, Memory, Operation, Part, Picture, Stored};
use super::drawn::Drawn;
use super::memory;
use crate::base::backend::Backend;
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::ops::Type;

/// The elements of a page.
pub(crate) struct Page(Vec<Element>);

impl Page {
    /// The page of `picture`, which is checked, as is its graph alone.
    pub fn of(picture: &Picture) -> Self {
        check_memory(picture);
        let page = Self(read(&picture.to_html()).expect("markup"));
        let alone = Self(read(&picture.to_svg()).expect("markup"));
        let drawn = Drawn::new(picture);
        for (items, count) in
            [(&drawn.operations, picture.operations.len()), (&drawn.kernels, picture.kernels.len())]
        {
            let mut members: Vec<usize> =
                items.iter().flat_map(|item| &item.members).copied().collect();
            members.sort_unstable();
            assert_eq!(members, (0..count).collect::<Vec<_>>(), "each is in one item");
        }
        for view in [&page, &alone] {
            let ids: Vec<&str> = view.all("id").collect();
            let distinct: HashSet<&str> = ids.iter().copied().collect();
            assert_eq!(ids.len(), distinct.len(), "each id once");
            assert_eq!(view.with_class("op").count(), drawn.operations.len());
            let targets = view.all("href").map(|target| target.strip_prefix('#').expect("inside"));
            let tied = view.all("data-is").chain(view.all("data-with"));
            let tied = tied.flat_map(|names| names.split(' ')).filter(|name| !name.is_empty());
            for name in targets.chain(tied) {
                assert!(distinct.contains(name), "nothing has the id {name}");
            }
        }
        assert_eq!(page.with_class("card").count(), drawn.kernels.len());
        let from_outside = ["src", "xlink-href", "srcset"];
        assert!(from_outside.iter().all(|name| page.all(name).next().is_none()));
        assert!(!page.0.iter().any(|element| element.tag == "link"));
        assert!(alone.all("href").next().is_none(), "a graph alone has no page to link to");
        page
    }

    pub fn all<'a>(&'a self, attribute: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(move |element| element.get(attribute))
    }

    pub fn with_class<'a>(&'a self, class: &'a str) -> impl Iterator<Item = &'a Element> {
        self.0.iter().filter(move |element| element.has_class(class))
    }

    /// The texts of the cells of tables below this head.
    pub fn cells<'a>(&'a self, head: &'a str) -> impl Iterator<Item = &'a str> {
        let cells = self.0.iter().filter(move |element| element.get("data-head") == Some(head));
        cells.map(|cell| cell.text.as_str())
    }

    pub fn says(&self, text: &str) -> bool {
        self.0.iter().any(|element| element.text.contains(text))
    }
}

/// Compares the bytes in use at each kernel with a count of all values that are alive.
fn check_memory(picture: &Picture) {
    for part in &picture.parts {
        let used = memory::used(part, &memory::lanes(part));
        let columns = 0..=part.kernels.len();
        let alive = |column: usize| -> u64 {
            let values = part.values.iter().filter(|stored| match (stored.memory, stored.life) {
                (Memory::Caller, _) => false,
                (Memory::Resident, _) => true,
                (Memory::Kept, Some((first, _))) => first <= column,
                (_, life) => life.is_some_and(|(first, last)| (first..=last).contains(&column)),
            });
            let scratch = part.scratch.iter().filter(|scratch| scratch.0 == column);
            values.map(|stored| stored.bytes).chain(scratch.map(|scratch| scratch.2)).sum()
        };
        assert_eq!(used, columns.map(alive).collect::<Vec<_>>());
        assert!(used.iter().all(|&bytes| bytes <= part.peak_bytes), "{used:?} {}", part.peak_bytes);
    }
}

fn ty(dims: &[usize]) -> Type {
    Type { dtype: DType::F32, shape: dims.iter().copied().collect() }
}

/// A number of operations without order, each a kernel of its own.
fn disorder(count: usize) -> Picture {
    const NAMES: [&str; 7] = ["exp", "neg", "matmul", "relu", "sum", "sort", "tanh"];
    let mut seed = 3_u32;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut picture = Picture::default();
    for at in 0..count {
        let name = NAMES[next(NAMES.len())];
        picture.operations.push(Operation {
            name,
            method: name,
            given: None,
            ty: ty(&[1 + next(9), 4]),
            place: Place::caller(),
            inputs: (0..next(3).min(at)).map(|_| next(at)).collect(),
            fate: Fate::Computed,
            kernels: [at].into_iter().collect(),
            is_result: at + 1 == count,
        });
        picture.kernels.push(Kernel {
            label: name.to_owned(),
            form: "map",
            side: if next(2) == 0 { Backend::Cpu } else { Backend::Gpu },
            place: Place::caller(),
            reads: at.checked_sub(1).into_iter().collect(),
            writes: [at].into_iter().collect(),
            dispatches: 1,
            flops: None,
            bytes_read: 16,
            bytes_written: 16,
            predicted: 1e-6,
            elsewhere: Some(2e-6),
            measured: None,
            reason: "predicted to be as fast here, or faster".to_owned(),
            not_fused_with: at
                .checked_sub(1)
                .map(|made| (made, "no reason".to_owned()))
                .into_iter()
                .collect(),
        });
    }
    let stored = |at: usize| Stored {
        name: "exp",
        place: Place::caller(),
        ty: ty(&[4]),
        bytes: 16,
        memory: Memory::Buffer(at % 50),
        life: Some((at, (at + 1).min(count))),
    };
    picture.parts.push(Part {
        title: "On both".to_owned(),
        kernels: 0..count,
        peak_bytes: 50 * 16,
        values: (0..count).map(stored).collect(),
        buffers: vec![16; 50],
        scratch: Vec::new(),
    });
    picture
}

#[test]
fn a_picture_of_nothing_is_a_page() {
    let page = Page::of(&Picture::default());
    assert_eq!(page.with_class("op").count(), 0);
    assert!(page.says("The recorded graph"));
}

#[test]
fn pages_of_any_size_are_bounded() {
    let sizes = [1, 40, 41, 1_000, 5_000].map(|count| {
        let picture = disorder(count);
        let page = Page::of(&picture);
        assert!(page.with_class("op").count() <= 160 && page.with_class("card").count() <= 160);
        picture.to_html().len() + picture.to_svg().len()
    });
    assert!(sizes[0] < 20_000, "{sizes:?}");
    assert!(sizes.iter().all(|&size| size < 800_000), "{sizes:?}");
}
