//! The outputs of a batch: the values that a run brings back, and the names and shapes of values.

use super::{BufferId, GpuCommandBatch, Values};
use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::record::UntypedId;

/// Outputs, names and shapes.
impl GpuCommandBatch {
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
        match recorder.check_own(value) {
            Ok(node) if !recorder.recorded().graph.downloads.contains(&node) => {
                recorder.change().graph_mut().downloads.push(node);
            }
            Ok(_) => {}
            Err(what) => recorder.note(method, what),
        }
    }

    /// Gives a value a name, by which runs of a [`Program`](crate::Program) can find it. A name alone does not ask for the
    /// value: [`download`](Self::download) or [`outputs`](Self::outputs) does. It is a mistake to give two values
    /// one name.
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
        let node = recorder.check_own(id.into().value()).and_then(|node| {
            let recorded = recorder.recorded();
            match recorded.names.get(name) {
                Some(other) if other != node => Err(MistakeKind::NameTaken(recorded.origin(other))),
                _ => Ok(node),
            }
        });
        match node {
            Ok(node) => recorder.name(node, name),
            Err(what) => recorder.note("name", what),
        }
    }
}
