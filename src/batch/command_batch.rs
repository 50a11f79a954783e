//! Questions to a batch and requests for its results.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BufferId, GpuCommandBatch, Values};
use crate::base::dtype::Element;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::base::sync::Mutex;
use crate::cost::Placement;
use crate::device::Device;
use crate::error::{MistakeKind, Result};
use crate::plan::Explanation;
use crate::record::{Record, Recorder, UntypedId, elsewhere};
use crate::session::RunStats;

static NEXT_BRAND: AtomicU64 = AtomicU64::new(0);

impl GpuCommandBatch {
    /// An empty batch for `device`.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        let brand = NEXT_BRAND.fetch_add(1, Ordering::Relaxed);
        Self {
            device: device.clone(),
            brand,
            recorder: Mutex::new(Recorder::new(device, brand)),
            last: Mutex::default(),
            running: tokio::sync::Mutex::default(),
        }
    }

    /// The device that the batch runs on.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// assert!(!batch.device().is_gpu());
    /// ```
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sets how later runs choose their side: at first as the device does.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Backend, Device, GpuCommandBatch, Placement};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.set_placement(Placement::Cpu);
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// batch.execute().await?;
    /// assert_eq!(batch.stats().backend, Some(Backend::Cpu));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn set_placement(&self, placement: Placement) {
        let mut recorder = self.recorder.lock();
        if recorder.recorded().placement != placement {
            recorder.change().placement = placement;
        }
    }

    /// Gives a place to all that this thread records until the result is dropped: bindings of other languages name a
    /// line of their user's code. Errors, [`explain`](Self::explain) and [`to_dot`](Self::to_dot) then name that line,
    /// in place of one of the binding.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (x, y) = (batch.upload(&[1.0_f32; 2]), batch.upload(&[1.0_f32; 3]));
    /// {
    ///     let _at = batch.at("model.py", 12);
    ///     batch.add(x, y);
    /// }
    /// let error = batch.check_recorded().unwrap_err().to_string();
    /// assert!(error.starts_with("model.py:12: add: "));
    /// ```
    pub fn at(&self, file: &str, line: u32) -> At<'_> {
        At { before: Place::set(Some(Place::given(file, line))), of: PhantomData }
    }

    /// The shape of a value. `None` if the id is of another batch, or comes from a mistake.
    #[must_use]
    pub fn shape<T: Element>(&self, id: impl Into<BufferId<T>>) -> Option<Shape> {
        self.shape_of(id.into().value()).ok()
    }

    /// Asks for `id` to be read after a run. Once anything was asked for, only that is downloaded.
    #[track_caller]
    pub fn download<T: Element>(&self, id: impl Into<BufferId<T>>) {
        self.output("download", id.into().value());
    }

    /// Requests several values, as [`download`](Self::download) requests one. Pass an array, a slice or a vector of ids
    /// or tensors; pass a tuple if the element types differ.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, 5.0, 3.0]);
    /// let shares = x.softmax(0);
    /// let best = shares.argmax(0);
    /// batch.outputs((shares, best));
    /// batch.execute().await?;
    /// assert_eq!(batch.read(best).await?, [1]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn outputs(&self, values: impl Values) {
        let mut all = Vec::new();
        values.each(&mut |value| all.push(value));
        for value in all {
            self.output("outputs", value);
        }
    }

    #[track_caller]
    fn output(&self, method: &'static str, value: UntypedId) {
        let mut recorder = self.recorder.lock();
        match recorder.check(value).map_err(elsewhere) {
            Ok(node) if !recorder.recorded().graph.downloads.contains(&node) => {
                recorder.change().graph_mut().downloads.push(node);
            }
            Ok(_) => {}
            Err(what) => recorder.note(method, what),
        }
    }

    /// Gives a value a name, by which runs of a [`Program`](crate::Program) can find it. A name alone does not ask for the
    /// value: [`download`](Self::download) or [`outputs`](Self::outputs) does. It is a mistake to give a name twice.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, -2.0]);
    /// batch.name(x, "x");
    /// batch.name(x.relu(), "y");
    /// let outputs = batch.compile().await?.run([("x", &[-1.0_f32, 3.0])]).await?;
    /// assert_eq!(outputs.read::<f32>("y").await?, [0.0, 3.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn name<T: Element>(&self, id: impl Into<BufferId<T>>, name: &str) {
        let mut recorder = self.recorder.lock();
        let node = recorder.check(id.into().value()).map_err(elsewhere).and_then(|node| {
            let recorded = recorder.recorded();
            match recorded.names.get(name) {
                Some(other) => Err(MistakeKind::NameTaken(recorded.origin(other))),
                None => Ok(node),
            }
        });
        match node {
            Ok(node) => recorder.name(node, name),
            Err(what) => recorder.note("name", what),
        }
    }

    /// The plan of a run. It lists every kernel with the operations fused in it, its shapes, bytes, flops and predicted
    /// time. It says where the kernels run and why, and gives the transfers and the peak of memory of the whole.
    ///
    /// # Errors
    /// Every mistake made while recording, or why the graph cannot be planned for the device.
    pub fn explain(&self) -> Result<Explanation> {
        let (recorded, version) = self.snapshot().checked_record()?;
        let choice = self.last.lock().choice_for(version);
        recorded.session(&choice).explanation()
    }

    /// The recorded graph in Graphviz's language.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// assert!(batch.to_dot().starts_with("digraph"));
    /// ```
    #[must_use]
    pub fn to_dot(&self) -> String {
        self.recorded().graph.to_dot()
    }

    /// The counters of the last run, or zeros before the first.
    #[must_use]
    pub fn stats(&self) -> RunStats {
        self.last.lock().stats.clone()
    }

    /// Every mistake so far, as [`execute`](Self::execute) would report it.
    ///
    /// # Errors
    /// All mistakes, in the order in which they were made.
    pub fn check_recorded(&self) -> Result<()> {
        self.recorder.lock().check_mistakes()
    }

    /// The record so far. While the result is held, further recording copies it.
    pub(crate) fn recorded(&self) -> Arc<Record> {
        Arc::clone(self.recorder.lock().recorded())
    }
}

/// The time in which a thread records under the place that it gave to [`GpuCommandBatch::at`]. Its end restores the
/// place before.
#[derive(Debug)]
#[must_use = "the place counts until this is dropped"]
pub struct At<'b> {
    before: Option<Place>,
    /// It stays on its thread.
    of: PhantomData<(&'b GpuCommandBatch, *const ())>,
}

impl Drop for At<'_> {
    fn drop(&mut self) {
        Place::set(self.before.take());
    }
}
