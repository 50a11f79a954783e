//! A profile as a picture: that of the plan that ran, with the measured times.

use super::Profile;
use crate::picture::{Picture, Stage};

impl Profile {
    /// The plan that ran as one page of HTML, as [`Explanation::to_html`](crate::Explanation::to_html) draws it, with
    /// the measured time of each kernel beside its prediction, and the stages of the run.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.picture().to_html()
    }

    fn picture(&self) -> Picture {
        let mut picture = self.explanation.picture();
        picture.title = format!("Profile on {}", self.device);
        picture.heading.insert(0, self.heading());
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
