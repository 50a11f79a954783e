//! The document of a program: its graph as JSON.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::check::check;
use super::checksum::checksum_matches;
use super::operation::OpForm;
use super::reason::Unreadable;
use super::wire::Wire;
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::error::quoted;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Op, Type, check_size};

/// The version of the format. A file of any other version is refused.
pub(super) const VERSION: u32 = 1;
/// The greatest number of nodes.
const MOST_NODES: usize = 1 << 20;
/// The greatest number of residents, and of downloads: others are compared with each.
const MOST_HELD: usize = 1 << 14;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub version: u32,
    /// The version of the crate that wrote the file.
    pub onetrip: String,
    /// The program's fingerprint in that version, in hexadecimal.
    pub fingerprint: String,
    pub nodes: Vec<NodeForm>,
    /// Names of values, by position of their nodes.
    pub names: BTreeMap<String, u32>,
    /// The tensor that each upload has as data; none for an input.
    pub uploads: Vec<Option<String>>,
    pub residents: Vec<ResidentForm>,
    /// The resident behind each position of a `resident` node.
    pub bound: Vec<u32>,
    pub downloads: Vec<u32>,
    pub keeps: Vec<KeepForm>,
    /// The checksum of each tensor of the file, by name. The first files had no checksums.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tensor_checksums: BTreeMap<String, u32>,
    /// The checksum of the file's list of tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_list_checksum: Option<u32>,
    /// The checksum of the document's text before it, which is added to the text.
    #[serde(default, skip_serializing)]
    pub checksum: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeForm {
    #[serde(with = "OpForm")]
    pub op: Op,
    /// The method that the user called, where it is another than the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<u32>,
    #[serde(rename = "type")]
    pub dtype: String,
    pub shape: Vec<usize>,
    pub place: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResidentForm {
    #[serde(rename = "type")]
    pub dtype: String,
    pub shape: Vec<usize>,
    pub place: String,
    /// The tensor that it holds at first; none if no run has filled it.
    pub tensor: Option<String>,
}

/// A value that each run leaves in a resident.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeepForm {
    pub value: u32,
    pub resident: u32,
    /// The slice in which alone the value differs from the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<SliceForm>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SliceForm {
    pub new: u32,
    pub axis: usize,
    pub at: usize,
}

impl Document {
    /// The document in `text`, or the reason why there is none.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let wrong = |error: serde_json::Error| {
            Unreadable::of_parser(&error).map(|text| format!("its graph cannot be read: {text}"))
        };
        let versioned = serde_json::from_str(text);
        if let Ok(Versioned { version }) = versioned
            && version != VERSION
        {
            return Err(Unreadable::Refused(format!(
                "it has version {version} of the format of programs, and this onetrip reads version {VERSION}; \
                 load it with the release that wrote it"
            )));
        }
        let matches = checksum_matches(text);
        if matches == Some(false) {
            return Err(Unreadable::changed("its graph"));
        }
        versioned.map_err(wrong)?;
        let document: Self = serde_json::from_str(text).map_err(wrong)?;
        if document.checksum.is_some() && matches.is_none() {
            return Err(Unreadable::changed("its graph"));
        }
        document.fingerprint()?;
        let residents = document.residents.iter().map(|resident| &resident.tensor);
        let mut tensors: Vec<_> = document.uploads.iter().chain(residents).flatten().collect();
        tensors.sort_unstable();
        if let Some(twice) = tensors.windows(2).find(|pair| pair[0] == pair[1]) {
            let twice = quoted(twice[0]);
            return Err(format!("two uploads or residents hold the tensor {twice}").into());
        }
        let Self { nodes, residents, bound, downloads, keeps, .. } = &document;
        let counts = [
            ("operations", nodes.len(), MOST_NODES),
            ("residents", residents.len().max(bound.len()), MOST_HELD),
            ("downloads", downloads.len(), MOST_HELD),
            ("kept values", keeps.len(), MOST_HELD),
        ];
        match counts.into_iter().find(|&(_, count, most)| count > most) {
            Some((what, count, most)) => {
                let cure = "save its parts as programs of their own";
                let reason = format!("it has {count} {what}, and {most} are the most; {cure}");
                Err(Unreadable::Refused(reason))
            }
            None => Ok(document),
        }
    }

    /// The program's fingerprint, or the reason why there is none.
    pub fn fingerprint(&self) -> Result<u128, String> {
        u128::from_str_radix(&self.fingerprint, 16).map_err(|_| {
            let fingerprint = quoted(&self.fingerprint);
            format!("its fingerprint {fingerprint} is no number of hexadecimal digits")
        })
    }

    pub fn nodes(graph: &Graph) -> Vec<NodeForm> {
        let positions = positions(graph);
        let nodes = graph.iter().map(|(_, node)| NodeForm {
            op: node.op.clone(),
            method: (node.method() != node.op.name()).then(|| node.method().to_owned()),
            inputs: node.inputs.iter().map(|input| positions[input]).collect(),
            dtype: node.ty.dtype.form(),
            shape: node.ty.shape.form(),
            place: node.place.to_string(),
        });
        nodes.collect()
    }

    /// The graph, of which each node was checked, without outputs; and its nodes by position.
    pub fn graph(&self) -> Result<(Graph, Vec<NodeId>), Unreadable> {
        let (mut graph, mut ids) = (Graph::default(), Vec::with_capacity(self.nodes.len()));
        let mut places = HashMap::new();
        let mut given = vec![false; self.uploads.len()];
        for (at, form) in self.nodes.iter().enumerate() {
            let wrong = |what: Unreadable| {
                let (op, place) = (form.op.name(), &form.place);
                what.map(|what| format!("node {at}, `{op}` of {place}, {what}"))
            };
            let inputs = form.inputs.iter().map(|&input| ids.get(input as usize).copied());
            let inputs: Option<_> = inputs.collect();
            let inputs =
                inputs.ok_or_else(|| wrong("has an operand that is no node before it".into()))?;
            let ty = type_of(&form.dtype, &form.shape).map_err(wrong)?;
            let name = match &form.method {
                Some(name) => Wire::of(name.clone()).map_err(wrong)?,
                None => form.op.name(),
            };
            let place = places.entry(&*form.place).or_insert_with(|| place_of(&form.place)).clone();
            let node = Node { op: form.op.clone(), name, inputs, ty, place };
            match form.op {
                Op::Upload(upload) => match given.get_mut(upload as usize) {
                    Some(given) if !*given => *given = true,
                    _ => {
                        let what = format!("is upload {upload}, which is none or another node");
                        return Err(wrong(what.into()));
                    }
                },
                Op::Resident(resident) => {
                    let of = self.bound.get(resident as usize);
                    let of = of.and_then(|&of| self.residents.get(of as usize));
                    let none = || format!("is resident {resident}, which is none");
                    let of = of.ok_or_else(|| wrong(none().into()))?;
                    if (&of.dtype, &of.shape) != (&form.dtype, &form.shape) {
                        return Err(wrong("is of another type than its resident".into()));
                    }
                }
                _ => {}
            }
            check(&graph, &node).map_err(|what| wrong(what.into()))?;
            ids.push(graph.push(node));
        }
        match given.iter().position(|given| !given) {
            Some(upload) => Err(format!("no node is upload {upload}").into()),
            None => Ok((graph, ids)),
        }
    }
}

/// The positions of the nodes in their order.
pub(super) fn positions(graph: &Graph) -> HashMap<NodeId, u32> {
    graph.iter().enumerate().map(|(at, (id, _))| (id, at as u32)).collect()
}

/// A type, of which the shape can be counted.
pub(super) fn type_of(dtype: &str, shape: &[usize]) -> Result<Type, Unreadable> {
    let (dtype, shape) = (DType::of(dtype.to_owned())?, Shape::from(shape));
    check_size(&shape).map_err(|what| what.to_string())?;
    Ok(Type { dtype, shape })
}

/// The place that prints as `text`.
pub(super) fn place_of(text: &str) -> Place {
    let parts = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = parts.unwrap_or((text, 0));
    Place::given(file, line)
}
