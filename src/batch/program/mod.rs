//! Programs: batches that are recorded once and run as often as wanted, by many tasks at once.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::attempt::{Attempt, Done, PlanCell};
use super::input::{Input, Key, Named};
use super::launch::Results;
use super::names::Names;
use super::profile::Profile;
use super::read::{Found, ReadView, check_length};
use super::residence::{Handle, Storage};
use super::resident::Resident;
use super::state::{Kept, Turns};
use super::stats::RunStats;
use super::upload::not_given;
use super::{BufferId, GpuCommandBatch};
use crate::cost::Placement;
use crate::device::{Device, Prepared};
use crate::dtype::Element;
use crate::error::{DataError, Origin, ReadError, Result, RunError};
use crate::graph::{Graph, NodeId};
use crate::ops::Op;
use crate::run::{HostBuffer, deadline};
use crate::shape::Shape;
use crate::trace::{OFF, Timeline, stage};

/// A compiled batch: immutable, cheap to clone, shared among tasks. Its runs share plan, pipelines, bind groups and
/// buffers, and any number of them may be under way at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let mut batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", 3);
/// let y = batch.relu(x);
/// batch.name(y, "y");
/// let program = batch.compile().await?;
///
/// let outputs = program.run([(x, &[1.0, -2.0, 3.0])]).await?;
/// assert_eq!(outputs.read(y).await?, [1.0, 0.0, 3.0]);
/// let outputs = program.run([("x", &[-1.0_f32, 2.0, 0.5])]).await?;
/// assert_eq!(outputs.read::<f32>("y").await?, [0.0, 2.0, 0.5]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    device: Device,
    brand: u64,
    graph: Graph,
    names: Names,
    /// By position; `None` where each run must bring data.
    uploads: Vec<Option<Arc<HostBuffer>>>,
    residents: Vec<Handle>,
    kept: Vec<Kept>,
    turns: Turns,
    placement: Placement,
    plan: PlanCell,
}

impl GpuCommandBatch {
    /// Plans the batch and compiles its kernels, for runs with other data. What is recorded later is not part of the
    /// program.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), but inputs need no data yet.
    pub async fn compile(&mut self) -> Result<Program> {
        self.check_recorded()?;
        let program = Inner {
            device: self.device.clone(),
            brand: self.brand,
            graph: self.graph.clone(),
            names: self.names.clone(),
            uploads: self.uploads.clone(),
            residents: self.residents.clone(),
            kept: self.kept.clone(),
            turns: Turns::of(&self.residents, &self.kept),
            placement: self.placement,
            plan: PlanCell::default(),
        };
        program.attempt().compile().await?;
        Ok(Program(Arc::new(program)))
    }
}

impl Program {
    /// Runs the program. An input that is not given has the data that it had when the program was compiled; of one that
    /// is given twice, the last counts.
    /// [Residents](GpuCommandBatch::bind) have what they hold when the run starts, and those that the batch
    /// [keeps](GpuCommandBatch::keep) have what the run made when it ends.
    ///
    /// The future is `Send` and may be dropped at any time: memory that a device still uses is used again when that
    /// has finished.
    ///
    /// # Errors
    /// [`DataError`] for data that does not fit its input, and for an input without data;
    /// [`PlanError::EmptyResident`](crate::PlanError::EmptyResident); a failure of the device
    /// ([`DeviceError`](crate::DeviceError)); a [`Fault`](crate::Fault) in the data, and then residents stay as they were.
    pub async fn run<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        let stage = stage!(OFF, "execute", operations = self.0.graph.len());
        let inputs = self.0.fitting(inputs.into_iter().map(Into::into))?;
        stage.over(pin!(self.run_timed(inputs, &OFF))).await
    }

    /// Runs the program with `inputs` that fit it.
    async fn run_timed(&self, inputs: Fitting<'_>, timeline: &Timeline) -> Result<Outputs> {
        let program = &*self.0;
        let mut stats = RunStats::default();
        let mut lent = Vec::with_capacity(inputs.len());
        let uploads = || program.gather(inputs, &mut lent);
        let done = Attempt { timeline, ..program.attempt() }
            .run(&program.turns, uploads, &mut stats)
            .await;
        lent.into_iter().for_each(|buffer| program.device.pool().give(buffer));
        let Done { prepared, results, kept } = done?;
        Ok(Outputs { program: self.clone(), prepared, results, kept, stats })
    }

    /// Runs the program once, and says what took how long: each stage on the host, each kernel by the clock of the
    /// side that ran it, beside what was predicted. The results are thrown away; residents change as in a run.
    ///
    /// On a GPU each kernel is then a pass of its own, so that its time can be taken, and none is encoded ahead: the whole
    /// takes longer than [`run`](Self::run). What the first run of a program makes, later ones find: profile the second.
    /// Of a run that was [repeated](crate::Recovery), the last attempt is told; the stage `execute` is the whole.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = batch.relu(x);
    /// let program = batch.compile().await?;
    /// let profile = program.profile([(x, &[1.0, -2.0, 3.0])]).await?;
    /// assert_eq!(profile.kernels[0].kernel, "relu");
    /// println!("{profile}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn profile<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Profile> {
        let inputs = self.0.fitting(inputs.into_iter().map(Into::into))?;
        let timeline = Timeline::begun();
        let stage = stage!(timeline, "execute", operations = self.0.graph.len());
        let outputs = stage.over(pin!(self.run_timed(inputs, &timeline))).await?;
        Ok(Profile::new(&self.0.device, &outputs.prepared, &outputs.stats, &timeline))
    }

    /// As [`run`](Self::run), if that takes no longer than `limit`, waiting for the
    /// [memory budget](crate::DeviceBuilder::memory_budget) included.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Deadline`].
    pub async fn run_within<'a>(
        &self,
        limit: Duration,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        let done = deadline::within(limit, self.run(inputs)).await;
        done.unwrap_or_else(|| Err(RunError::Deadline(limit).into()))
    }

    /// As [`run`](Self::run), unless `stop` is done before. Dropping the future of a run stops it too.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Cancelled`].
    pub async fn run_unless<'a>(
        &self,
        stop: impl Future<Output = ()>,
        inputs: impl IntoIterator<Item = impl Into<Input<'a>>>,
    ) -> Result<Outputs> {
        let done = deadline::unless(stop, self.run(inputs)).await;
        done.unwrap_or_else(|| Err(RunError::Cancelled.into()))
    }

    /// 128 bits that programs of equal structure have in common, in every process of one version of this crate: the
    /// operations with their parameters, element types and shapes, not the data. The key of the plans that a
    /// [`Device`] keeps. With a function for [the CPU](crate::Wgsl::on_cpu) among them, only processes of one build say the same.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        self.0.graph.fingerprint().0
    }

    /// The device that the program runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }
}

/// What a run was given, each with the position of the upload that it fills.
type Fitting<'a> = SmallVec<[(usize, Input<'a>); 4]>;

impl Inner {
    /// `inputs`, each with the position of the upload that it fills.
    fn fitting<'a>(&self, inputs: impl Iterator<Item = Input<'a>>) -> Result<Fitting<'a>> {
        inputs.map(|input| Ok((self.upload(&input)?, input))).collect()
    }

    /// The data of all uploads: what was recorded, unless `inputs` bring other. What is to go to the pool after the
    /// run is `lent`.
    fn gather(
        &self,
        inputs: Fitting<'_>,
        lent: &mut Vec<Arc<HostBuffer>>,
    ) -> Result<Vec<Arc<HostBuffer>>> {
        let mut uploads = self.uploads.clone();
        for (position, input) in inputs {
            let buffer = input.into_buffer(self.device.pool())?;
            lent.push(Arc::clone(&buffer));
            uploads[position] = Some(buffer);
        }
        let missing = |at| not_given(&self.graph, &self.names, at);
        let given = uploads.into_iter().enumerate();
        given.map(|(at, data)| data.ok_or_else(|| missing(at))).collect()
    }

    /// The position of the upload that `input` is for, which it fills.
    fn upload(&self, input: &Input<'_>) -> Result<usize> {
        let id = self.find(input.key).map_err(|unknown| match unknown {
            Unknown::Id => DataError::Foreign,
            Unknown::Name(name) => DataError::UnknownName { name, there: self.names.all() },
        })?;
        let node = &self.graph[id];
        let of = || self.origin(id);
        let Op::Upload(position) = node.op else {
            return Err(DataError::NotAnUpload(of()).into());
        };
        let (expected, given) = (node.ty.dtype, input.dtype);
        if expected != given {
            return Err(DataError::DType { of: of(), expected, given }.into());
        }
        let (shape, given) = (node.ty.shape.clone(), input.len());
        if let Some(given) = input.shape.clone().filter(|given| *given != shape) {
            let (of, given) = (of(), Box::new(given));
            return Err(DataError::Shape { of, given, expected: shape }.into());
        }
        if given != shape.elements() {
            return Err(DataError::Length { of: of(), given, shape }.into());
        }
        Ok(position as usize)
    }

    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            device: &self.device,
            graph: &self.graph,
            placement: self.placement,
            residents: &self.residents,
            kept: &self.kept,
            plan: &self.plan,
            timeline: &OFF,
        }
    }

    fn origin(&self, node: NodeId) -> Origin {
        self.names.origin(&self.graph, node)
    }

    fn find(&self, key: Key<'_>) -> Result<NodeId, Unknown> {
        match key.0 {
            Named::Id(node, brand) if brand == self.brand && self.graph.get(node).is_some() => {
                Ok(node)
            }
            Named::Id(..) => Err(Unknown::Id),
            Named::Name(name) => self.names.get(name).ok_or_else(|| Unknown::Name(name.to_owned())),
        }
    }
}

/// A key of no value.
enum Unknown {
    Id,
    Name(String),
}

/// What one run of a [`Program`] made.
pub struct Outputs {
    program: Program,
    prepared: Arc<Prepared>,
    results: Results,
    /// In the order of the graph's keeps.
    kept: Vec<Storage>,
    stats: RunStats,
}

/// How a value of a program is named: the id that recording it returned, or the
/// [name](GpuCommandBatch::name) that it was given.
pub trait OutputKey<T>: sealed::Keyed + Copy {}

impl<T: Element> OutputKey<T> for BufferId<T> {}
impl<T: Element> OutputKey<T> for &str {}

mod sealed {
    use crate::batch::input::Key;

    pub trait Keyed {
        fn key(&self) -> Key<'_>;
    }
}

impl<T> sealed::Keyed for BufferId<T> {
    fn key(&self) -> Key<'_> {
        (*self).into()
    }
}

impl sealed::Keyed for &str {
    fn key(&self) -> Key<'_> {
        (*self).into()
    }
}

impl Outputs {
    /// A result in a vector of its own, in row-major order. Costs as [`GpuCommandBatch::read`].
    ///
    /// # Errors
    /// [`ReadError`] if the program does not download the value, or it is of another type.
    pub async fn read<T: Element>(&self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        Ok(self.found::<T>(key)?.0.into_vec().await)
    }

    /// As [`read`](Self::read), for the last that is read of a run: what the host computed is not copied where an element
    /// has 32 bits and nobody else holds the result, as a [view](Self::read_view) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = batch.relu(x);
    /// batch.download(y);
    /// let program = batch.compile().await?;
    /// let y = program.run([(x, &[1.0, -2.0, 3.0])]).await?.into_vec(y).await?;
    /// assert_eq!(y, [1.0, 0.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn into_vec<T: Element>(self, key: impl OutputKey<T>) -> Result<Vec<T>> {
        let (found, _) = self.found::<T>(key)?;
        let Self { program, results, kept, .. } = self;
        drop((results, kept));
        Ok(found.taken(program.0.device.pool()).await)
    }

    /// Copies a result to `out`, in row-major order. Costs as [`GpuCommandBatch::read_into`].
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ReadError::Length`] if `out` has not as many elements as the result.
    pub async fn read_into<T: Element>(&self, key: impl OutputKey<T>, out: &mut [T]) -> Result<()> {
        let (found, node) = self.found::<T>(key)?;
        let program = &*self.program.0;
        check_length(|| program.origin(node), &program.graph[node].ty.shape, out)?;
        found.copy_politely(out).await;
        Ok(())
    }

    /// A result where the run left it, as [`GpuCommandBatch::read_view`].
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_view<T: Element>(&self, key: impl OutputKey<T>) -> Result<ReadView<T>> {
        Ok(self.found::<T>(key)?.0.into_view())
    }

    /// What this run left on the device for a value that the batch [keeps](GpuCommandBatch::keep), whatever later runs
    /// leave in the resident that `keep` returned.
    ///
    /// # Errors
    /// [`ReadError`] if the program does not keep the value, or it is of another type.
    pub fn kept<T: Element>(&self, key: impl OutputKey<T>) -> Result<Resident<T>> {
        let node = self.node::<T>(key)?;
        let Inner { device, graph, .. } = &*self.program.0;
        let mut kept = graph.keeps.iter().zip(&self.kept);
        let kept = kept.find(|&(&kept, storage)| kept == node && !storage.is_empty());
        let (_, storage) = kept.ok_or_else(|| ReadError::NotKept(self.program.0.origin(node)))?;
        let (ty, place) = (graph[node].ty.clone(), graph[node].place);
        Ok(Resident::holding(device, ty, place, storage.clone()))
    }

    /// The shape of a value.
    ///
    /// # Errors
    /// [`ReadError`] if the program has no such value, or it is of another type.
    pub fn shape<T: Element>(&self, key: impl OutputKey<T>) -> Result<Shape> {
        Ok(self.program.0.graph[self.node::<T>(key)?].ty.shape.clone())
    }

    /// What the run did.
    #[must_use]
    pub fn stats(&self) -> &RunStats {
        &self.stats
    }

    fn found<T: Element>(&self, key: impl OutputKey<T>) -> Result<(Found, NodeId)> {
        let node = self.node::<T>(key)?;
        let found = self.results.find(&self.prepared, node);
        let missing = || ReadError::NotDownloaded(self.program.0.origin(node));
        Ok((found.ok_or_else(missing)?, node))
    }

    /// The node behind a key, whose elements are of type `T`.
    fn node<T: Element>(&self, key: impl OutputKey<T>) -> Result<NodeId, ReadError> {
        let program = &*self.program.0;
        let node = program.find(key.key()).map_err(|unknown| match unknown {
            Unknown::Id => ReadError::Foreign,
            Unknown::Name(name) => ReadError::UnknownName { name, there: program.names.all() },
        })?;
        let (found, asked) = (program.graph[node].ty.dtype, T::DTYPE);
        if found == asked {
            return Ok(node);
        }
        Err(ReadError::DType { of: program.origin(node), found, asked })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({:032x}, {:?})", self.fingerprint(), self.0.plan)
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outputs({:?}, {})", self.results, self.stats)
    }
}
