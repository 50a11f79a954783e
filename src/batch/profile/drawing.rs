//! A profile as a picture: that of the plan that ran, with the measured times.

use super::Profile;
use crate::picture::{Picture, Stage};

impl Profile {
    /// The plan that ran, as one page of HTML like that of [`Explanation::to_html`](crate::Explanation::to_html). Each
    /// kernel has its measured time beside its prediction. The stages of the run follow.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.picture().to_html()
    }

    fn picture(&self) -> Picture {
        let mut picture = self.explanation.picture();
        picture.title = format!("Profile on {}", self.device);
        picture.heading.splice(..0, std::iter::once(self.heading()).chain(self.notes()));
        for (kernel, measured) in picture.kernels.iter_mut().zip(&self.kernels) {
            kernel.measured = measured.time.map(|time| time.as_secs_f64());
        }
        let stages = self.stages.iter().map(|stage| Stage {
            name: stage.stage,
            on_gpu: stage.on_gpu,
            start: stage.start.as_secs_f64(),
            seconds: stage.time.as_secs_f64(),
        });
        picture.stages = stages.collect();
        picture
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::GpuCommandBatch;
    use crate::device::Device;
    use crate::picture::tests::Page;

    #[test]
    fn measured_times_stand_beside_predicted_ones() {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.input::<f32>("x", [3, 4]);
        let y = x.softmax(1);
        batch.outputs((y.sum(0), y.exp().sum(1)));
        let profile = pollster::block_on(async {
            let program = batch.compile().await?;
            program.profile([(x, &[0.5; 12])]).await
        });
        let profile = profile.expect("a run");
        let picture = profile.picture();
        let labels: Vec<&str> = picture.kernels.iter().map(|kernel| &*kernel.label).collect();
        let ran: Vec<&str> = profile.kernels.iter().map(|kernel| &*kernel.kernel).collect();
        assert_eq!(labels, ran);
        assert!(picture.kernels.iter().all(|kernel| kernel.measured > Some(0.0)));
        let page = Page::of(&picture);
        assert_eq!(page.cells("measured").count(), ran.len());
        assert_eq!(page.cells("start").count(), profile.stages.len());
        assert!(page.says("execute") && page.says("profile on "));
    }
}
