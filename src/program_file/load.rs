//! Files become programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::TEXT;
use super::checksum::{crc32, of_tensor_list};
use super::document::{Document, KeepForm, place_of, type_of};
use super::reason::Unreadable;
use crate::base::future::BoxFuture;
use crate::batch::{GpuCommandBatch, LoadOptions, Program, Weights};
use crate::cost::Backend;
use crate::device::Device;
use crate::error::{DataError, Origin, Result, first_of, quoted};
use crate::exec::Patch;
use crate::graph::{Graph, NodeId};
use crate::ops::{CustomKernel, Op, Type};
use crate::record::Record;
use crate::residents::{Handle, Keep, SliceUpdate, Storage};

/// Programs from files.
impl Program {
    /// Loads the program that was [saved](Self::save) at `path`, and plans it for `device`. Its inputs and outputs are
    /// found by their names. Residents and state have the values of the file; [`resident`](Self::resident) finds them by
    /// name.
    ///
    /// The file is read once. On a device without a GPU, weights stay in the memory that it was read to, and are not
    /// copied.
    ///
    /// A file is checked as data of a stranger: a damaged or hostile one is an error. So is one that was changed after
    /// it was saved, by checksums of its graph and of each tensor. Kernels of its own in WGSL are refused:
    /// [`load_with`](Self::load_with) can allow them.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, Program};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 2);
    /// (x * batch.upload(&[2.0_f32, 3.0])).named("y");
    /// let path = std::env::temp_dir().join(format!("onetrip-{}.safetensors", std::process::id()));
    /// batch.save(&path).await?;
    ///
    /// let program = Program::load(&Device::cpu(), &path).await?;
    /// let outputs = program.run([("x", &[1.0_f32, 10.0])]).await?;
    /// assert_eq!(outputs.read::<f32>("y").await?, [2.0, 30.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError::File`] if the file cannot be read, was changed, holds no program, or one of a later version; as
    /// [`GpuCommandBatch::compile`].
    pub async fn load(device: &Device, path: impl AsRef<std::path::Path>) -> Result<Self> {
        let file = Weights::read_by("Program::load", path.as_ref())?;
        Self::load_with(device, &file, LoadOptions::default()).await
    }

    /// As [`load`](Self::load), for a file that is in memory.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_bytes(device: &Device, bytes: Vec<u8>) -> Result<Self> {
        let file = Weights::from_bytes(bytes)?;
        Self::load_with(device, &file, LoadOptions::default()).await
    }

    /// As [`load`](Self::load), from a file that is open, with options. On a device without a GPU each weight is read
    /// where it lies in the file's memory, which the program holds: of a [mapped](Weights::map) file nothing is copied,
    /// and processes share its pages. With a GPU each weight is copied once, from the file's memory.
    ///
    /// The graph's checksum is always compared. The checksum of each tensor is compared too, unless a mapped tensor is
    /// read in place, by the runs that need it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch, LoadOptions, Program, Weights};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// # batch.relu(batch.upload(&[1.0_f32, -1.0])).named("y");
    /// # let bytes = batch.to_bytes().await?;
    /// let file = Weights::from_bytes(bytes)?;
    /// let options = LoadOptions { wgsl: true, ..LoadOptions::default() };
    /// let program = Program::load_with(&Device::cpu(), &file, options).await?;
    /// assert_eq!(program.run(()).await?.read::<f32>("y").await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load); [`DataError::File`] for a function of [`LoadOptions::on_cpu`] that no kernel takes, and
    /// [`DataError::LeftOut`] for a weight that no file has.
    pub fn load_with<'a>(
        device: &'a Device,
        file: &'a Weights,
        options: LoadOptions,
    ) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            let loader = Loader { device, file, options };
            let recorded = loader.recorded(&opened(file)?)?;
            Self::compiled(Arc::new(recorded)).await
        })
    }
}

/// The document of a file.
pub(super) fn opened(file: &Weights) -> Result<Document> {
    let Some(text) = file.text(TEXT) else {
        let reason = "it holds tensors and no program; make a file of one by `Program::save`";
        return Err(unreadable(file, Unreadable::Refused(reason.to_owned())));
    };
    let document = Document::parse(text).map_err(|reason| unreadable(file, reason))?;
    let list = file.tensor_list();
    let mut list = list.iter().map(|(name, info)| (&**name, info.dtype, &info.shape[..]));
    let checksum = of_tensor_list(&mut list);
    if document.tensor_list_checksum.is_some_and(|saved| saved != checksum) {
        return Err(unreadable(file, Unreadable::changed("its list of tensors")));
    }
    Ok(document)
}

/// The error for a file that cannot be read.
pub(super) fn unreadable(file: &Weights, reason: impl Into<Unreadable>) -> crate::error::Error {
    let reason = reason.into().to_string();
    DataError::File { name: file.name().to_owned(), reason }.into()
}

struct Loader<'a> {
    device: &'a Device,
    file: &'a Weights,
    options: LoadOptions,
}

impl Loader<'_> {
    fn recorded(&self, document: &Document) -> Result<Record> {
        self.check_kernels(document)?;
        let (graph, nodes) = document.graph().map_err(|reason| unreadable(self.file, reason))?;
        let batch = GpuCommandBatch::new(self.device);
        let mut recorded = Record::clone(&batch.recorded());
        (recorded.graph, recorded.made_at) = (Arc::new(graph), None);
        self.give_functions(&mut recorded)?;
        let node = |at: u32| {
            let node = nodes.get(at as usize).copied();
            node.ok_or_else(|| unreadable(self.file, format!("there is no node {at}")))
        };
        for (name, &at) in &document.names {
            recorded.names.insert(name, node(at)?);
        }
        for &at in &document.downloads {
            let node = node(at)?;
            if !recorded.graph.downloads.contains(&node) {
                recorded.graph_mut().downloads.push(node);
            }
        }
        self.data(document, &mut recorded)?;
        self.keeps(document, &mut recorded, &node)?;
        self.check_given(document)?;
        if recorded.graph.len() == 0 {
            return Err(unreadable(self.file, "the program in it is empty"));
        }
        debug_assert_eq!(recorded.graph.verify(), Ok(()));
        Ok(recorded)
    }

    fn check_kernels(&self, document: &Document) -> Result<()> {
        let mut nodes = document.nodes.iter();
        match nodes.find(|node| matches!(node.op, Op::Custom(_))) {
            Some(node) if !self.options.wgsl => {
                let reason = format!(
                    "it has a kernel of its own, recorded at {}; load it with `LoadOptions::wgsl` if you trust it",
                    node.place
                );
                Err(unreadable(self.file, Unreadable::Refused(reason)))
            }
            _ => Ok(()),
        }
    }

    /// Gives kernels the functions for the CPU that the options bring.
    fn give_functions(&self, recorded: &mut Record) -> Result<()> {
        let refused = |reason| unreadable(self.file, Unreadable::Refused(reason));
        let given = &self.options.on_cpu.0;
        if given.is_empty() {
            return Ok(());
        }
        let mut sources: BTreeMap<&str, Arc<str>> = BTreeMap::new();
        let graph = Arc::clone(&recorded.graph);
        let custom = graph.iter().filter_map(|(id, node)| match &node.op {
            Op::Custom(kernel) => Some((id, node, kernel)),
            _ => None,
        });
        let mut entries = BTreeSet::new();
        for (id, node, kernel) in custom {
            let entry = &*kernel.entry;
            entries.insert(entry);
            let Some(twin) = given.get(entry) else { continue };
            let source = sources.entry(entry).or_insert_with(|| Arc::clone(&kernel.source));
            let of = format!("the kernel {} recorded at {}", quoted(entry), node.place);
            if *source != kernel.source {
                return Err(refused(format!(
                    "two kernels of different sources have the entry point of `LoadOptions::on_cpu`: {of} is the second; \
                     give each an entry point of its own before the program is saved"
                )));
            }
            let inputs: Vec<_> = node.inputs.iter().map(|&input| graph[input].ty.dtype).collect();
            if let Some(misfit) = twin.misfit(&inputs, node.ty.dtype) {
                return Err(refused(format!("the function for {of} is of {misfit}")));
            }
            let function = Some(recorded.functions.len() as u32);
            recorded.functions.push(twin.function.clone());
            let kernel = CustomKernel { function, ..CustomKernel::clone(kernel) };
            recorded.graph_mut().set_op(id, Op::Custom(Arc::new(kernel)));
        }
        let Some(stray) = given.keys().find(|name| !sources.contains_key(&***name)) else {
            return Ok(());
        };
        let entries = match &*Vec::from_iter(entries) {
            [] => "it has no kernels of its own".to_owned(),
            entries => format!("its kernels have {}", first_of(entries, 20)),
        };
        let stray = quoted(stray);
        Err(refused(format!(
            "no kernel has the entry point {stray} of `LoadOptions::on_cpu`; {entries}"
        )))
    }

    /// Fills uploads and residents.
    fn data(&self, document: &Document, recorded: &mut Record) -> Result<()> {
        let mut sources = BTreeMap::new();
        for (id, node) in recorded.graph.iter() {
            if let Op::Upload(at) = node.op {
                sources.insert(at as usize, id);
            }
        }
        let mut data = Vec::with_capacity(sources.len());
        for (tensor, id) in document.uploads.iter().zip(sources.into_values()) {
            let node = &recorded.graph[id];
            let buffer = tensor.as_ref().map(|tensor| {
                let file = self.holder(tensor)?;
                self.check_tensor(document, file, tensor, &node.ty)?;
                let of = Origin::unnamed(node.name, node.place.clone());
                file.data(self.device, tensor, &node.ty, &of).map(Arc::new)
            });
            data.push(buffer.transpose()?);
        }
        recorded.uploads = data;
        Ok(())
    }

    /// Fails if weights are given and none of them is a tensor of the program.
    fn check_given(&self, document: &Document) -> Result<()> {
        let Some(given) = &self.options.weights else { return Ok(()) };
        let residents = document.residents.iter().filter_map(|form| form.tensor.as_ref());
        let names: Vec<&String> = document.uploads.iter().flatten().chain(residents).collect();
        let Some(first) = names.first() else { return Ok(()) };
        if names.iter().any(|name| given.shape(name).is_ok()) {
            return Ok(());
        }
        let reason = format!(
            "it has none of the tensors of the program, such as {}; give a file with these names, or name the weights by \
             `named` before the program is saved",
            quoted(first)
        );
        Err(DataError::File { name: given.name().to_owned(), reason }.into())
    }

    /// The file that has a tensor: the one with weights that were given, or that of the program.
    fn holder(&self, tensor: &str) -> Result<&Weights> {
        let given = self.options.weights.as_ref();
        let left_out = || DataError::LeftOut {
            file: self.file.name().into(),
            name: tensor.into(),
            given: given.map(|weights| (weights.name().into(), weights.names())),
        };
        let mut files = given.into_iter().chain([self.file]);
        Ok(files.find(|file| file.shape(tensor).is_ok()).ok_or_else(left_out)?)
    }

    /// Compares the checksum of a tensor that the load takes from the program's own file.
    fn check_tensor(
        &self,
        document: &Document,
        holder: &Weights,
        tensor: &str,
        ty: &Type,
    ) -> Result<()> {
        let is_left = holder.is_mapped() && holder.reads_in_place(self.device, tensor, ty.dtype);
        if is_left || !std::ptr::eq(holder, self.file) {
            return Ok(());
        }
        let saved = document.tensor_checksums.get(tensor);
        match (saved, holder.bytes(tensor)) {
            (Some(&saved), Some(bytes)) if saved != crc32(bytes) => {
                let part = format!("its tensor {}", quoted(tensor));
                Err(unreadable(self.file, Unreadable::changed(&part)))
            }
            _ => Ok(()),
        }
    }

    fn handles(&self, document: &Document) -> Result<Vec<Handle>> {
        let handles = document.residents.iter().map(|form| {
            let ty = type_of(&form.dtype, &form.shape);
            let ty = ty.map_err(|reason| unreadable(self.file, reason))?;
            let place = place_of(&form.place);
            // A tensor without a value of its name was named by its position alone.
            let name = form.tensor.as_deref().filter(|&name| document.names.contains_key(name));
            let name = name.map(Into::into);
            let of = Origin { op: "resident", name, place };
            let Some(tensor) = &form.tensor else {
                return Ok(Handle::new(self.device, ty, of, Storage::Empty));
            };
            let file = self.holder(tensor)?;
            self.check_tensor(document, file, tensor, &ty)?;
            file.handle(self.device, tensor, &ty, &of)
        });
        handles.collect()
    }

    /// Makes the residents, which the graph reads and each run fills.
    fn keeps(
        &self,
        document: &Document,
        recorded: &mut Record,
        node: &dyn Fn(u32) -> Result<NodeId>,
    ) -> Result<()> {
        let wrong = |reason: &str| unreadable(self.file, reason);
        let handles = self.handles(document)?;
        let handle = |at: u32| {
            let handle = handles.get(at as usize).cloned();
            handle.ok_or_else(|| wrong("a resident is not there"))
        };
        recorded.residents = document.bound.iter().map(|&at| handle(at)).collect::<Result<_>>()?;
        for keep in &document.keeps {
            let (whole, handle) = (node(keep.value)?, handle(keep.resident)?);
            if recorded.graph[whole].ty != *handle.ty() {
                return Err(wrong("a kept value is of another type than its resident"));
            }
            if recorded.keeps.iter().any(|keep| keep.handle.is_same(&handle)) {
                return Err(wrong("two values are kept in one resident"));
            }
            let slice = slice(keep, &recorded.graph, node)?;
            let slice = slice.map_err(|reason| wrong(&reason))?;
            let slice =
                slice.filter(|slice| slice.pays(handle.ty(), self.device.uses(Backend::Gpu)));
            let patch = slice.map(|slice| slice.patch);
            recorded.keep(slice.map_or(whole, |slice| slice.new), Keep { handle, patch });
            recorded.graph_mut().updates.extend(slice.map(|_| whole));
        }
        Ok(())
    }
}

/// The slice in which a kept value alone differs, checked.
fn slice(
    keep: &KeepForm,
    graph: &Graph,
    node: &dyn Fn(u32) -> Result<NodeId>,
) -> Result<Result<Option<SliceUpdate>, String>> {
    let Some(form) = keep.slice else { return Ok(Ok(None)) };
    let (whole, new) = (node(keep.value)?, node(form.new)?);
    let (all, own): (&Type, &Type) = (&graph[whole].ty, &graph[new].ty);
    let same = own.dtype == all.dtype && own.shape.rank() == all.shape.rank();
    let rank = all.shape.rank();
    if !same || form.axis >= rank {
        return Ok(Err("a slice is of another type than its resident".into()));
    }
    let end = form.at.checked_add(own.shape[form.axis]);
    let inside = end.is_some_and(|end| end <= all.shape[form.axis]);
    let fits = (0..rank).all(|a| a == form.axis || own.shape[a] == all.shape[a]);
    if !inside || !fits || all.shape.elements() == 0 {
        return Ok(Err("a slice does not lie in its resident".into()));
    }
    let patch = Patch::new(&all.shape, form.axis, form.at, own.shape[form.axis]);
    Ok(Ok(Some(SliceUpdate { state: whole, new, patch })))
}
