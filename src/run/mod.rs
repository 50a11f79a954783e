//! Running a plan, on the host's cores or on a GPU.
