//! Programs and batches become files.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::{Dtype, View};

use super::TEXT;
use super::checksum::{crc32, of_tensor_list, with_checksum};
use super::document::{Document, KeepForm, ResidentForm, SliceForm, VERSION, positions};
use super::wire::Wire;
use crate::base::disk::whole_file::write_whole;
use crate::base::dtype::DType;
use crate::base::future::BoxFuture;
use crate::batch::{GpuCommandBatch, Program, SaveOptions};
use crate::error::{DataError, DeviceError, Result};
use crate::exec::HostBuffer;
use crate::graph::NodeId;
use crate::ops::{Op, Type};
use crate::record::{Record, fresh};
use crate::residents::Handle;

/// Programs as files.
impl Program {
    /// Writes the program to one file, which [`load`](Self::load) reads on any machine: operations, data of uploads,
    /// the present values of residents and state, names. Inputs stay inputs. The file is of the format safetensors, so
    /// that other tools see its tensors; `docs/program-file.md` describes it.
    ///
    /// Outputs and kept values without a name get one: `output0`, `kept0` and so on. Tensors have the names of the
    /// values that [bind](GpuCommandBatch::bind) or upload them, else `resident0` or `upload0`.
    ///
    /// No file holds a [function for the CPU](crate::Wgsl::on_cpu) of a kernel:
    /// [`LoadOptions::on_cpu`](crate::LoadOptions::on_cpu) gives it again.
    ///
    /// # Errors
    /// [`DataError::File`] if the file cannot be written; as [`Resident::read`](crate::Resident::read).
    pub async fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_with(path, SaveOptions::default()).await
    }

    /// As [`save`](Self::save), with options.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch, Program, SaveOptions};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// # (batch.input::<f32>("x", 2) * 2.0).named("y");
    /// # let program = batch.compile().await?;
    /// # let path = std::env::temp_dir().join(format!("onetrip-with-{}.safetensors", std::process::id()));
    /// program.save_with(&path, SaveOptions::default()).await?;
    /// let bytes = std::fs::read(&path).unwrap();
    /// let again = Program::load_bytes(&Device::cpu(), bytes).await?;
    /// assert_eq!(again.fingerprint(), program.fingerprint());
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub async fn save_with(&self, path: impl AsRef<Path>, options: SaveOptions) -> Result<()> {
        write(path.as_ref(), &contents(self.recorded(), options).await?)
    }

    /// The file that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub async fn to_bytes(&self) -> Result<Vec<u8>> {
        contents(self.recorded(), SaveOptions::default()).await
    }
}

/// Batches as files.
impl GpuCommandBatch {
    /// As [`Program::save`], for the batch as it is recorded so far.
    ///
    /// # Errors
    /// As [`Program::save`]; every mistake made while recording; [`PlanError::Empty`](crate::PlanError::Empty) if
    /// nothing is recorded.
    pub async fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write(path.as_ref(), &self.to_bytes().await?)
    }

    /// The file that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub async fn to_bytes(&self) -> Result<Vec<u8>> {
        contents(&*self.checked_record()?, SaveOptions::default()).await
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(write_whole(path, bytes).map_err(|error| DataError::File {
        name: path.display().to_string(),
        reason: format!("`save` cannot write this file: {error}; check its folder"),
    })?)
}

fn contents(recorded: &Record, options: SaveOptions) -> BoxFuture<'_, Result<Vec<u8>>> {
    Box::pin(async move {
        let mut file = FileWriter::new(recorded, options)?;
        let text = file.document().await?;
        let info = HashMap::from([(TEXT.to_owned(), text)]);
        let bytes = safetensors::serialize(&file.tensors, Some(info));
        Ok(bytes.map_err(|error| DeviceError::broken(&error.to_string()))?)
    })
}

/// A tensor of the file.
struct FileTensor {
    ty: Type,
    data: Arc<HostBuffer>,
}

impl View for &FileTensor {
    fn dtype(&self) -> Dtype {
        match self.ty.dtype {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::I32 => Dtype::I32,
            DType::U32 => Dtype::U32,
            DType::Bool => Dtype::BOOL,
        }
    }
    fn shape(&self) -> &[usize] {
        self.ty.shape.dims()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.data.bytes().into()
    }
    fn data_len(&self) -> usize {
        self.data.bytes().len()
    }
}

struct FileWriter<'a> {
    recorded: &'a Record,
    options: SaveOptions,
    positions: HashMap<NodeId, u32>,
    /// The names of values by position, those of the file's own too.
    names: BTreeMap<String, u32>,
    /// The names of tensors, those that are left out too.
    taken: HashSet<String>,
    tensors: BTreeMap<String, FileTensor>,
}

impl<'a> FileWriter<'a> {
    fn new(recorded: &'a Record, options: SaveOptions) -> Result<Self> {
        let positions = positions(&recorded.graph);
        let names = recorded.names.iter().map(|(name, node)| (name.to_owned(), positions[&node]));
        let names: BTreeMap<_, _> = names.collect();
        let mut file = Self {
            recorded,
            options,
            positions,
            names,
            taken: HashSet::from(["__metadata__".to_owned()]),
            tensors: BTreeMap::new(),
        };
        file.name_all("output", &recorded.graph.outputs());
        file.name_all("kept", &file.recorded.graph.keeps);
        Ok(file)
    }

    /// Names each of `nodes` that has no name, by its place among them.
    fn name_all(&mut self, kind: &str, nodes: &[NodeId]) {
        for (at, node) in nodes.iter().enumerate() {
            let position = self.positions[node];
            if self.name_of(position).is_none() {
                let fresh = fresh(&format!("{kind}{at}"), |name| self.names.contains_key(name));
                self.names.insert(fresh, position);
            }
        }
    }

    fn name_of(&self, position: u32) -> Option<&str> {
        let mut names = self.names.iter();
        names.find(|&(_, &named)| named == position).map(|(name, _)| &**name)
    }

    /// The name of a new tensor: that of the value at `position`, else one of the file's own.
    fn tensor_name(&mut self, position: Option<u32>, or_else: &str) -> String {
        let name = position.and_then(|position| self.name_of(position)).unwrap_or(or_else);
        let name = fresh(name, |name| self.taken.contains(name));
        self.taken.insert(name.clone());
        name
    }

    async fn document(&mut self) -> Result<String> {
        let recorded = self.recorded;
        let uploads = self.uploads();
        let (handles, bound) = handles(recorded);
        // The values of all residents are of one moment: no run that updates them is under way.
        let taken = recorded.update_order().take().await;
        let mut residents = Vec::with_capacity(handles.len());
        for (at, handle) in handles.iter().enumerate() {
            residents.push(self.resident(at, handle, &bound).await?);
        }
        drop(taken);
        let position = |node: &NodeId| self.positions[node];
        let tensors = &self.tensors;
        let checksum =
            |(name, tensor): (&String, &FileTensor)| (name.clone(), crc32(tensor.data.bytes()));
        let mut list =
            tensors.iter().map(|(name, tensor)| (&**name, tensor.dtype(), tensor.ty.shape.dims()));
        let document = Document {
            version: VERSION,
            onetrip: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: format!("{:?}", recorded.graph.fingerprint()),
            nodes: Document::nodes(&recorded.graph),
            names: self.names.clone(),
            uploads,
            residents,
            bound,
            downloads: recorded.graph.downloads.iter().map(position).collect(),
            keeps: self.keeps(&handles),
            tensor_checksums: tensors.iter().map(checksum).collect(),
            tensor_list_checksum: Some(of_tensor_list(&mut list)),
            checksum: None,
        };
        let text = serde_json::to_string(&document);
        Ok(with_checksum(text.map_err(|error| DeviceError::broken(&error.to_string()))?))
    }

    /// The tensor of each upload, by position.
    fn uploads(&mut self) -> Vec<Option<String>> {
        let recorded = self.recorded;
        let mut uploads = vec![None; recorded.uploads.len()];
        for (id, node) in recorded.graph.iter() {
            let Op::Upload(at) = node.op else { continue };
            let Some(data) = &recorded.uploads[at as usize] else { continue };
            let name = self.tensor_name(Some(self.positions[&id]), &format!("upload{at}"));
            let tensor = FileTensor { ty: node.ty.clone(), data: Arc::clone(data) };
            self.tensors.insert(name.clone(), tensor);
            uploads[at as usize] = Some(name);
        }
        uploads
    }

    async fn resident(
        &mut self,
        at: usize,
        handle: &Handle,
        bound: &[u32],
    ) -> Result<ResidentForm> {
        let recorded = self.recorded;
        let ty = handle.ty().clone();
        let is_of = |op: &Op| matches!(op, Op::Resident(of) if bound[*of as usize] as usize == at);
        let nodes = recorded.graph.iter().filter(|(_, node)| is_of(&node.op));
        let nodes: Vec<u32> = nodes.map(|(id, _)| self.positions[&id]).collect();
        let named = nodes.iter().copied().find(|&position| self.name_of(position).is_some());
        let named = named.or_else(|| self.named_as(handle, *nodes.first()?));
        let tensor = match handle.storage()? {
            None => None,
            Some(storage) => {
                let name = self.tensor_name(named, &format!("resident{at}"));
                let is_weight = named.is_some()
                    && !recorded.keeps.iter().any(|keep| keep.handle.is_same(handle));
                if !(self.options.leave_out_weights && is_weight) {
                    let data = storage.to_host(&recorded.device).await?;
                    let data = data.ok_or_else(|| handle.empty())?;
                    self.tensors.insert(name.clone(), FileTensor { ty: ty.clone(), data });
                }
                Some(name)
            }
        };
        let place = handle.origin().place.to_string();
        Ok(ResidentForm { dtype: ty.dtype.form(), shape: ty.shape.form(), place, tensor })
    }

    /// Gives the value at `position`, which has no name, that of the resident behind it, such as a weight's in its file.
    fn named_as(&mut self, handle: &Handle, position: u32) -> Option<u32> {
        let name = handle.origin().name.filter(|name| !self.names.contains_key(&**name))?;
        self.names.insert(name.to_string(), position);
        Some(position)
    }

    fn keeps(&self, handles: &[Handle]) -> Vec<KeepForm> {
        let Record { graph, keeps, .. } = self.recorded;
        let mut updates = graph.updates.iter();
        let all = keeps.iter().zip(&graph.keeps).map(|(keep, kept)| {
            let at = handles.iter().position(|handle| handle.is_same(&keep.handle));
            // A node stands for the whole of each value of which a slice is written.
            let whole = keep.patch.and_then(|patch| Some((patch, updates.next()?)));
            let slice = whole.and_then(|(patch, _)| {
                let own = &graph[*kept].ty.shape;
                let (axis, at) = patch.axis_and_start(&keep.handle.ty().shape, |axis| own[axis])?;
                Some(SliceForm { new: self.positions[kept], axis, at })
            });
            let value = self.positions[whole.map_or(kept, |(_, whole)| whole)];
            KeepForm { value, resident: at.unwrap_or_default() as u32, slice }
        });
        all.collect()
    }
}

/// The residents that a record reads and fills, each once, and the place among them of each that it reads.
fn handles(recorded: &Record) -> (Vec<Handle>, Vec<u32>) {
    let mut handles: Vec<Handle> = Vec::new();
    let mut place = |handle: &Handle| {
        let there = handles.iter().position(|one| one.is_same(handle));
        there.unwrap_or_else(|| {
            handles.push(handle.clone());
            handles.len() - 1
        }) as u32
    };
    let bound = recorded.residents.iter().map(&mut place).collect();
    recorded.keeps.iter().for_each(|keep| _ = place(&keep.handle));
    (handles, bound)
}
